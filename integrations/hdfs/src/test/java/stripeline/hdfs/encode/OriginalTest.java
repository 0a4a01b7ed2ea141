package stripeline.hdfs.encode;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.EnumSet;
import java.util.List;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.junit.jupiter.api.Test;
import stripeline.hdfs.encode.NotEncodedException.Reason;

class OriginalTest {

  /** The NameNode says of a file by its raw name that it is encrypted, and not with which key. */
  @Test
  void whatIsEncryptedIsLeftAlsoWhereItsKeyIsNotShown() throws NotEncodedException {
    HdfsFileStatus raw = new HdfsFileStatus.Builder().length(1).flags(EnumSet.of(HdfsFileStatus.Flags.HAS_CRYPT)).build();
    assertEquals(Reason.ENCRYPTED,
        assertThrows(NotEncodedException.class, () -> Original.checkNotEncrypted(raw)).reason());
    Original.checkNotEncrypted(new HdfsFileStatus.Builder().length(1).flags(EnumSet.noneOf(HdfsFileStatus.Flags.class)).build());
  }

  @Test
  void reservedPathsAreLeft() throws NotEncodedException {
    for (String path : List.of("/.reserved", "/.reserved/raw/zone/file", "/.reserved/.inodes/16386")) {
      assertEquals(Reason.RESERVED, assertThrows(NotEncodedException.class, () -> Original.checkPath(path)).reason());
    }
    for (String path : List.of("/file", "/.reserved-not/file", "/folder/.reserved/file")) {
      Original.checkPath(path);
    }
  }
}
