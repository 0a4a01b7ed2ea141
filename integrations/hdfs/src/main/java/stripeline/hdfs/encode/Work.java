package stripeline.hdfs.encode;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;

/**
 * Blocks of a group that are to be written, and what they are made of. Every block comes with its own token, so whoever asks for
 * the work could do it himself.
 *
 * <p>Without a policy: one source, of which one target is a copy. With one: the sources are the group's data blocks, all that there
 * are, and the targets are its parities, all of them.
 *
 * @param policy how parities are made; null for a copy
 * @param dataBytes bytes of data in the group; of a copy those of its block
 * @param byHelpers whether helpers may make parities: they read the first DataNode of each source, and no other
 */
record Work(ErasureCodingPolicy policy, long dataBytes, List<LocatedBlock> sources, List<LocatedBlock> targets, boolean byHelpers) {

  static Work copy(LocatedBlock source, LocatedBlock target) {
    return new Work(null, source.getBlockSize(), List.of(source), List.of(target), false);
  }

  boolean isCopy() {
    return policy == null;
  }

  /** Bytes of each target. */
  long targetBytes() {
    return isCopy() ? dataBytes : Math.min(dataBytes, policy.getCellSize());
  }

  /** As a message of HDFS's own carries it. No file of such blocks is being written, so that flag says who makes parities. */
  LocatedBlocks toMessage() {
    List<LocatedBlock> all = new ArrayList<>(sources);
    all.addAll(targets);
    return new LocatedBlocks(dataBytes, !byHelpers, all, null, true, null, policy);
  }

  /**
   * What a message asks for.
   *
   * @throws IllegalArgumentException with a sentence, if it makes no sense
   */
  static Work of(LocatedBlocks message) {
    List<LocatedBlock> all = message.getLocatedBlocks();
    ErasureCodingPolicy policy = message.getErasureCodingPolicy();
    long dataBytes = message.getFileLength();
    check(dataBytes > 0, "a group without data");
    int sources = 1;
    int targets = 1;
    if (policy != null) {
      check(dataBytes <= (long) policy.getCellSize() * policy.getNumDataUnits(), "a group of more data than it has room for");
      sources = (int) ((dataBytes - 1) / policy.getCellSize() + 1);
      targets = policy.getNumParityUnits();
    }
    check(all.size() == sources + targets, "a group of " + dataBytes + " bytes with " + all.size() + " blocks");
    Work work = new Work(policy, dataBytes, List.copyOf(all.subList(0, sources)), List.copyOf(all.subList(sources, all.size())),
        !message.isUnderConstruction());
    for (int i = 0; i < sources; i++) {
      check(all.get(i).getLocations().length > 0, "a block that no DataNode has");
      check(all.get(i).getBlockSize() == work.sourceBytes(i), "a data block of " + all.get(i).getBlockSize() + " bytes");
    }
    for (LocatedBlock target : work.targets) {
      check(target.getLocations().length == 1 && target.getStorageIDs() != null && target.getStorageTypes() != null,
          "a block without one DataNode to write it to");
    }
    return work;
  }

  /** Bytes of a source. */
  long sourceBytes(int source) {
    return isCopy() ? dataBytes : Math.min(policy.getCellSize(), dataBytes - (long) source * policy.getCellSize());
  }

  private static void check(boolean holds, String otherwise) {
    if (!holds) {
      throw new IllegalArgumentException(otherwise);
    }
  }
}
