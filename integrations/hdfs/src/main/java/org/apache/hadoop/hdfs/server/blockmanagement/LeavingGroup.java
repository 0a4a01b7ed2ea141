package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.hdfs.protocol.BlockType;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.net.Node;

/** A group of which some blocks are on DataNodes that leave, and all others on ones that do not. */
final class LeavingGroup {

  private static final byte[] NONE = {};

  private final BlockInfoStriped block;
  private final BlockManager blockManager;
  private final Map<Byte, DatanodeStorageInfo> staying = new TreeMap<>();
  private final Set<Byte> leaving = new TreeSet<>();
  private final Set<Node> all = new HashSet<>();
  private List<DatanodeDescriptor> targets = List.of();

  private LeavingGroup(BlockInfoStriped block, BlockManager blockManager) {
    this.block = block;
    this.blockManager = blockManager;
    Collection<DatanodeDescriptor> corrupt = blockManager.corruptReplicas.getNodes(block);
    for (BlockInfoStriped.StorageAndBlockIndex each : block.getStorageAndIndexInfos()) {
      DatanodeStorageInfo storage = each.getStorage();
      DatanodeDescriptor node = storage.getDatanodeDescriptor();
      all.add(node);
      boolean isGood = node.isAlive() && !(corrupt != null && corrupt.contains(node)) && !blockManager.isExcess(node, block);
      if (isGood && node.isInService()) {
        staying.putIfAbsent(each.getBlockIndex(), storage);
      } else if (isGood && node.isDecommissionInProgress()) {
        leaving.add(each.getBlockIndex());
      }
    }
    leaving.removeAll(staying.keySet());
  }

  /** Null if it is another kind of group: one that has lost blocks, or of which too few stay. */
  static LeavingGroup of(BlockInfoStriped block, BlockManager blockManager) {
    LeavingGroup group = new LeavingGroup(block, blockManager);
    boolean isWhole = group.staying.size() + group.leaving.size() >= block.getRealTotalBlockNum();
    boolean isEnough = group.staying.size() >= block.getRealDataBlockNum();
    return isWhole && isEnough && !group.leaving.isEmpty() ? group : null;
  }

  /** Whether so many of these as it needs have nothing of the group; racks and room are not looked at. */
  boolean hasPlaceAmong(Set<Node> free) {
    return free.size() - all.stream().filter(free::contains).count() >= leaving.size();
  }

  /** Orders a reconstruction of all that leaves; false if no DataNode takes it now. */
  boolean order(Set<Node> busy) {
    DatanodeStorageInfo[] chosen = choose(busy);
    if (chosen.length < leaving.size()) {
      return false;
    }
    DatanodeDescriptor[] sources =
        staying.values().stream().map(DatanodeStorageInfo::getDatanodeDescriptor).toArray(DatanodeDescriptor[]::new);
    byte[] indices = new byte[sources.length];
    int at = 0;
    for (byte index : staying.keySet()) {
      indices[at++] = index;
    }
    // A DataNode makes what is neither in `indices` nor said to be busy: all that leaves.
    chosen[0].getDatanodeDescriptor().addBlockToBeErasureCoded(new ExtendedBlock(blockManager.getBlockPoolId(), block), sources,
        chosen, indices, NONE, block.getErasureCodingPolicy());
    DatanodeStorageInfo.incrementBlocksScheduled(chosen);
    NumberReplicas num = blockManager.countNodes(block);
    blockManager.pendingReconstruction.increment(block, chosen);
    blockManager.neededReconstruction.remove(block, num.liveReplicas(), num.readOnlyReplicas(), num.outOfServiceReplicas(),
        blockManager.getExpectedRedundancyNum(block));
    targets = Arrays.stream(chosen).map(DatanodeStorageInfo::getDatanodeDescriptor).toList();
    return true;
  }

  /** Who has been ordered to write. */
  List<DatanodeDescriptor> targets() {
    return targets;
  }

  /** As HDFS does it for a group that lost these blocks. */
  private DatanodeStorageInfo[] choose(Set<Node> busy) {
    BlockCollection file = blockManager.getBlockCollection(block);
    List<DatanodeStorageInfo> stay = new ArrayList<>(staying.values());
    Set<Node> without = new HashSet<>(all);
    without.addAll(busy);
    DatanodeStorageInfo[] chosen = blockManager.chooseTarget4AdditionalDatanode(file.getName(), leaving.size(),
        stay.get(0).getDatanodeDescriptor(), new ArrayList<>(stay), without, block.getNumBytes(), file.getStoragePolicyID(),
        BlockType.STRIPED);
    return Arrays.stream(chosen).filter(each -> !stay.contains(each)).limit(leaving.size()).toArray(DatanodeStorageInfo[]::new);
  }
}
