package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.io.WritableUtils;

/**
 * Looks at identifiers of block tokens in their older form before HDFS reads them: it takes room for as much as a length says, gigabytes
 * if a stranger wrote one, and only then sees that the bytes are not there.
 */
final class LegacyIdentifier {

  private LegacyIdentifier() {}

  /** An exception if a length is that of more than there is. */
  static void check(byte[] identifier) throws IOException {
    // As HDFS tells the two forms apart; the newer one is a protobuf, whose reader looks for itself.
    if (identifier.length == 0 || identifier[0] > 0) {
      return;
    }
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(identifier))) {
      WritableUtils.readVLong(in); // until when
      WritableUtils.readVInt(in); // the key's number
      skip(in, in.readInt()); // user
      skip(in, in.readInt()); // block pool
      WritableUtils.readVLong(in); // block
      for (int modes = count(in); modes > 0; modes--) {
        skip(in, WritableUtils.readVInt(in));
      }
      for (int types = count(in); types > 0; types--) {
        skip(in, WritableUtils.readVInt(in));
      }
      for (int storages = count(in); storages > 0; storages--) {
        skip(in, in.readInt());
      }
      skip(in, WritableUtils.readVInt(in)); // a message of a handshake
    } catch (EOFException endsBefore) {
      // HDFS takes some that end early, and sees it as well.
    }
  }

  /** Of things that have a byte at least. */
  private static int count(DataInputStream in) throws IOException {
    int count = WritableUtils.readVInt(in);
    if (count < 0 || count > in.available()) {
      throw new IOException("the identifier of a block token that names " + count + " things");
    }
    return count;
  }

  private static void skip(DataInputStream in, int length) throws IOException {
    // A text that is null has -1.
    if (length < -1 || length > in.available()) {
      throw new IOException("the identifier of a block token with a text of " + length + " bytes");
    }
    in.skipNBytes(Math.max(length, 0));
  }
}
