package stripeline.hdfs.encode;

import java.io.Closeable;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.BlockReader;
import org.apache.hadoop.hdfs.client.impl.BlockReaderRemote;
import org.apache.hadoop.hdfs.net.Peer;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.datanode.CachingStrategy;
import org.apache.hadoop.util.DataChecksum;

/** Reads a block from whichever of its DataNodes has it whole, checked against its checksums. Not for several threads. */
final class BlockInput implements Closeable {

  private final Peers peers;
  private final LocatedBlock block;
  private final String client;
  private final Configuration conf;

  /** Which of its DataNodes is asked; those before it failed. */
  private int at;
  private BlockReader reader;
  private Peer peer;
  private long position;
  private long end;

  BlockInput(Peers peers, LocatedBlock block, String client, Configuration conf) {
    this.peers = peers;
    this.block = block;
    this.client = client;
    this.conf = conf;
    end = block.getBlockSize();
  }

  /** Where the next bytes come from, and how many are wanted at most: a DataNode sends ahead what it is asked for. */
  void seek(long to, long count) {
    close();
    position = to;
    end = Math.min(block.getBlockSize(), to + count);
  }

  /** Which checksums the block has. */
  DataChecksum checksum() throws IOException {
    while (reader == null) {
      open(null);
    }
    return reader.getDataChecksum();
  }

  /** Fills so much of the buffer with the block's next bytes. */
  void readFully(byte[] into, int length) throws IOException {
    int done = 0;
    IOException trouble = null;
    while (done < length) {
      if (reader == null) {
        open(trouble);
      }
      try {
        int count = reader.read(into, done, length - done);
        if (count <= 0) {
          throw new IOException(block.getBlock() + " ends at " + position);
        }
        done += count;
        position += count;
      } catch (IOException broken) {
        // What it brought so far was right; another one goes on.
        close();
        at++;
        trouble = broken;
      }
    }
  }

  /** At the first DataNode that takes the request. */
  private void open(IOException trouble) throws IOException {
    IOException last = trouble;
    DatanodeInfo[] all = block.getLocations();
    for (; at < all.length; at++) {
      try {
        peer = peers.connect(all[at], block.getBlock(), block.getBlockToken());
        reader = BlockReaderRemote.newBlockReader(block.getBlock().toString(), block.getBlock(), block.getBlockToken(),
            position, end - position, true, client, peer, all[at], null,
            CachingStrategy.newDefaultStrategy(), -1, conf);
        return;
      } catch (IOException away) {
        close();
        last = away;
      }
    }
    throw new IOException("no DataNode has " + block.getBlock() + " whole", last);
  }

  @Override
  public void close() {
    if (reader != null) {
      try {
        reader.close();
      } catch (IOException gone) {
        // Nothing was left to be read.
      }
    }
    org.apache.hadoop.io.IOUtils.closeStream(peer);
    reader = null;
    peer = null;
  }
}
