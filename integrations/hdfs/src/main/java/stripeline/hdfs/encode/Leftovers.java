package stripeline.hdfs.encode;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.util.Time;

/**
 * Encoded files that other encoders have closed, and that did not take anybody's place yet. Whoever verifies such a file has no lease
 * of it, so he shows that he lives by its modification time, which he sets as often as he renews his leases. One that stays as it is
 * for a minute by the clock of whoever looks has nobody.
 */
final class Leftovers {

  /** As the NameNode takes a writer's file for nobody's; twelve signs of life would have been given. */
  static final long SILENT_MS = 60_000;

  /** An encoder leaves no more than it has files at once, which is 64: enough for sixteen that ended. Others are left to the next run. */
  static final int MAX = 1_024;

  private record Look(long modificationTime, long atMs) {}

  private final Map<Long, Look> looks = new HashMap<>();

  /** Whether nobody has this file any more: never at the first look. */
  synchronized boolean isAbandoned(HdfsFileStatus closed) {
    return isAbandoned(closed.getFileId(), closed.getModificationTime(), Time.monotonicNow());
  }

  synchronized boolean isAbandoned(long inode, long modificationTime, long nowMs) {
    Look first = looks.get(inode);
    if (first != null && first.modificationTime() == modificationTime) {
      return nowMs - first.atMs() >= SILENT_MS;
    }
    if (first != null || looks.size() < MAX) {
      looks.put(inode, new Look(modificationTime, nowMs));
    }
    return false;
  }

  /** A sign of life: times that no clock gives, each another one. */
  static Lease.Telling signs(Temporary made) {
    return new Lease.Telling() {
      private long next = 1;

      @Override
      public void tell() throws java.io.IOException {
        made.client().getNamenode().setTimes(Original.byInode(made.inode()), next++, -1);
      }
    };
  }
}
