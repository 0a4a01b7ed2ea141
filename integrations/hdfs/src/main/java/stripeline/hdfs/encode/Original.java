package stripeline.hdfs.encode;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DirectoryListing;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/** A replicated file as it was when its encoding began, and that it can be encoded at all. */
record Original(String path, HdfsFileStatus status, List<LocatedBlock> blocks) {

  /** The path of an inode, wherever it is in the namespace. */
  static String byInode(long inode) {
    return Path.SEPARATOR + HdfsConstants.DOT_RESERVED_STRING + Path.SEPARATOR + HdfsConstants.DOT_INODES_STRING
        + Path.SEPARATOR + inode;
  }

  /** Looks at a file, and refuses what cannot be encoded with this policy. */
  static Original of(DistributedFileSystem fs, String path, ErasureCodingPolicy policy, boolean evenIfLarger)
      throws IOException {
    checkPath(path);
    HdfsFileStatus status = fs.getClient().getFileInfo(path);
    if (status == null || !status.isFile()) {
      throw new FileNotFoundException(path + " is no file");
    }
    if (status.getErasureCodingPolicy() != null) {
      throw new NotEncodedException(Reason.ENCODED, "it has the policy " + status.getErasureCodingPolicy().getName() + " already");
    }
    checkNotEncrypted(status);
    if (status.getLen() == 0) {
      throw new NotEncodedException(Reason.EMPTY, "it has no bytes");
    }
    LocatedBlocks located = fs.getClient().getNamenode().getBlockLocations(path, 0, status.getLen());
    if (located.isUnderConstruction() || !located.isLastBlockComplete() || located.getFileLength() != status.getLen()) {
      throw new NotEncodedException(Reason.OPEN, "it is open for writing");
    }
    Original original = new Original(path, status, List.copyOf(located.getLocatedBlocks()));
    original.checkBlocks(policy);
    original.checkRoom(policy, evenIfLarger);
    original.checkSnapshots(fs);
    return original;
  }

  /** Below that are files by other names: by some of them HDFS hides that they are encrypted, and their folders are no folders. */
  static void checkPath(String path) throws NotEncodedException {
    String reserved = Path.SEPARATOR + HdfsConstants.DOT_RESERVED_STRING;
    if (path.equals(reserved) || path.startsWith(reserved + Path.SEPARATOR)) {
      throw new NotEncodedException(Reason.RESERVED, "files below " + reserved + " are encoded by the names that users give to them");
    }
  }

  static void checkNotEncrypted(HdfsFileStatus status) throws NotEncodedException {
    if (status.getFileEncryptionInfo() != null || status.isEncrypted()) {
      throw new NotEncodedException(Reason.ENCRYPTED, "it is in an encryption zone, whose files only their users can write");
    }
  }

  private void checkBlocks(ErasureCodingPolicy policy) throws NotEncodedException {
    long blockSize = status.getBlockSize();
    if (blockSize != policy.getCellSize()) {
      throw new NotEncodedException(Reason.BLOCK_SIZE, "it has blocks of " + blockSize + " bytes, and " + policy.getName()
          + " cells of " + policy.getCellSize() + ": only blocks as large as a cell can stay where they are");
    }
    if (blockSize * policy.getNumDataUnits() > Integer.MAX_VALUE) {
      throw new NotEncodedException(Reason.TOO_LARGE, "a stripe of " + policy.getNumDataUnits() + " blocks of " + blockSize
          + " bytes is more than HDFS's own streams can read, which is 2 GiB");
    }
    for (int i = 0; i < blocks.size(); i++) {
      LocatedBlock block = blocks.get(i);
      long expected = Math.min(blockSize, status.getLen() - i * blockSize);
      if (block.getBlockSize() != expected) {
        throw new NotEncodedException(Reason.SHORT_BLOCK, "block " + i + " has " + block.getBlockSize() + " bytes, not " + expected
            + ": the file was appended to in blocks of its own, or put together of others");
      }
      if (block.isCorrupt() || block.getLocations().length == 0) {
        throw new NotEncodedException(Reason.LOST_BLOCK, "block " + i + " is on no DataNode that lives");
      }
    }
  }

  /** In blocks: a short last one counts as what it is. */
  private void checkRoom(ErasureCodingPolicy policy, boolean evenIfLarger) throws NotEncodedException {
    long groupBytes = status.getBlockSize() * policy.getNumDataUnits();
    long groups = status.getLen() / groupBytes;
    long rest = status.getLen() - groups * groupBytes;
    long parities = policy.getNumParityUnits() * (groups * status.getBlockSize() + Math.min(rest, status.getBlockSize()));
    if (!evenIfLarger && status.getLen() + parities >= status.getLen() * status.getReplication()) {
      throw new NotEncodedException(Reason.LARGER, "it would take " + (status.getLen() + parities) + " bytes, and takes "
          + status.getLen() * status.getReplication() + " as it is; -all encodes it nevertheless");
    }
  }

  /** A file that a snapshot keeps would stay beside the encoded one. */
  private void checkSnapshots(DistributedFileSystem fs) throws IOException {
    for (Path folder = new Path(path).getParent(); folder != null; folder = folder.getParent()) {
      String snapshots = new Path(folder, HdfsConstants.DOT_SNAPSHOT_DIR).toUri().getPath();
      String below = path.substring(folder.isRoot() ? 1 : folder.toUri().getPath().length() + 1);
      byte[] after = HdfsFileStatus.EMPTY_NAME;
      for (DirectoryListing part; (part = listing(fs, snapshots, after)) != null; after = part.getLastName()) {
        for (HdfsFileStatus snapshot : part.getPartialListing()) {
          String there = snapshots + Path.SEPARATOR + snapshot.getLocalName() + Path.SEPARATOR + below;
          HdfsFileStatus kept = fs.getClient().getFileInfo(there);
          if (kept != null && kept.getFileId() == status.getFileId()) {
            throw new NotEncodedException(Reason.SNAPSHOT, "it is in the snapshot " + there + ", which would keep its replicas");
          }
        }
        if (!part.hasMore()) {
          break;
        }
      }
    }
  }

  /** Null if there are no snapshots of that folder. */
  private static DirectoryListing listing(DistributedFileSystem fs, String snapshots, byte[] after) throws IOException {
    try {
      return fs.getClient().getNamenode().getListing(snapshots, after, false);
    } catch (org.apache.hadoop.ipc.RemoteException error) {
      IOException cause = error.unwrapRemoteException(FileNotFoundException.class);
      if (cause instanceof FileNotFoundException
          || error.getClassName().endsWith("SnapshotException")) {
        return null;
      }
      throw error;
    } catch (FileNotFoundException none) {
      return null;
    }
  }

  /** Looks again. */
  void checkUnchanged(DistributedFileSystem fs) throws IOException {
    if (!is(fs.getClient().getFileInfo(byInode(status.getFileId())))) {
      throw new NotEncodedException(Reason.CHANGED, "it was changed, or deleted, while it was encoded");
    }
  }

  /** Whether an inode is still this one, as it was. */
  boolean is(HdfsFileStatus other) {
    return other != null && other.getFileId() == status.getFileId() && other.getLen() == status.getLen()
        && other.getModificationTime() == status.getModificationTime() && other.getPermission().equals(status.getPermission())
        && other.getOwner().equals(status.getOwner()) && other.getGroup().equals(status.getGroup());
  }
}
