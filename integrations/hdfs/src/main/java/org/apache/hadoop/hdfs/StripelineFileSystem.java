package org.apache.hadoop.hdfs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import stripeline.hdfs.Versions;

/**
 * HDFS, whose erasure-coded files are read through Stripeline's helpers where blocks are lost: {@code fs.hdfs.impl} names this
 * class. Everything else is HDFS's own client, and so is decoding when helpers cannot.
 */
public class StripelineFileSystem extends DistributedFileSystem {

  @Override
  void initDFSClient(URI uri, Configuration conf) throws IOException {
    if (Versions.trouble() != null) {
      StripelineClient.LOG.error("{}: files are read as HDFS does it", Versions.trouble());
      super.initDFSClient(uri, conf);
      return;
    }
    dfs = new StripelineClient(uri, conf, statistics);
  }
}
