package stripeline.hdfs;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.zip.CRC32C;

/**
 * The frames that answer a request: bytes of all wanted members, abreast. Not for several threads.
 *
 * <p>Every byte that is handed out fits the checksum of its frame, and follows the one before it. Whatever else comes, or
 * nothing in time, is an {@link IOException}.
 */
public final class Answer implements Closeable {

  private static final int FRAME_VERSION = 1;
  private static final int HEAD_BYTES = 12;
  private static final int DATA_HEAD_BYTES = 12;
  private static final int DATA = 1;
  private static final int END = 2;
  private static final int ERROR = 3;
  private static final int CORRUPT = 4;

  /** A data frame has at most 1 MiB of bytes, and others have a sentence. */
  private static final int MAX_FRAME_BYTES = 2 << 20;

  private final DataInputStream in;
  private final Closeable connection;
  private final int members;
  private final long end;
  private final CRC32C sum = new CRC32C();
  private final byte[] head = new byte[HEAD_BYTES];

  /** The payload of the present frame, as long as it is needed. */
  private byte[] payload = new byte[0];

  /** Where bytes of the first member in {@code payload} go on, and how many there are of each. */
  private int taken;
  private int each;

  /** The next byte that comes from the socket. */
  private long position;
  private String note = "";
  private final SortedSet<Integer> corrupt = new TreeSet<>();

  Answer(DataInputStream in, Closeable connection, Request request) {
    this.in = in;
    this.connection = connection;
    members = request.wanted().size();
    position = request.offset();
    end = request.offset() + request.length();
  }

  /**
   * Puts as many bytes of each wanted member into the buffer in its place; one that is null takes none.
   *
   * @throws IOException if they do not come
   */
  public void read(ByteBuffer[] into, int length) throws IOException {
    if (into.length != members) {
      throw new IllegalArgumentException(members + " members are wanted, not " + into.length);
    }
    int left = length;
    while (left > 0) {
      if (taken == each) {
        nextData();
      }
      int count = Math.min(left, each - taken);
      for (int member = 0; member < members; member++) {
        if (into[member] != null) {
          into[member].put(payload, DATA_HEAD_BYTES + member * each + taken, count);
        }
      }
      taken += count;
      left -= count;
    }
  }

  /**
   * Waits until the gateway says that all came.
   *
   * @throws IOException if it says anything else
   */
  public void finish() throws IOException {
    if (taken != each || position != end) {
      throw new IOException("bytes were left over");
    }
    int length = frame(END);
    ByteBuffer fields = ByteBuffer.wrap(payload, 0, length);
    fields.getLong();
    note = text(fields);
  }

  /** How it was, as the gateway says, for people. */
  public String note() {
    return note;
  }

  /**
   * Living members whose helpers have met bytes that differ from their checksums. All of them are known once {@link #finish} has
   * returned, or anything has thrown a {@link GatewayException}.
   */
  public SortedSet<Integer> corrupt() {
    return corrupt;
  }

  @Override
  public void close() throws IOException {
    connection.close();
  }

  private void nextData() throws IOException {
    int length = frame(DATA);
    ByteBuffer fields = ByteBuffer.wrap(payload, 0, length);
    if (length < DATA_HEAD_BYTES) {
      throw new IOException("a data frame of " + length + " bytes");
    }
    long offset = fields.getLong();
    int count = fields.getInt();
    if (offset != position || count <= 0 || count > end - position
        || length - DATA_HEAD_BYTES != (long) count * members) {
      throw new IOException("a data frame for " + count + " bytes at " + offset + ", expected were those at " + position);
    }
    position += count;
    taken = 0;
    each = count;
  }

  /** Reads the next frame into {@code payload}; its length. An error is thrown, and a frame of another kind is one. */
  private int frame(int expected) throws IOException {
    int length = frame();
    try {
      while (head[0] == CORRUPT) {
        ByteBuffer members = ByteBuffer.wrap(payload, 0, length);
        for (int count = members.getShort(); count > 0; count--) {
          corrupt.add((int) members.getShort());
        }
        length = frame();
      }
      if (head[0] == ERROR) {
        ByteBuffer error = ByteBuffer.wrap(payload, 0, length);
        throw new GatewayException(error.getShort(), text(error));
      }
    } catch (java.nio.BufferUnderflowException brokenOff) {
      throw new IOException("a frame that breaks off", brokenOff);
    }
    if (head[0] != expected) {
      throw new IOException("a frame of kind " + head[0] + ", expected was one of kind " + expected);
    }
    return length;
  }

  /** Reads any frame; its kind is in {@code head}. */
  private int frame() throws IOException {
    try {
      in.readFully(head);
      ByteBuffer fields = ByteBuffer.wrap(head);
      fields.getShort();
      int version = fields.getShort();
      int length = fields.getInt();
      int checksum = fields.getInt();
      if (version != FRAME_VERSION || length < 0 || length > MAX_FRAME_BYTES) {
        throw new IOException("a frame of version " + version + " with " + length + " bytes");
      }
      if (payload.length < length) {
        payload = new byte[length];
      }
      in.readFully(payload, 0, length);
      sum.reset();
      sum.update(payload, 0, length);
      if ((int) sum.getValue() != checksum) {
        throw new IOException("a frame that differs from its checksum");
      }
      return length;
    } catch (EOFException gone) {
      throw new IOException("the gateway closed the connection at byte " + position + " of " + end, gone);
    }
  }

  private static String text(ByteBuffer fields) {
    byte[] bytes = new byte[Short.toUnsignedInt(fields.getShort())];
    fields.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
