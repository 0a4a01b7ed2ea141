package org.apache.hadoop.hdfs;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.ReadOption;
import org.apache.hadoop.hdfs.shortcircuit.ClientMmap;
import org.apache.hadoop.util.DataChecksum;
import stripeline.hdfs.Answer;
import stripeline.hdfs.Request;

/** Bytes of a lost member, as a gateway decodes them. They are asked for in portions, so that a reader who pauses holds up little. */
final class DecodedBlockReader implements BlockReader {

  /** Asked for at once: long enough for a pipeline, and gone from the network within seconds. */
  private static final long PORTION_BYTES = 8 << 20;

  /** HDFS counts the bytes as those of another rack. */
  private static final int FAR = Integer.MAX_VALUE;

  private final StripelineInputStream stream;
  private final Asking asking;
  private final long end;
  private final ByteBuffer[] into = new ByteBuffer[1];

  /** The next byte that is handed out, and the end of what was asked for. */
  private long position;
  private long portionEnd;
  private Answer answer;

  /** What is asked, and heard beside the bytes. */
  interface Asking {

    /** A request for so many bytes. */
    Request forBytes(long offset, long count);

    /** Members with wrong bytes. */
    void areCorrupt(Set<Integer> members);
  }

  DecodedBlockReader(StripelineInputStream stream, Asking asking, long start, long end) {
    this.stream = stream;
    this.asking = asking;
    this.end = end;
    position = start;
    portionEnd = start;
  }

  @Override
  public int read(ByteBuffer buffer) throws IOException {
    if (position == end) {
      return -1;
    }
    try {
      if (position == portionEnd) {
        nextPortion();
      }
      int count = (int) Math.min(buffer.remaining(), portionEnd - position);
      into[0] = buffer;
      answer.read(into, count);
      position += count;
      if (position == portionEnd) {
        answer.finish();
        asking.areCorrupt(answer.corrupt());
      }
      return count;
    } catch (IOException | RuntimeException trouble) {
      if (answer != null) {
        asking.areCorrupt(answer.corrupt());
      }
      stream.failed(trouble);
      throw trouble;
    }
  }

  private void nextPortion() throws IOException {
    close();
    long count = Math.min(PORTION_BYTES, end - position);
    answer = stream.gateway().ask(asking.forBytes(position, count));
    portionEnd = position + count;
  }

  @Override
  public int read(byte[] buffer, int offset, int length) throws IOException {
    return read(ByteBuffer.wrap(buffer, offset, length));
  }

  /** Nothing of what is passed over is asked for, unless it was already. */
  @Override
  public long skip(long count) throws IOException {
    long to = Math.min(end, position + Math.max(0, count));
    long skipped = to - position;
    if (to > portionEnd || answer == null) {
      close();
      portionEnd = to;
      position = to;
      return skipped;
    }
    byte[] spare = new byte[(int) Math.min(1 << 16, Math.max(1, skipped))];
    while (position < to) {
      readFully(spare, 0, (int) Math.min(spare.length, to - position));
    }
    return skipped;
  }

  @Override
  public int available() {
    return 0;
  }

  @Override
  public void close() throws IOException {
    if (answer != null) {
      answer.close();
      answer = null;
    }
  }

  @Override
  public void readFully(byte[] buffer, int offset, int length) throws IOException {
    if (readAll(buffer, offset, length) < length) {
      throw new EOFException("the member ends at byte " + end);
    }
  }

  @Override
  public int readAll(byte[] buffer, int offset, int length) throws IOException {
    int done = 0;
    while (done < length) {
      int count = read(buffer, offset + done, length - done);
      if (count < 0) {
        break;
      }
      done += count;
    }
    return done;
  }

  @Override
  public boolean isShortCircuit() {
    return false;
  }

  @Override
  public ClientMmap getClientMmap(EnumSet<ReadOption> options) {
    return null;
  }

  /** Each frame was checked when it came. */
  @Override
  public DataChecksum getDataChecksum() {
    return DataChecksum.newDataChecksum(DataChecksum.Type.NULL, 512);
  }

  @Override
  public int getNetworkDistance() {
    return FAR;
  }
}
