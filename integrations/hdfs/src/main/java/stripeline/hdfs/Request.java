package stripeline.hdfs;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;
import java.util.zip.CRC32C;
import org.apache.hadoop.security.token.Token;

/**
 * Bytes of members of a block group that a gateway is asked for (docs/formats.md, "The gateway").
 *
 * @param pool the block pool
 * @param group the group's id
 * @param stamp the generation stamp of its blocks
 * @param codec {@code rs}, {@code rs-legacy} or {@code xor}
 * @param cellBytes bytes of a cell
 * @param dataBytes bytes of data in the group
 * @param offset the first byte of each member that is wanted
 * @param length how many of each
 * @param purpose what for
 * @param scheme by which scheme; empty: the gateway's choice
 * @param wanted which members, in this order
 * @param living who has the others; to encode, as which replicas
 */
public record Request(
    String pool, long group, long stamp, String codec, int dataUnits, int parityUnits, int cellBytes, long dataBytes,
    long offset, long length, Purpose purpose, String scheme, List<Integer> wanted, List<Member> living) {

  static final int VERSION = 2;

  private static final byte[] MAGIC = {'S', 'L', 'G', 'R'};

  /** What the bytes are for: they are charged to the budget of that kind of traffic. */
  public enum Purpose {
    /** Somebody reads them. */
    READ(1),
    /** They are parities of a file that was replicated; the living members are replicas. */
    ENCODE(2),
    /** They will be written again. */
    REBUILD(3);

    private final int kind;

    Purpose(int kind) {
      this.kind = kind;
    }
  }

  /** A gateway takes no longer ones. */
  private static final int MAX_BODY_BYTES = 256 * 1024;

  /**
   * A member that a DataNode has, and the rack where HDFS has the DataNode. With a replica, it is that block.
   *
   * @param token the block token with which its DataNode lets it be read; null or empty: none
   */
  public record Member(int index, UUID datanode, String rack, Replica replica, Token<?> token) {

    /** One that is a block of the group. */
    public Member(int index, UUID datanode, String rack, Token<?> token) {
      this(index, datanode, rack, null, token);
    }
  }

  /** A block of a replicated file: its id, and its generation stamp. */
  public record Replica(long block, long stamp) {}

  /** The request as bytes. */
  byte[] toBytes() throws IOException {
    byte[] body = body();
    if (body.length > MAX_BODY_BYTES) {
      throw new IOException("a request of " + body.length + " bytes, at most " + MAX_BODY_BYTES + " are taken");
    }
    CRC32C sum = new CRC32C();
    sum.update(body);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(16 + body.length);
    DataOutputStream out = new DataOutputStream(bytes);
    out.write(MAGIC);
    out.writeShort(VERSION);
    out.writeShort(0);
    out.writeInt(body.length);
    out.writeInt((int) sum.getValue());
    out.write(body);
    return bytes.toByteArray();
  }

  private byte[] body() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeByte(purpose.kind);
    text(out, pool);
    out.writeLong(group);
    out.writeLong(stamp);
    text(out, codec);
    out.writeShort(dataUnits);
    out.writeShort(parityUnits);
    out.writeInt(cellBytes);
    out.writeLong(dataBytes);
    out.writeLong(offset);
    out.writeLong(length);
    text(out, scheme);
    out.writeShort(wanted.size());
    for (int index : wanted) {
      out.writeShort(index);
    }
    out.writeShort(living.size());
    for (Member member : living) {
      out.writeShort(member.index());
      out.writeLong(member.datanode().getMostSignificantBits());
      out.writeLong(member.datanode().getLeastSignificantBits());
      text(out, member.rack());
      if (purpose == Purpose.ENCODE) {
        out.writeLong(member.replica().block());
        out.writeLong(member.replica().stamp());
      }
      counted(out, member.token() == null ? new byte[0] : member.token().getIdentifier());
      counted(out, member.token() == null ? new byte[0] : member.token().getPassword());
    }
    return bytes.toByteArray();
  }

  private static void text(DataOutputStream out, String text) throws IOException {
    counted(out, text.getBytes(StandardCharsets.UTF_8));
  }

  private static void counted(DataOutputStream out, byte[] bytes) throws IOException {
    if (bytes.length > 0xffff) {
      throw new IOException("a text or token of " + bytes.length + " bytes");
    }
    out.writeShort(bytes.length);
    out.write(bytes);
  }
}
