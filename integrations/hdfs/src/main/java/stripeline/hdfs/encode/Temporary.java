package stripeline.hdfs.encode;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;

/**
 * The encoded file beside the original.
 *
 * @param path where it was made, and is until it takes the place of the original
 * @param inode which it is, wherever it is
 */
record Temporary(DFSClient client, String path, long inode) {

  /**
   * Removes it from where it was made: whether it was there. It is named by this path, for its inode may be under the user's name
   * already; and a rename that the NameNode gets to later finds nothing that it could put there.
   */
  boolean remove() throws IOException {
    return is(path, inode) && client.getNamenode().delete(path, false);
  }

  /** Whether this inode is at this path now. */
  boolean is(String path, long inode) throws IOException {
    try {
      HdfsFileStatus there = client.getFileInfo(path);
      // The path of an inode that only a snapshot has leads to whatever has its name now.
      return there != null && there.getFileId() == inode;
    } catch (FileNotFoundException none) {
      // So says the NameNode of inodes.
      return false;
    }
  }
}
