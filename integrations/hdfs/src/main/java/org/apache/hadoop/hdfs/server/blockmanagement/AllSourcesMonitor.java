package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.Versions;

/**
 * What erasure-coded groups have on DataNodes that are decommissioned comes from all sources: some blocks are copied from the DataNode
 * that leaves, as HDFS does it, and the others rebuilt from the rest of their groups, so many of each that both end together.
 *
 * <pre>
 *   the DataNode that leaves ── blocks ──┬── k of N + k ──▶ neededReconstruction ──▶ HDFS orders copies from it
 *                                        └── the others ──▶ one second after the other: reconstructions, as many as
 *                                                           DataNodes take, noted as pending, so that HDFS lets them alone
 * </pre>
 *
 * <p>It is HDFS's own monitor in all else, named by {@code dfs.namenode.decommission.monitor.class}: it finds what lacks copies, and
 * when a node has left. A reconstruction that fails is no longer pending after {@code dfs.namenode.reconstruction.pending.timeout-sec},
 * and then HDFS copies the block.
 */
public final class AllSourcesMonitor extends DatanodeAdminDefaultMonitor {

  /** DataNodes ask for orders with their heartbeats, each third second or more often. */
  private static final long DEAL_MS = 1_000;

  /**
   * What was not ordered, or came to nothing, is looked for again; when that finds nothing, at last each five minutes, when HDFS as
   * shipped takes what is pending for failed.
   */
  private static final long RESCAN_MS = 30_000;
  private static final long MAX_RESCAN_MS = 300_000;

  /** When none was ordered for so long, three heartbeats, no DataNode takes any: what waits is HDFS's to copy. */
  private static final long HELD_BACK_MS = 10_000;

  private static final Logger LOG = LoggerFactory.getLogger(AllSourcesMonitor.class);

  /** Guarded by the NameNode's lock, as all of HDFS's own state that is touched here. */
  private final Map<DatanodeDescriptor, LeavingBlocks> leaving = new HashMap<>();
  private ScheduledExecutorService dealer;

  /** How many there were: who begins changes with each. */
  private int rounds;

  AllSourcesMonitor() {}

