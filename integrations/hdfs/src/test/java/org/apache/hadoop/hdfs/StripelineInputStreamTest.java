package org.apache.hadoop.hdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.apache.hadoop.fs.ChecksumException;
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

  /** How a DataNode's reader ends too soon. */
  private enum Ending {
    GONE, WRONG_BYTES, SHORT, BROKEN;

    int end(long at) throws IOException {
      return switch (this) {
        case GONE -> throw new IOException("gone at " + at);
        case WRONG_BYTES -> throw new ChecksumException("wrong bytes", at);
        case SHORT -> -1;
        case BROKEN -> throw new IllegalStateException("broken at " + at);
      };
    }
  }

  /** The reader, which has come to a byte of its member, and breaks off at another one. */
  private static BlockReader breaking(BlockReader reader, int offset, int breaksOffAt, Ending ending) {
    AtomicInteger at = new AtomicInteger(offset);
    return (BlockReader) Proxy.newProxyInstance(BlockReader.class.getClassLoader(), new Class<?>[] {BlockReader.class},
        (proxy, method, arguments) -> {
          switch (method.getName()) {
            case "read":
              if (at.get() >= breaksOffAt) {
                return ending.end(at.get());
              }
              ByteBuffer into = (ByteBuffer) arguments[0];
              int limit = into.limit();
              into.limit(into.position() + Math.min(into.remaining(), breaksOffAt - at.get()));
              int count = reader.read(into);
              into.limit(limit);
              at.addAndGet(count);
              return count;
            case "skip":
              at.addAndGet(((Long) arguments[0]).intValue());
              return reader.skip((Long) arguments[0]);
            default:
              return method.invoke(reader, arguments);
          }
        });
  }

  /** Whatever way of reading, and wherever it begins: the bytes are right though these members' DataNodes break off at these bytes. */
  private static void assertRight(PaperGroup group, Map<Integer, Integer> breaksOffAt, Ending ending) throws Exception {
    PaperGroup.Readers readers = (member, offset) -> {
      BlockReader reader = group.reader(member, offset, (any, rest) -> rest.getAsInt());
      Integer at = breaksOffAt.get(member);
      return at == null ? reader : breaking(reader, offset, at, ending);
    };
    for (Map.Entry<String, Read> read : reads().entrySet()) {
      for (int position : new int[] {0, CELL + 1_000}) {
        int length = group.bytes().length - position - 333;
        try (StripelineInputStream in = group.openWith("127.0.0.1:1", readers)) {
          byte[] bytes = read.getValue().bytes(in, position, length);
          String what = read.getKey() + " from " + position + ", of members broken off at " + breaksOffAt + ", " + ending;
          assertArrayEquals(Arrays.copyOfRange(group.bytes(), position, position + length), bytes, what);
        }
      }
    }
  }

  @Test
  void allBytesAreRightWhereverADataNodeBreaksOff() throws Exception {
    PaperGroup group = new PaperGroup(3, 2, CELL, 5, PaperGroup.NONE);
    for (Ending ending : Ending.values()) {
      for (int at : new int[] {0, CELL / 2, CELL, CELL + CELL / 2, 2 * CELL, 3 * CELL + 1}) {
        assertRight(group, Map.of(ending.ordinal() % 3, at), ending);
      }
    }
  }

  @Test
  void allBytesAreRightWhereverTwoDataNodesBreakOff() throws Exception {
    PaperGroup group = new PaperGroup(3, 2, CELL, 5, PaperGroup.NONE);
    for (Ending ending : List.of(Ending.GONE, Ending.WRONG_BYTES, Ending.SHORT)) {
      assertRight(group, Map.of(0, CELL, 2, 3 * CELL + 1), ending);
      assertRight(group, Map.of(1, 2 * CELL, 2, 2 * CELL), ending);
      // A parity, which is read when the other one is known to be missing.
      assertRight(group, Map.of(0, CELL + CELL / 2, 3, 2 * CELL), ending);
    }
    PaperGroup withoutOne = new PaperGroup(3, 2, CELL, 5, 1);
    assertRight(withoutOne, Map.of(0, 2 * CELL), Ending.GONE);
    assertRight(withoutOne, Map.of(3, 2 * CELL), Ending.GONE);
  }

  @Test
  void whatBreaksOffIsReadOnceMoreUntilAGroupHasTooFewMembers() throws Exception {
    PaperGroup group = new PaperGroup(3, 2, CELL, 5, PaperGroup.NONE);
    for (int breaking = 0; breaking <= 3; breaking++) {
      int broken = breaking;
      AtomicIntegerArray opened = new AtomicIntegerArray(5);
      // In each reading of the whole another one breaks off.
      PaperGroup.Readers readers = (member, offset) -> {
        BlockReader reader = group.reader(member, offset, (any, rest) -> rest.getAsInt());
        boolean breaksOff = opened.incrementAndGet(member) == member + 1 && member < broken;
        return breaksOff ? breaking(reader, offset, CELL + 1, Ending.GONE) : reader;
      };
      byte[] bytes = new byte[group.bytes().length];
      try (StripelineInputStream in = group.openWith("127.0.0.1:1", readers)) {
        if (broken <= 2) {
          assertEquals(bytes.length, in.read(0, bytes, 0, bytes.length));
          assertArrayEquals(group.bytes(), bytes);
        } else {
          assertThrows(IOException.class, () -> in.read(0, bytes, 0, bytes.length));
        }
      }
      for (int member = 0; member < 3; member++) {
        assertEquals(Math.min(Math.min(broken, 2), member) + 1, opened.get(member), "readers of member " + member + " of " + broken);
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
