package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.net.Node;
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

  /** What was not ordered, or came to nothing, is looked for again. */
  private static final long RESCAN_MS = 30_000;

  /** When none was ordered for so long, three heartbeats, no DataNode takes any: what waits is HDFS's to copy. */
  private static final long HELD_BACK_MS = 10_000;

  /** Orders and blocks that are looked at while the NameNode's lock is held: a few ten milliseconds. */
  private static final int MAX_ORDERS = 200;
  private static final int MAX_LOOKS = 10_000;

  private static final Logger LOG = LoggerFactory.getLogger(AllSourcesMonitor.class);

  /** Guarded by the NameNode's lock, as all of HDFS's own state that is touched here. */
  private final Map<DatanodeDescriptor, LeavingBlocks> leaving = new HashMap<>();
  private ScheduledExecutorService dealer;

  AllSourcesMonitor() {}

  /** HDFS calls it with its lock. */
  @Override
  public void startTrackingNode(DatanodeDescriptor node) {
    super.startTrackingNode(node);
    if (Versions.trouble() != null) {
      LOG.warn("{} leaves as HDFS does it: {}", node, Versions.trouble());
      return;
    }
    leaving.put(node, new LeavingBlocks());
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

  private void deal() {
    if (!namesystem.isRunning()) {
      dealer.shutdown();
      return;
    }
    namesystem.writeLock();
    try {
      // Those that have left, or stay after all; HDFS tracks those in maintenance too.
      leaving.keySet().removeIf(node -> !node.isDecommissionInProgress());
      if (!leaving.isEmpty() && !namesystem.isInSafeMode() && blockManager.isPopulatingReplQueues()) {
        Set<Node> busy = new HashSet<>();
        int inService = 0;
        for (DatanodeDescriptor node : blockManager.getDatanodeManager().getDatanodes()) {
          inService += node.isInService() && node.isAlive() ? 1 : 0;
          noteIfBusy(node, busy);
        }
        for (Map.Entry<DatanodeDescriptor, LeavingBlocks> each : leaving.entrySet()) {
          deal(each.getKey(), each.getValue(), inService, busy);
        }
      }
    } catch (RuntimeException trouble) {
      // HDFS copies what nobody rebuilds.
      LOG.warn("no reconstructions are ordered of what leaves", trouble);
    } finally {
      namesystem.writeUnlock("AllSourcesMonitor");
    }
  }

  /** A DataNode is given no more at once than HDFS itself gives it. */
  private void noteIfBusy(DatanodeDescriptor node, Set<Node> busy) {
    if (node.getNumberOfBlocksToBeErasureCoded() + node.getNumberOfBlocksToBeReplicated() >= blockManager.getMaxReplicationStreams()) {
      busy.add(node);
    }
  }

  private void deal(DatanodeDescriptor node, LeavingBlocks blocks, int inService, Set<Node> busy) {
    if (blocks.isDue(RESCAN_MS)) {
      blocks.find(node.getBlockIterator(), inService, this::needs);
      blocks.copied().forEach(this::haveCopied);
      LOG.info("{}: {} blocks of groups are to be rebuilt, {} to be copied", node, blocks.rebuilt().size(), blocks.copied().size());
    }
    if (blocks.rebuilt().isEmpty()) {
      // Few are left, and HDFS is about to copy them.
      blocks.rebuildCopied(blockManager.getReplicationStreamsHardLimit(), block -> blockManager.neededReconstruction.contains(block));
    }
    int orders = 0;
    int looks = 0;
    for (Iterator<BlockInfoStriped> left = blocks.rebuilt().iterator(); left.hasNext() && orders < MAX_ORDERS && looks < MAX_LOOKS; looks++) {
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
      } else if (group.order(busy)) {
        left.remove();
        orders++;
        blocks.ordered();
        group.targets().forEach(target -> noteIfBusy(target, busy));
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
