package org.apache.hadoop.hdfs.server.blockmanagement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.hdfs.server.blockmanagement.PaperNameNode.CountingPlacement;
import org.junit.jupiter.api.Test;

/** What the monitor does with the NameNode's lock, in a block manager of HDFS. */
class AllSourcesMonitorTest {

  private static final int MACHINES = 24;

  /** As HDFS's own monitor would enter them. */
  private static void need(PaperNameNode nameNode, BlockInfoStriped block) {
    NumberReplicas num = nameNode.blockManager().countNodes(block);
    nameNode.blockManager().neededReconstruction.add(block, num.liveReplicas(), num.readOnlyReplicas(), num.outOfServiceReplicas(),
        PaperNameNode.MEMBERS);
  }

  @Test
  void whatDataNodesTakeIsOrderedAndTheRestIsHeldBackWithoutAskingForPlaces() throws Exception {
    int streams = 2;
    PaperNameNode nameNode = new PaperNameNode(MACHINES, streams);
    List<BlockInfoStriped> groups = new ArrayList<>();
    for (int i = 0; i < 1_000; i++) {
      groups.add(nameNode.addGroup(0));
    }
    AllSourcesMonitor monitor = nameNode.leave(1);
    groups.forEach(group -> need(nameNode, group));
    monitor.deal();
    // The eight others have members of all groups.
    int most = (MACHINES - PaperNameNode.MEMBERS) * streams;
    assertEquals(most, nameNode.orders());
    assertEquals(most, CountingPlacement.placements);
    monitor.deal();
    assertEquals(most, nameNode.orders());
    assertEquals(most, CountingPlacement.placements, "all are busy");
    long waiting = groups.stream().filter(nameNode.blockManager().neededReconstruction::contains).count();
    assertEquals(1_000 * 6 / (6 + MACHINES - 1), waiting, 1, "those that are to be copied, and no others");
  }

  @Test
  void fewPlacementsFailInARound() throws Exception {
    PaperNameNode nameNode = new PaperNameNode(MACHINES, 2);
    List<BlockInfoStriped> groups = new ArrayList<>();
    for (int i = 0; i < 900; i++) {
      groups.add(nameNode.addGroup(i % 3));
    }
    AllSourcesMonitor monitor = nameNode.leave(3);
    groups.forEach(group -> need(nameNode, group));
    CountingPlacement.isFull = true;
    monitor.deal();
    assertEquals(OrderRound.MAX_FAILED_PLACEMENTS, CountingPlacement.placements);
    assertEquals(0, nameNode.orders());
    long waiting = groups.stream().filter(nameNode.blockManager().neededReconstruction::contains).count();
    assertTrue(waiting < 900, "others are held back all the same");
    CountingPlacement.isFull = false;
    monitor.deal();
    assertTrue(nameNode.orders() > 0);
  }

  @Test
  void ordersOfARoundAreSharedByAllThatLeave() throws Exception {
    int leaving = 3;
    // None of them has members of the others' groups.
    PaperNameNode nameNode = new PaperNameNode(leaving * PaperNameNode.MEMBERS, 1_000);
    for (int i = 0; i < 900; i++) {
      nameNode.addGroup(i % leaving * PaperNameNode.MEMBERS);
    }
    for (int i = 1; i < leaving; i++) {
      Collections.swap(nameNode.datanodes(), i, i * PaperNameNode.MEMBERS);
    }
    AllSourcesMonitor monitor = nameNode.leave(leaving);
    monitor.deal();
    assertEquals(OrderRound.MAX_ORDERS, nameNode.orders());
    // Who leaves, and what each of them has.
    assertEquals(1 + 2 * leaving, nameNode.holds(), "each has the lock for itself");
    for (DatanodeDescriptor node : nameNode.datanodes().subList(0, leaving)) {
      int ordered = 0;
      for (var blocks = node.getBlockIterator(); blocks.hasNext();) {
        ordered += nameNode.blockManager().pendingReconstruction.getNumReplicas(blocks.next()) > 0 ? 1 : 0;
      }
      assertEquals(OrderRound.MAX_ORDERS / leaving, ordered, 1);
    }
  }

  @Test
  void theLockIsHeldForFewBlocksAtOnce() throws Exception {
    PaperNameNode nameNode = new PaperNameNode(MACHINES, 2);
    for (int i = 0; i < 100; i++) {
      nameNode.addGroup(0);
    }
    nameNode.leave(1).deal();
    int asked = (nameNode.mostLooks() + 99) / 100;
    PaperNameNode large = new PaperNameNode(MACHINES, 2);
    int groups = 3 * OrderRound.MAX_LOOKS + 1;
    for (int i = 0; i < groups; i++) {
      large.addGroup(0);
    }
    large.leave(1).deal();
    assertEquals(1 + 4 + 1, large.holds());
    assertTrue(large.mostLooks() <= asked * OrderRound.MAX_LOOKS, () -> large.mostLooks() + " looks, " + asked + " for each block");
    assertTrue(large.orders() > 0);
  }
}
