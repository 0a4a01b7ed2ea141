package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.util.Time;

/**
 * Asks the NameNode for the next blocks to rebuild. It gives orders in answer to heartbeats, every three seconds, and no more than
 * {@code dfs.namenode.replication.max-streams} at once: through helpers these are done long before the next one.
 */
final class Orders {

  /** A NameNode answers tens of thousands of heartbeats in a second: this adds no more than ten for each DataNode that rebuilds. */
  private static final long LEAST_MS = 100;

  private final DataNode datanode;
  private final Internals internals;
  private final AtomicLong lastMs = new AtomicLong(Time.monotonicNow() - LEAST_MS);

  Orders(DataNode datanode, Internals internals) {
    this.datanode = datanode;
    this.internals = internals;
  }

  /** The next heartbeat comes now, unless one has just been asked for: then when it would have. */
  void ask() {
    long now = Time.monotonicNow();
    long last = lastMs.get();
    if (now - last < LEAST_MS || !lastMs.compareAndSet(last, now)) {
      return;
    }
    try {
      internals.heartbeatNow(datanode);
    } catch (ReflectiveOperationException | RuntimeException missing) {
      StripelinePlugin.LOG.warn("the next orders come with the usual heartbeat", missing);
    }
  }
}
