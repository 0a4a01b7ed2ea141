package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.net.Node;

/** The orders of one second, for all DataNodes that leave: what they may cost the NameNode, and who takes them. */
final class OrderRound {

  /** Orders, and blocks that are looked at with the NameNode's lock: a few ten milliseconds. */
  static final int MAX_ORDERS = 200;
  static final int MAX_LOOKS = 10_000;

  /**
   * A placement that finds nobody asks all DataNodes, and writes lines of the NameNode's log. When so many have failed, for want of racks
   * or of room, the next second's may do better.
   */
  static final int MAX_FAILED_PLACEMENTS = 20;

  private final int maxStreams;
  private final Set<Node> busy = new HashSet<>();
  private final Set<Node> free = new HashSet<>();
  private int orders;
  private int looks;
  private int failedPlacements;

  /** Of both, when the present DataNode has had its share. */
  private int ordersUntil;
  private int looksUntil;

  /** A DataNode is given no more at once than so much, as HDFS itself gives it. */
  OrderRound(int maxStreams) {
    this.maxStreams = maxStreams;
  }

  /** The next DataNode has an equal share of what is left, with so many that have not had theirs, itself among them. */
  void next(int waiting, Iterable<DatanodeDescriptor> datanodes) {
    // At least one: whoever comes last in this round is sooner in the next one.
    ordersUntil = orders + (MAX_ORDERS - orders + waiting - 1) / waiting;
    looksUntil = looks + (MAX_LOOKS - looks + waiting - 1) / waiting;
    busy.clear();
    free.clear();
    datanodes.forEach(this::note);
  }

  private void note(DatanodeDescriptor datanode) {
    free.remove(datanode);
    if (datanode.getNumberOfBlocksToBeErasureCoded() + datanode.getNumberOfBlocksToBeReplicated() >= maxStreams) {
      busy.add(datanode);
    } else if (datanode.isInService() && datanode.isAlive()) {
      free.add(datanode);
    }
  }

  /** Whether another block may be looked at, which then counts. */
  boolean look() {
    boolean isAllowed = orders < ordersUntil && looks < looksUntil;
    looks += isAllowed ? 1 : 0;
    return isAllowed;
  }

  /** Orders a group's reconstruction; false if no DataNode takes it in this round. */
  boolean order(LeavingGroup group) {
    if (failedPlacements >= MAX_FAILED_PLACEMENTS || !group.hasPlaceAmong(free)) {
      return false;
    }
    if (!group.order(busy)) {
      failedPlacements++;
      return false;
    }
    orders++;
    group.targets().forEach(this::note);
    return true;
  }
}
