package org.apache.hadoop.hdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.fs.FileRange;
import org.junit.jupiter.api.Test;

/** HDFS's own streams with our readers in them, over members in memory. */
class StripelineInputStreamTest {

  private static final int CELL = 64 * 1024;

  /** Reads so many bytes at a position. */
  private interface Read {
    byte[] bytes(StripelineInputStream in, long position, int length) throws Exception;
  }

  private static byte[] withoutMargin(ByteBuffer buffer, int margin, int length) {
    assertEquals(margin + length, buffer.position());
    byte[] bytes = new byte[length];
    buffer.duplicate().position(margin).get(bytes);
    return bytes;
  }

  /** All ways to read by position. */
  private static Map<String, Read> reads() {
    Map<String, Read> reads = new LinkedHashMap<>();
    reads.put("into an array", (in, position, length) -> {
      byte[] bytes = new byte[length + 20];
      assertEquals(length, in.read(position, bytes, 7, length));
      return Arrays.copyOfRange(bytes, 7, 7 + length);
    });
    reads.put("into a buffer", (in, position, length) -> {
      ByteBuffer buffer = ByteBuffer.allocate(length + 20).position(7).limit(7 + length);
      assertEquals(length, in.read(position, buffer));
      return withoutMargin(buffer, 7, length);
    });
    reads.put("into a direct buffer", (in, position, length) -> {
      ByteBuffer buffer = ByteBuffer.allocateDirect(length + 20).position(7).limit(7 + length);
      assertEquals(length, in.read(position, buffer));
      return withoutMargin(buffer, 7, length);
    });
    reads.put("an array in full", (in, position, length) -> {
      byte[] bytes = new byte[length];
      in.readFully(position, bytes);
      return bytes;
    });
    reads.put("a buffer in full", (in, position, length) -> {
      ByteBuffer buffer = ByteBuffer.allocate(length);
      in.readFully(position, buffer);
      return withoutMargin(buffer, 0, length);
    });
    reads.put("vectored", (in, position, length) -> {
      FileRange range = FileRange.createFileRange(position, length);
      in.readVectored(List.of(range), ByteBuffer::allocate);
      byte[] bytes = new byte[length];
      range.getData().get(1, TimeUnit.MINUTES).get(bytes);
      return bytes;
    });
    reads.put("in order", (in, position, length) -> {
      in.seek(position);
      return in.readNBytes(length);
    });
    return reads;
  }

  @Test
  void allBytesAreRightWhereverAGatewayBreaksOff() throws Exception {
    PaperGroup group = new PaperGroup(3, 2, CELL, 5, 1);
    for (int breaksOffAfter : new int[] {0, CELL / 2, CELL, CELL + CELL / 2, 2 * CELL, 3 * CELL + 1, 5 * CELL}) {
      for (Map.Entry<String, Read> read : reads().entrySet()) {
        for (int position : new int[] {0, CELL + 1_000}) {
          int length = group.bytes().length - position - 333;
          String what = read.getKey() + " from " + position + ", broken off after " + breaksOffAfter;
          try (PaperGateway gateway = new PaperGateway(group.lostMember(), breaksOffAfter);
              StripelineInputStream in = group.open(gateway.address(), (member, rest) -> rest.getAsInt())) {
            byte[] bytes = read.getValue().bytes(in, position, length);
            assertArrayEquals(Arrays.copyOfRange(group.bytes(), position, position + length), bytes, what);
            assertEquals(1, gateway.requests(), what + ": whoever failed is let alone");
          }
        }
      }
    }
  }

  @Test
  void aPieceWhoseReadFailedIsForgotten() throws Exception {
    int cell = 2 << 20;
    int piece = StripelineInputStream.PIECE_BYTES;
    PaperGroup group = new PaperGroup(9, 3, cell, 1, 11);
    AtomicBoolean fails = new AtomicBoolean();
    CountDownLatch isWritten = new CountDownLatch(1);
    // The second piece is of members 2 and 3: one is read, then everybody else is in trouble.
    PaperGroup.Reads reads = (member, read) -> {
      if (!fails.get()) {
        return read.getAsInt();
      }
      if (member == 2) {
        int count = read.getAsInt();
        isWritten.countDown();
        return count;
      }
      await(isWritten);
      throw new IOException("member " + member + " is in trouble");
    };
    try (StripelineInputStream in = group.open("127.0.0.1:1", reads)) {
      byte[] first = in.readNBytes(1_000);
      assertArrayEquals(Arrays.copyOf(group.bytes(), 1_000), first);
      in.seek(piece);
      fails.set(true);
      assertThrows(IOException.class, () -> in.read(new byte[1_000]));
      assertEquals(0, isWritten.getCount(), "the piece was overwritten in part");
      fails.set(false);
      in.seek(0);
      assertArrayEquals(group.bytes(), in.readAllBytes());
    }
  }

  private static void await(CountDownLatch latch) throws IOException {
    try {
      latch.await(1, TimeUnit.MINUTES);
    } catch (InterruptedException ended) {
      throw new IOException(ended);
    }
  }
}
