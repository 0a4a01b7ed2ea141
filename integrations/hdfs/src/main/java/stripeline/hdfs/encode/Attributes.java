package stripeline.hdfs.encode;

import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.AclUtil;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/** What a file has beside its bytes. */
final class Attributes {

  private Attributes() {}

  /** The storage policy, before blocks are placed. */
  static void copyStoragePolicy(DistributedFileSystem fs, HdfsFileStatus from, HdfsFileStatus to) throws IOException {
    if (from.getStoragePolicy() != to.getStoragePolicy()) {
      String name = fs.getClient().getStoragePolicy(Original.byInode(from.getFileId())).getName();
      fs.getClient().getNamenode().setStoragePolicy(Original.byInode(to.getFileId()), name);
    }
  }

  /** All others, the times last. */
  static void copy(DistributedFileSystem fs, HdfsFileStatus from, long to) throws IOException {
    ClientProtocol namenode = fs.getClient().getNamenode();
    Path original = new Path(Original.byInode(from.getFileId()));
    String copy = Original.byInode(to);
    HdfsFileStatus made = namenode.getFileInfo(copy);
    if (!made.getOwner().equals(from.getOwner()) || !made.getGroup().equals(from.getGroup())) {
      namenode.setOwner(copy, from.getOwner(), from.getGroup());
    }
    if (made.hasAcl()) {
      // From its folder's default.
      namenode.removeAcl(copy);
    }
    namenode.setPermission(copy, from.getPermission());
    if (from.hasAcl()) {
      namenode.setAcl(copy,
          AclUtil.getAclFromPermAndEntries(from.getPermission(), fs.getAclStatus(original).getEntries()));
    }
    for (Map.Entry<String, byte[]> attribute : extended(fs, original).entrySet()) {
      fs.setXAttr(new Path(copy), attribute.getKey(), attribute.getValue());
    }
    namenode.setTimes(copy, from.getModificationTime(), from.getAccessTime());
    check(from, namenode.getFileInfo(copy));
  }

  private static Map<String, byte[]> extended(DistributedFileSystem fs, Path of) throws IOException {
    try {
      return fs.getXAttrs(of);
    } catch (UnsupportedOperationException | org.apache.hadoop.ipc.RemoteException none) {
      if (none instanceof org.apache.hadoop.ipc.RemoteException remote
          && !UnsupportedOperationException.class.getName().equals(remote.getClassName())) {
        throw remote;
      }
      // The NameNode keeps none: dfs.namenode.xattrs.enabled.
      return Map.of();
    }
  }

  private static void check(HdfsFileStatus from, HdfsFileStatus made) throws IOException {
    if (!areSame(from, made)) {
      throw new NotEncodedException(Reason.DIFFERS, "what was written has other attributes: " + made + ", not " + from);
    }
  }

  private static boolean areSame(HdfsFileStatus one, HdfsFileStatus other) {
    return other.getOwner().equals(one.getOwner()) && other.getGroup().equals(one.getGroup())
        && other.getPermission().toShort() == one.getPermission().toShort() && other.hasAcl() == one.hasAcl()
        && other.getModificationTime() == one.getModificationTime() && other.getStoragePolicy() == one.getStoragePolicy()
        && other.getLen() == one.getLen();
  }

  /**
   * Whether two inodes have the same, as of now: length, modification time, owner, group, permissions, storage policy, entries of
   * the ACL, extended attributes. Not the access time: whoever reads changes it.
   */
  static boolean areSame(DistributedFileSystem fs, long one, long other) throws IOException {
    Path first = new Path(Original.byInode(one));
    Path second = new Path(Original.byInode(other));
    // What append says of a file lacks its storage policy.
    HdfsFileStatus status = fs.getClient().getFileInfo(Original.byInode(one));
    HdfsFileStatus made = fs.getClient().getFileInfo(Original.byInode(other));
    return status != null && made != null && areSame(status, made)
        && (!status.hasAcl() || fs.getAclStatus(first).getEntries().equals(fs.getAclStatus(second).getEntries()))
        && areSame(extended(fs, first), extended(fs, second));
  }

  private static boolean areSame(Map<String, byte[]> one, Map<String, byte[]> other) {
    return one.keySet().equals(other.keySet())
        && one.entrySet().stream().allMatch(each -> Arrays.equals(each.getValue(), other.get(each.getKey())));
  }
}
