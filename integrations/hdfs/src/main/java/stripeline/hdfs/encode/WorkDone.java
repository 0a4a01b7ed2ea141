package stripeline.hdfs.encode;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;

/**
 * What became of a {@link Work}.
 *
 * @param crcs the CRC of each target, all of whose bytes its DataNode has checked and acknowledged
 * @param byHelpers whether parities came through a gateway
 * @param note for people
 */
record WorkDone(int[] crcs, boolean byHelpers, String note) {

  /** A note is a sentence. */
  private static final int MAX_NOTE_CHARS = 1_000;

  byte[] toBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeShort(crcs.length);
      for (int crc : crcs) {
        out.writeInt(crc);
      }
      out.writeBoolean(byHelpers);
      out.writeUTF(note.substring(0, Math.min(note.length(), MAX_NOTE_CHARS)));
    } catch (IOException never) {
      throw new IllegalStateException(never);
    }
    return bytes.toByteArray();
  }

  static WorkDone of(byte[] bytes) throws IOException {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
    int[] crcs = new int[in.readUnsignedShort()];
    for (int i = 0; i < crcs.length; i++) {
      crcs[i] = in.readInt();
    }
    return new WorkDone(crcs, in.readBoolean(), in.readUTF());
  }
}
