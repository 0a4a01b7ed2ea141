package org.apache.hadoop.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.EnumSet;
import org.apache.hadoop.fs.ReadOption;
import org.apache.hadoop.hdfs.shortcircuit.ClientMmap;
import org.apache.hadoop.util.DataChecksum;

/** Another reader, whose bytes it neither keeps nor copies. It tells when that one has handed out some and will hand out no others. */
final class WatchedBlockReader implements BlockReader {

  private final BlockReader reader;
  private final Runnable brokeOff;
  private boolean hasHandedOut;

  WatchedBlockReader(BlockReader reader, Runnable brokeOff) {
    this.reader = reader;
    this.brokeOff = brokeOff;
  }

  private interface Part {
    int read() throws IOException;
  }

  /** HDFS asks for no byte that a member does not have: an end is one that comes too soon. */
  private int watch(Part part) throws IOException {
    int count = -1;
    try {
      count = part.read();
      return count;
    } finally {
      if (count > 0) {
        hasHandedOut = true;
      } else if (count < 0 && hasHandedOut) {
        brokeOff.run();
      }
    }
  }

  @Override
  public int read(ByteBuffer buffer) throws IOException {
    return watch(() -> reader.read(buffer));
  }

  @Override
  public int read(byte[] buffer, int offset, int length) throws IOException {
    return watch(() -> reader.read(buffer, offset, length));
  }

  @Override
  public void readFully(byte[] buffer, int offset, int length) throws IOException {
    // If it fails, some of them may have come.
    hasHandedOut = true;
    watch(() -> {
      reader.readFully(buffer, offset, length);
      return length;
    });
  }

  @Override
  public int readAll(byte[] buffer, int offset, int length) throws IOException {
    hasHandedOut = true;
    return watch(() -> reader.readAll(buffer, offset, length));
  }

  @Override
  public long skip(long count) throws IOException {
    return reader.skip(count);
  }

  @Override
  public int available() {
    return reader.available();
  }

  @Override
  public void close() throws IOException {
    reader.close();
  }

  @Override
  public boolean isShortCircuit() {
    return reader.isShortCircuit();
  }

  @Override
  public ClientMmap getClientMmap(EnumSet<ReadOption> options) {
    return reader.getClientMmap(options);
  }

  @Override
  public DataChecksum getDataChecksum() {
    return reader.getDataChecksum();
  }

  @Override
  public int getNetworkDistance() {
    return reader.getNetworkDistance();
  }
}
