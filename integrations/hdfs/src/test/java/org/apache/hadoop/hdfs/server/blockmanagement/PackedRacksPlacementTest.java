package org.apache.hadoop.hdfs.server.blockmanagement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.net.Node;
import org.junit.jupiter.api.Test;

/** The NameNode's own classes, with machines on paper. */
class PackedRacksPlacementTest {

  private final PackedRacksPlacement policy = new PackedRacksPlacement();
  private PaperCluster paper;
  private List<DatanodeDescriptor> machines;

  /** So many racks of so many machines. */
  private void cluster(int racks, int each, Integer perRack) {
    Configuration conf = new Configuration(false);
    if (perRack != null) {
      conf.setInt(PackedRacksPlacement.BLOCKS_PER_RACK, perRack);
    }
    paper = new PaperCluster(policy, conf, racks, each);
    machines = paper.machines();
  }

  private List<DatanodeStorageInfo> choose(int count, List<DatanodeStorageInfo> chosen, Node writer) {
    return paper.choose("/f", count, chosen, writer, Set.of());
  }

  private static Map<String, Long> byRack(List<DatanodeStorageInfo> blocks) {
    return PaperCluster.byRack(blocks);
  }

  private boolean isSatisfied(List<DatanodeStorageInfo> blocks, int total) {
    DatanodeInfo[] locations =
        blocks.stream().map(DatanodeStorageInfo::getDatanodeDescriptor).toArray(DatanodeInfo[]::new);
    return policy.verifyBlockPlacement(locations, total).isPlacementPolicySatisfied();
  }

  @Test
  void groupsTakeAsFewRacksAsTheirBlocksMayShare() {
    cluster(10, 6, 4);
    for (int round = 0; round < 100; round++) {
      List<DatanodeStorageInfo> blocks = choose(14, List.of(), machines.get(round % 60));
      assertEquals(14, new HashSet<>(blocks.stream().map(DatanodeStorageInfo::getDatanodeDescriptor).toList()).size());
      assertEquals(List.of(2L, 4L, 4L, 4L), byRack(blocks).values().stream().sorted().toList());
      assertTrue(isSatisfied(blocks, 14));
    }
  }

  @Test
  void theWriterHasOne() {
    cluster(8, 4, 3);
    for (DatanodeDescriptor writer : machines) {
      List<DatanodeStorageInfo> blocks = choose(9, List.of(), writer);
      assertTrue(blocks.stream().anyMatch(each -> each.getDatanodeDescriptor() == writer));
      assertEquals(List.of(3L, 3L, 3L), List.copyOf(byRack(blocks).values()));
    }
  }

  @Test
  void whatIsRebuiltComesWhereRoomIsLeft() {
    cluster(8, 4, 3);
    for (int round = 0; round < 100; round++) {
      List<DatanodeStorageInfo> blocks = choose(9, List.of(), machines.get(0));
      DatanodeStorageInfo lost = blocks.remove(round % 9);
      List<DatanodeStorageInfo> made = choose(1, blocks, blocks.get(0).getDatanodeDescriptor());
      assertEquals(1, made.size());
      assertEquals(lost.getDatanodeDescriptor().getNetworkLocation(), made.get(0).getDatanodeDescriptor().getNetworkLocation());
      blocks.addAll(made);
      assertTrue(isSatisfied(blocks, 9));
    }
  }

  @Test
  void smallGroupsLieInARackEach() {
    cluster(8, 4, 3);
    assertEquals(3, byRack(choose(3, List.of(), machines.get(5))).size());
    assertEquals(2, byRack(choose(2, List.of(), machines.get(5))).size());
  }

  @Test
  void withFewRacksBlocksLieAsHdfsHasThem() {
    cluster(3, 6, 2);
    List<DatanodeStorageInfo> blocks = choose(9, List.of(), machines.get(0));
    assertEquals(List.of(3L, 3L, 3L), List.copyOf(byRack(blocks).values()));
    assertTrue(isSatisfied(blocks, 9));
  }

  @Test
  void whatFindsNoRoomWithinTheBoundLiesBeyondIt() {
    cluster(5, 1, 2);
    paper.add(4, 5);
    assertEquals(List.of(1L, 1L, 1L, 1L, 4L),
        byRack(choose(8, List.of(), machines.get(0))).values().stream().sorted().toList());
  }

  @Test
  void aRackThatHasTooManyIsToldAndGivesOneBack() {
    cluster(8, 4, 3);
    List<DatanodeStorageInfo> crowded = machines.stream().filter(each -> each.getNetworkLocation().equals("/r1"))
        .map(each -> each.getStorageInfos()[0]).collect(Collectors.toCollection(ArrayList::new));
    crowded.addAll(machines.stream().filter(each -> each.getNetworkLocation().equals("/r2")).limit(3)
        .map(each -> each.getStorageInfos()[0]).toList());
    crowded.add(machines.get(31).getStorageInfos()[0]);
    crowded.add(machines.get(30).getStorageInfos()[0]);
    assertFalse(isSatisfied(crowded, 9));
    Map<String, List<DatanodeStorageInfo>> byRack =
        crowded.stream().collect(Collectors.groupingBy(each -> each.getDatanodeDescriptor().getNetworkLocation()));
    List<DatanodeStorageInfo> candidates = List.of(crowded.get(0), crowded.get(8));
    assertEquals(List.of(crowded.get(0)), List.copyOf(policy.pickupReplicaSet(candidates, List.of(), byRack)));
  }

  @Test
  void nonsenseIsRefused() {
    assertThrows(IllegalArgumentException.class, () -> cluster(2, 2, 0));
  }
}
