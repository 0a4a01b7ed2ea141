package org.apache.hadoop.hdfs.server.blockmanagement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.SystemErasureCodingPolicies;
import org.junit.jupiter.api.Test;

/** Which blocks of a DataNode that leaves are copied, and which rebuilt. */
class LeavingBlocksTest {

  private static final int CELL = 1 << 20;

  private static List<BlockInfo> groups(int count) {
    List<BlockInfo> groups = new ArrayList<>();
    for (int group = 0; group < count; group++) {
      groups.add(new BlockInfoStriped(new Block(-16L * (group + 1), 6 * CELL, 1), SystemErasureCodingPolicies.getByID((byte) 1)));
    }
    return groups;
  }

  /** Parts all of them. */
  private static void find(LeavingBlocks leaving, List<BlockInfo> groups, int others, Predicate<BlockInfo> needs) {
    leaving.list(groups.iterator(), others);
    while (!leaving.isParted()) {
      leaving.part(100, needs);
    }
  }

  @Test
  void kOfNAndKBlocksAreCopied() {
    for (int others : new int[] {9, 15, 600}) {
      LeavingBlocks leaving = new LeavingBlocks();
      List<BlockInfo> groups = groups(1_010);
      find(leaving, groups, others, block -> true);
      assertEquals(1_010 * 6 / (6 + others), leaving.copied().size(), 1);
      Set<BlockInfo> all = new HashSet<>(leaving.copied());
      all.addAll(leaving.rebuilt());
      assertEquals(new HashSet<>(groups), all);
      assertEquals(1_010, leaving.copied().size() + leaving.rebuilt().size());
    }
  }

  @Test
  void onlyGroupsThatNeedAnotherCopyAreFound() {
    LeavingBlocks leaving = new LeavingBlocks();
    assertTrue(leaving.isDue(60_000, 60_000));
    List<BlockInfo> groups = groups(40);
    groups.add(new BlockInfoContiguous(new Block(7, CELL, 1), (short) 3));
    find(leaving, groups, 9, block -> block.getBlockId() != -16);
    assertEquals(39, leaving.copied().size() + leaving.rebuilt().size());
    assertFalse(leaving.isDue(0, 0), "some are left");
    leaving.rebuilt().clear();
    assertFalse(leaving.isDue(60_000, 60_000), "it was looked just now");
    assertTrue(leaving.isDue(0, 0));
  }

  @Test
  void whereNothingIsFoundItIsLookedForLessAndLessOften() {
    LeavingBlocks leaving = new LeavingBlocks();
    find(leaving, groups(40), 9, block -> true);
    assertEquals(30, leaving.pauseMs(30, 300));
    for (long pauseMs : new long[] {60, 120, 240, 300, 300}) {
      leaving.list(groups(250).iterator(), 9);
      leaving.part(100, block -> false);
      assertFalse(leaving.isParted());
      assertFalse(leaving.isDue(0, 0), "it is being looked for");
      leaving.part(100, block -> false);
      assertEquals(List.of(), leaving.part(100, block -> false));
      assertTrue(leaving.isParted());
      assertEquals(pauseMs, leaving.pauseMs(30, 300));
    }
    find(leaving, groups(40), 9, block -> block.getBlockId() == -16);
    assertEquals(30, leaving.pauseMs(30, 300));
  }

  @Test
  void whatNobodyTakesIsHeldBackNoLonger() throws Exception {
    LeavingBlocks leaving = new LeavingBlocks();
    find(leaving, groups(10), 9, block -> true);
    assertTrue(leaving.goOn(60_000), "there was no time to order any");
    Thread.sleep(50);
    assertFalse(leaving.goOn(20));
    leaving.ordered();
    assertTrue(leaving.goOn(60_000));
  }

  @Test
  void whatWaitsToBeCopiedIsRebuiltWhenNothingElseIs() {
    LeavingBlocks leaving = new LeavingBlocks();
    find(leaving, groups(60), 6, block -> true);
    assertEquals(30, leaving.copied().size());
    leaving.rebuilt().clear();
    List<BlockInfoStriped> copied = List.copyOf(leaving.copied());
    // Two have been copied, or are about to be.
    leaving.rebuildCopied(4, block -> !copied.subList(0, 2).contains(block));
    assertEquals(copied.subList(2, 6), leaving.copied());
    assertEquals(new HashSet<>(copied.subList(6, 30)), new HashSet<>(leaving.rebuilt()));
  }
}
