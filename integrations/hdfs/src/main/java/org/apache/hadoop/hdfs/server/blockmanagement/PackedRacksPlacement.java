package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.net.NetworkTopology;
import org.apache.hadoop.net.Node;
import org.apache.hadoop.net.NodeBase;

/**
 * Blocks of an erasure-coded group in few racks, several in each: a repair along a chain of helpers then goes from rack to rack
 * as seldom as it can (repair pipelining, section 4.2), and within racks otherwise. HDFS's own policy has as many racks as there
 * are.
 *
 * <p>How many of a group are in one rack is up to the operator: no more than the fewest parities of the policies in use, or the
 * loss of a rack loses data. Where racks are too few for that, or too full, blocks lie as HDFS's own policy has them.
 */
public class PackedRacksPlacement extends BlockPlacementPolicyRackFaultTolerant {

  /** The key for how many blocks of a group may be in one rack. */
  public static final String BLOCKS_PER_RACK = "stripeline.placement.blocks.per.rack";

  /** As many as all policies that HDFS brings can lose, but for those of one parity. */
  static final int DEFAULT_BLOCKS_PER_RACK = 2;

  /** Groups of so many have one parity, as far as is known: one of them in each rack. */
  private static final int SMALL_GROUP = 3;

  private int blocksPerRack;

  @Override
  public void initialize(
      Configuration conf, FSClusterStats stats, NetworkTopology clusterMap, Host2NodesMap host2datanodeMap) {
    super.initialize(conf, stats, clusterMap, host2datanodeMap);
    blocksPerRack = conf.getInt(BLOCKS_PER_RACK, DEFAULT_BLOCKS_PER_RACK);
    if (blocksPerRack < 1) {
      throw new IllegalArgumentException(BLOCKS_PER_RACK + " is " + blocksPerRack + ", and at least 1");
    }
  }

  /** Blocks of a group of so many that may be in one rack, with this configuration. */
  public static int blocksPerRack(Configuration conf, int total) {
    return total <= SMALL_GROUP ? 1 : conf.getInt(BLOCKS_PER_RACK, DEFAULT_BLOCKS_PER_RACK);
  }

  /** Blocks of a group of so many that may be in one rack. */
  private int most(int total) {
    return total <= SMALL_GROUP ? 1 : blocksPerRack;
  }

  /** Racks that a group of so many takes. */
  private int racks(int total) {
    return (total + most(total) - 1) / most(total);
  }

  /** With as many racks as a group takes, or fewer, HDFS's own policy is the best there is. */
  private boolean hasChoice(int total) {
    return clusterMap.getNumOfNonEmptyRacks() > racks(total);
  }

  @Override
  protected int[] getMaxNodesPerRack(int numOfChosen, int numOfReplicas) {
    int[] evenly = super.getMaxNodesPerRack(numOfChosen, numOfReplicas);
    int total = numOfChosen + evenly[0];
    return hasChoice(total) ? new int[] {evenly[0], most(total)} : evenly;
  }

  @Override
  protected Node chooseTargetInOrder(
      int numOfReplicas, Node writer, Set<Node> excludedNodes, long blocksize, int maxNodesPerRack,
      List<DatanodeStorageInfo> results, boolean avoidStaleNodes, boolean newBlock,
      EnumMap<StorageType, Integer> storageTypes) throws NotEnoughReplicasException {
    int total = results.size() + numOfReplicas;
    if (!hasChoice(total)) {
      return super.chooseTargetInOrder(numOfReplicas, writer, excludedNodes, blocksize, maxNodesPerRack, results,
          avoidStaleNodes, newBlock, storageTypes);
    }
    Set<Node> excludedBefore = new HashSet<>(excludedNodes);
    try {
      return pack(total, writer, excludedNodes, blocksize, results, avoidStaleNodes, storageTypes);
    } catch (NotEnoughReplicasException full) {
      LOG.warn("{} of {} blocks lie {} in a rack at most; the others lie where there is room",
          results.size(), total, most(total));
      results.forEach(chosen -> addToExcludedNodes(chosen.getDatanodeDescriptor(), excludedBefore));
      int left = total - results.size();
      int[] evenly = super.getMaxNodesPerRack(results.size(), left);
      return super.chooseTargetInOrder(left, writer, excludedBefore, blocksize, Math.max(evenly[1], most(total)), results,
          avoidStaleNodes, newBlock, storageTypes);
    }
  }