  /** HDFS calls it with its lock. */
  @Override
  public void startTrackingNode(DatanodeDescriptor node) {
    super.startTrackingNode(node);
    if (Versions.trouble() != null) {
      LOG.warn("{} leaves as HDFS does it: {}", node, Versions.trouble());
      return;
    }
    track(node);
    if (dealer == null) {
      dealer = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "stripeline-decommission");
        thread.setDaemon(true);
        return thread;
      });
      // At once: HDFS begins to order copies when its own monitor has run next.
      dealer.scheduleWithFixedDelay(this::deal, 0, DEAL_MS, TimeUnit.MILLISECONDS);
      LOG.info("blocks of groups on {} come from all sources", node);
    }
  }

  void track(DatanodeDescriptor node) {
    leaving.put(node, new LeavingBlocks());
  }

  /** One round. The NameNode's lock is held for one DataNode that leaves at once, and for so many blocks. */
  void deal() {
    if (!namesystem.isRunning()) {
      dealer.shutdown();
      return;
    }
    try {
      List<DatanodeDescriptor> nodes = locked(this::leaving);
      OrderRound round = new OrderRound(blockManager.getMaxReplicationStreams());
      for (int i = 0; i < nodes.size(); i++) {
        DatanodeDescriptor node = nodes.get(i);
        int waiting = nodes.size() - i;
        boolean isParted = false;
        while (!isParted) {
          isParted = locked(() -> find(node));
        }
        locked(() -> {
          order(node, round, waiting);
          return null;
        });
      }
    } catch (RuntimeException trouble) {
      // HDFS copies what nobody rebuilds.
      LOG.warn("no reconstructions are ordered of what leaves", trouble);
    }
  }

  /** Does a part of the work with the NameNode's lock, which as shipped is fair: who waits for it has it before the next part. */
  private <T> T locked(Supplier<T> part) {
    namesystem.writeLock();
    try {
      return part.get();
    } finally {
      namesystem.writeUnlock("AllSourcesMonitor");
    }
  }

  /** Those that leave, another one first each time. */
  private List<DatanodeDescriptor> leaving() {
    // Those that have left, or stay after all; HDFS tracks those in maintenance too.
    leaving.keySet().removeIf(node -> !node.isDecommissionInProgress());
    List<DatanodeDescriptor> nodes = new ArrayList<>(leaving.keySet());
    Collections.rotate(nodes, rounds++);
    return nodes;
  }

  /** Null if nothing is to be done of it now; it is asked each time that the lock is taken. */
  private LeavingBlocks blocksOf(DatanodeDescriptor node) {
    boolean isAtWork = node.isDecommissionInProgress() && !namesystem.isInSafeMode() && blockManager.isPopulatingReplQueues();
    return isAtWork ? leaving.get(node) : null;
  }

  /** Parts some of what a DataNode has, if it is time to; whether nothing is left to be parted. */
  private boolean find(DatanodeDescriptor node) {
    LeavingBlocks blocks = blocksOf(node);
    if (blocks == null) {
      return true;
    }
    boolean isDue = blocks.isDue(RESCAN_MS, MAX_RESCAN_MS);
    if (isDue) {
      long inService = blockManager.getDatanodeManager().getDatanodes().stream()
          .filter(each -> each.isInService() && each.isAlive()).count();
      blocks.list(node.getBlockIterator(), (int) inService);
    } else if (blocks.isParted()) {
      return true;
    }
    blocks.part(OrderRound.MAX_LOOKS, this::needs).forEach(this::haveCopied);
    if (blocks.isParted()) {
      LOG.info("{}: {} blocks of groups are to be rebuilt, {} to be copied", node, blocks.rebuilt().size(), blocks.copied().size());
    }
    return blocks.isParted();
  }

  /** Orders what DataNodes take, and holds back what they do not take yet. */
  private void order(DatanodeDescriptor node, OrderRound round, int waiting) {
    LeavingBlocks blocks = blocksOf(node);
    if (blocks == null) {
      return;
    }
    if (blocks.rebuilt().isEmpty()) {
      // Few are left, and HDFS is about to copy them.
      blocks.rebuildCopied(blockManager.getReplicationStreamsHardLimit(), block -> blockManager.neededReconstruction.contains(block));
    }
    round.next(waiting, blockManager.getDatanodeManager().getDatanodes());
    for (Iterator<BlockInfoStriped> left = blocks.rebuilt().iterator(); left.hasNext() && round.look();) {
      BlockInfoStriped block = left.next();
      if (!needs(block)) {
        left.remove();
        continue;
      }
      LeavingGroup group = LeavingGroup.of(block, blockManager);
      if (group == null) {
        // Others of the group are lost too, which HDFS rebuilds first.
        left.remove();
        haveCopied(block);
      } else if (round.order(group)) {
        left.remove();
        blocks.ordered();
      } else if (blocks.goOn(HELD_BACK_MS)) {
        holdBack(block);
      }
    }
  }

  /** Whether a block wants another copy, and none is on its way. */
  private boolean needs(BlockInfo block) {
    BlockInfo stored = blockManager.blocksMap.getStoredBlock(block);
    return stored == block && !block.isDeleted() && block.isCompleteOrCommitted() && blockManager.getBlockCollection(block) != null
        && blockManager.pendingReconstruction.getNumReplicas(block) == 0
        && blockManager.isNeededReconstruction(block, blockManager.countNodes(block));
  }

  /** HDFS is not to copy what waits for its reconstruction. Its own monitor enters it again, so that nothing is forgotten. */
  private void holdBack(BlockInfo block) {
    if (blockManager.neededReconstruction.contains(block)) {
      NumberReplicas num = blockManager.countNodes(block);
      blockManager.neededReconstruction.remove(block, num.liveReplicas(), num.readOnlyReplicas(), num.outOfServiceReplicas(),
          blockManager.getExpectedRedundancyNum(block));
    }
  }

  /** HDFS's own monitor does so too, when it runs next. */
  private void haveCopied(BlockInfo block) {
    if (!blockManager.neededReconstruction.contains(block)) {
      NumberReplicas num = blockManager.countNodes(block);
      blockManager.neededReconstruction.add(block, num.liveReplicas(), num.readOnlyReplicas(), num.outOfServiceReplicas(),
          blockManager.getExpectedRedundancyNum(block));
    }
  }
}
