package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.hadoop.util.Time;

/**
 * Blocks of groups on a DataNode that leaves: which of them are rebuilt, and which HDFS copies. A block that is copied takes its bytes of
 * the leaving DataNode's port; one that is rebuilt takes k times as many of the N others' ports. With ports of one rate both end together
 * if k of N + k are copied.
 */
final class LeavingBlocks {

  private final LinkedList<BlockInfoStriped> rebuilt = new LinkedList<>();
  private final List<BlockInfoStriped> copied = new ArrayList<>();

  /** Of a copy, that the blocks so far have left over. */
  private double share;
  private long foundMs = Long.MIN_VALUE;
  private long orderedMs = Long.MIN_VALUE;

  /** Those that are to be rebuilt; who has done so takes them out. */
  Collection<BlockInfoStriped> rebuilt() {
    return rebuilt;
  }

  /** Those that HDFS copies. */
  List<BlockInfoStriped> copied() {
    return copied;
  }

  /** Whether nothing is known, or nothing is left of what was found so long ago. */
  boolean isDue(long afterMs) {
    return foundMs == Long.MIN_VALUE || rebuilt.isEmpty() && Time.monotonicNow() - foundMs >= afterMs;
  }

  /** One of them was ordered. */
  void ordered() {
    orderedMs = Time.monotonicNow();
  }

  /** Whether any was ordered, or they were found, so lately. */
  boolean goOn(long withinMs) {
    return Time.monotonicNow() - Math.max(foundMs, orderedMs) < withinMs;
  }

  /** Parts what a DataNode has of groups and needs another copy. */
  void find(Iterator<BlockInfo> blocks, int others, Predicate<BlockInfo> needs) {
    foundMs = Time.monotonicNow();
    rebuilt.clear();
    copied.clear();
    while (blocks.hasNext()) {
      if (blocks.next() instanceof BlockInfoStriped block && needs.test(block)) {
        part(block, others);
      }
    }
  }

  private void part(BlockInfoStriped block, int others) {
    int k = block.getRealDataBlockNum();
    share += (double) k / (k + others);
    if (share >= 1) {
      share -= 1;
      copied.add(block);
    } else {
      rebuilt.add(block);
    }
  }

  /** Rebuilds what waits to be copied too, if it is more than so much. */
  void rebuildCopied(int few, Predicate<BlockInfo> waits) {
    copied.removeIf(block -> !waits.test(block));
    // The first ones are copied next.
    for (int i = copied.size() - 1; i >= few; i--) {
      rebuilt.add(copied.remove(i));
    }
  }
}