  /** Fills the racks in which blocks are, then another one. */
  private Node pack(
      int total, Node writer, Set<Node> excluded, long blocksize, List<DatanodeStorageInfo> results, boolean avoidStale,
      EnumMap<StorageType, Integer> storageTypes) throws NotEnoughReplicasException {
    int most = most(total);
    Set<String> withoutRoom = new HashSet<>();
    Node local = writer;
    if (results.isEmpty()) {
      local = chooseLocalStorage(writer, excluded, blocksize, most, results, avoidStale, storageTypes, true)
          .getDatanodeDescriptor();
    }
    while (results.size() < total) {
      String rack = begun(results, most, withoutRoom);
      if (rack == null) {
        chooseRandom(1, NodeBase.ROOT, excluded, blocksize, most, results, avoidStale, storageTypes);
        continue;
      }
      try {
        chooseRandom(1, rack, excluded, blocksize, most, results, avoidStale, storageTypes);
      } catch (NotEnoughReplicasException none) {
        withoutRoom.add(rack);
      }
    }
    return local;
  }

  /** The rack that has most of them and may have more; null if there is none. */
  private static String begun(List<DatanodeStorageInfo> results, int most, Set<String> withoutRoom) {
    Map<String, Integer> counts = new HashMap<>();
    results.forEach(chosen -> counts.merge(chosen.getDatanodeDescriptor().getNetworkLocation(), 1, Integer::sum));
    return counts.entrySet().stream()
        .filter(rack -> rack.getValue() < most && !withoutRoom.contains(rack.getKey()))
        .max(Map.Entry.comparingByValue()).map(Map.Entry::getKey).orElse(null);
  }

  @Override
  public BlockPlacementStatus verifyBlockPlacement(DatanodeInfo[] locs, int numberOfReplicas) {
    if (locs == null || !clusterMap.hasClusterEverBeenMultiRack() || !hasChoice(numberOfReplicas)) {
      return super.verifyBlockPlacement(locs, numberOfReplicas);
    }
    Map<String, Integer> counts = new HashMap<>();
    for (DatanodeInfo each : locs) {
      counts.merge(each.getNetworkLocation(), 1, Integer::sum);
    }
    int most = most(numberOfReplicas);
    boolean isCrowded = counts.values().stream().anyMatch(count -> count > most);
    int needed = racks(numberOfReplicas);
    return new BlockPlacementStatusDefault(isCrowded ? needed - 1 : needed, needed, clusterMap.getNumOfNonEmptyRacks());
  }

  /** Of copies that are too many one goes where most of the group are. */
  @Override
  protected Collection<DatanodeStorageInfo> pickupReplicaSet(
      Collection<DatanodeStorageInfo> moreThanOne, Collection<DatanodeStorageInfo> exactlyOne,
      Map<String, List<DatanodeStorageInfo>> rackMap) {
    List<DatanodeStorageInfo> candidates = new ArrayList<>(moreThanOne);
    candidates.addAll(exactlyOne);
    List<Integer> counts = candidates.stream().map(each -> inRack(each, rackMap)).toList();
    int fullest = counts.isEmpty() ? 0 : Collections.max(counts);
    return candidates.stream().filter(each -> inRack(each, rackMap) == fullest).toList();
  }

  private int inRack(DatanodeStorageInfo each, Map<String, List<DatanodeStorageInfo>> rackMap) {
    return rackMap.getOrDefault(getRack(each.getDatanodeDescriptor()), List.of()).size();
  }
}
