package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import org.apache.hadoop.metrics2.annotation.Metric;
import org.apache.hadoop.metrics2.annotation.Metrics;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.MutableCounterLong;
import org.apache.hadoop.metrics2.lib.MutableRate;

/** What the plugin did: {@code /jmx?qry=Hadoop:service=DataNode,name=Stripeline}. */
@Metrics(name = "Stripeline", about = "Reconstructions through Stripeline's helpers", context = "dfs")
final class ReconstructionMetrics {

  private static final String NAME = "Stripeline";

  @Metric("Reconstructions through helpers")
  private MutableCounterLong pipelined;

  @Metric("Reconstructions that HDFS's own way took over, before anything was written or after")
  private MutableCounterLong fallBacks;

  @Metric("Bytes rebuilt through helpers")
  private MutableCounterLong pipelinedBytes;

  @Metric("Milliseconds of a reconstruction through helpers")
  private MutableRate pipelinedMs;

  static ReconstructionMetrics register() {
    return DefaultMetricsSystem.instance().register(NAME, null, new ReconstructionMetrics());
  }

  void unregister() {
    DefaultMetricsSystem.instance().unregisterSource(NAME);
  }

  void pipelined(long bytes, long milliseconds) {
    pipelined.incr();
    pipelinedBytes.incr(bytes);
    pipelinedMs.add(milliseconds);
  }

  void fellBack() {
    fallBacks.incr();
  }
}
