package org.apache.hadoop.hdfs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;

/**
 * HDFS, whose erasure-coded files are read through Stripeline's helpers where blocks are lost: {@code fs.hdfs.impl} names this
 * class. Everything else is HDFS's own client, and so is decoding when helpers cannot.
 */
public class StripelineFileSystem extends DistributedFileSystem {

  @Override
  void initDFSClient(URI uri, Configuration conf) throws IOException {
    dfs = new StripelineClient(uri, conf, statistics);
  }
}
