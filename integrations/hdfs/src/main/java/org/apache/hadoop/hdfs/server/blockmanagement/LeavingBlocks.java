package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayDeque;
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

  /** What the DataNode has and is not parted yet, and how many others stay. */
  private final ArrayDeque<BlockInfoStriped> listed = new ArrayDeque<>();
  private int others;

  /** How often in a row nothing was to be rebuilt. */
  private int idle;

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

  /** Whether nothing is known, or nothing is left of what was found long enough ago. */
  boolean isDue(long firstMs, long mostMs) {
    boolean isDone = isParted() && rebuilt.isEmpty();
    return foundMs == Long.MIN_VALUE || isDone && Time.monotonicNow() - foundMs >= pauseMs(firstMs, mostMs);
  }

  /** Twice as long each time that nothing was to be rebuilt, for all that the DataNode has is looked at. */
  long pauseMs(long firstMs, long mostMs) {
    long pauseMs = firstMs;
    for (int i = 0; i < idle && pauseMs < mostMs; i++) {
      pauseMs *= 2;
    }
    return Math.min(pauseMs, mostMs);
  }

  /** One of them was ordered. */
  void ordered() {
    orderedMs = Time.monotonicNow();
  }

  /** Whether any was ordered, or they were found, so lately. */
  boolean goOn(long withinMs) {
    return Time.monotonicNow() - Math.max(foundMs, orderedMs) < withinMs;
  }

  /** Lists what a DataNode has of groups, to be parted. */
  void list(Iterator<BlockInfo> blocks, int others) {
    foundMs = Time.monotonicNow();
    this.others = others;
    rebuilt.clear();
    copied.clear();
    listed.clear();
    while (blocks.hasNext()) {
      if (blocks.next() instanceof BlockInfoStriped block) {
        listed.add(block);
      }
    }
  }

  /** Whether all that was listed is parted. */
  boolean isParted() {
    return listed.isEmpty();
  }

  /** Parts those of the next so many that need another copy; of them, those that are to be copied. */
  List<BlockInfoStriped> part(int most, Predicate<BlockInfo> needs) {
    int known = copied.size();
    for (int looks = 0; looks < most && !listed.isEmpty(); looks++) {
      BlockInfoStriped block = listed.remove();
      if (needs.test(block)) {
        part(block);
      }
    }
    if (isParted()) {
      idle = rebuilt.isEmpty() ? idle + 1 : 0;
    }
    return copied.subList(known, copied.size());
  }

  private void part(BlockInfoStriped block) {
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
