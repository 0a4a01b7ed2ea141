package org.apache.hadoop.hdfs.server.blockmanagement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.net.Node;
import org.junit.jupiter.api.Test;
import stripeline.hdfs.KeptReplicas;

/** The NameNode's own classes, with machines on paper. */
class EncodingAwarePlacementTest {

  private static final int REPLICAS = 3;

  private final EncodingAwarePlacement policy = new EncodingAwarePlacement();
  private PaperCluster paper;

  private void cluster(int racks, int each, String ecPolicy, Integer perRack) {
    Configuration conf = new Configuration(false);
    conf.set(EncodingAwarePlacement.PATHS, "/cold, /archive/");
    conf.set(EncodingAwarePlacement.POLICY, ecPolicy);
    if (perRack != null) {
      conf.set("dfs.block.placement.ec.classname", PackedRacksPlacement.class.getName());
      conf.setInt(PackedRacksPlacement.BLOCKS_PER_RACK, perRack);
    }
    paper = new PaperCluster(policy, conf, racks, each);
  }

  private List<DatanodeStorageInfo> place(String path, Node writer) {
    return paper.choose(path, REPLICAS, List.of(), writer, Set.of());
  }

  private static List<KeptReplicas.Place> places(List<DatanodeStorageInfo> block) {
    return block.stream().map(DatanodeStorageInfo::getDatanodeDescriptor)
        .map(node -> new KeptReplicas.Place(node.getName(), node.getNetworkLocation())).toList();
  }

  private static Set<String> racks(List<DatanodeStorageInfo> block) {
    return PaperCluster.byRack(block).keySet();
  }

  /** Whether one rack has a replica of each, and one replica of each can stay. */
  private static void assertStripe(List<List<DatanodeStorageInfo>> blocks, int perRack) {
    Set<String> core = new java.util.HashSet<>(racks(blocks.get(0)));
    blocks.forEach(block -> core.retainAll(racks(block)));
    assertTrue(!core.isEmpty(), "no rack has all of " + blocks.stream().map(EncodingAwarePlacementTest::racks).toList());
    KeptReplicas kept = new KeptReplicas(perRack);
    for (List<DatanodeStorageInfo> block : blocks) {
      assertEquals(REPLICAS, block.stream().map(DatanodeStorageInfo::getDatanodeDescriptor).distinct().count());
      assertEquals(2, racks(block).size(), "replicas lie in two racks, as HDFS has them");
      assertTrue(kept.add(places(block)));
    }
  }

  @Test
  void everyStripeHasACoreRackAndCanBeEncodedWithoutMovingABlock() {
    for (int perRack : List.of(1, 3)) {
      cluster(12, 4, "RS-6-3-131072k", perRack == 1 ? null : perRack);
      for (int file = 0; file < 60; file++) {
        Node writer = file % 2 == 0 ? null : paper.machines().get(file % 48);
        List<List<DatanodeStorageInfo>> blocks = new ArrayList<>();
        for (int block = 0; block < 15; block++) {
          blocks.add(place("/cold/" + perRack + "/" + file, writer));
        }
        assertStripe(blocks.subList(0, 6), perRack);
        assertStripe(blocks.subList(6, 12), perRack);
        assertStripe(blocks.subList(12, 15), perRack);
        if (writer != null) {
          assertTrue(blocks.stream().allMatch(block -> block.get(0).getDatanodeDescriptor() == writer), "the writer has one");
        }
      }
    }
  }

  @Test
  void widestStripesFitIntoAsManyRacksAsTheyHaveBlocks() {
    cluster(14, 2, "RS-10-4-131072k", null);
    for (int file = 0; file < 30; file++) {
      String path = "/archive/" + file;
      List<List<DatanodeStorageInfo>> blocks = new ArrayList<>();
      for (int block = 0; block < 10; block++) {
        blocks.add(place(path, null));
      }
      assertStripe(blocks, 1);
    }
  }

  /** Within a tenth of even, as those of HDFS's own policy for the same writers. */
  @Test
  void racksHaveAboutAsManyReplicasEach() {
    cluster(10, 4, "RS-6-3-131072k", null);
    Map<String, Long> ours = new HashMap<>();
    Map<String, Long> theirs = new HashMap<>();
    for (int block = 0; block < 6_000; block++) {
      PaperCluster.byRack(place("/cold/" + block / 6, null)).forEach((rack, count) -> ours.merge(rack, count, Long::sum));
      PaperCluster.byRack(place("/hot/" + block, null)).forEach((rack, count) -> theirs.merge(rack, count, Long::sum));
    }
    for (Map<String, Long> counts : List.of(ours, theirs)) {
      assertEquals(10, counts.size());
      counts.forEach((rack, count) -> assertTrue(Math.abs(count - 1_800) < 180, rack + " has " + count + " of 18000"));
    }
  }

  @Test
  void aBlockThatAWriterGaveUpIsPlacedAnewInItsStripe() {
    cluster(12, 4, "RS-6-3-131072k", null);
    for (int round = 0; round < 20; round++) {
      String path = "/cold/given-up-" + round;
      List<List<DatanodeStorageInfo>> blocks = new ArrayList<>();
      for (int block = 0; block < 6; block++) {
        List<DatanodeStorageInfo> first = place(path, null);
        Node bad = first.get(block % REPLICAS).getDatanodeDescriptor();
        List<DatanodeStorageInfo> again = paper.choose(path, REPLICAS, List.of(), null, Set.of(bad));
        assertTrue(again.stream().noneMatch(each -> each.getDatanodeDescriptor() == bad));
        blocks.add(again);
      }
      assertStripe(blocks, 1);
    }
  }

  @Test
  void otherFilesAndLostReplicasAreHdfssOwnPolicys() {
    cluster(12, 4, "RS-6-3-131072k", null);
    for (String path : List.of("/hot/f", "/colder/f", "/cold")) {
      assertEquals(REPLICAS, place(path, null).size());
    }
    List<DatanodeStorageInfo> block = place("/cold/f", null);
    DatanodeStorageInfo lost = block.remove(0);
    List<DatanodeStorageInfo> made = paper.choose("/cold/f", 1, block, null, Set.of(lost.getDatanodeDescriptor()));
    assertEquals(1, made.size());
    assertEquals(1, policy.openFiles());
  }

  @Test
  void whereNoLayoutFitsBlocksLieAsHdfsHasThem() {
    // One rack: there is no other for a second replica, and a rack has room for all nine.
    cluster(1, 9, "RS-6-3-131072k", null);
    for (int block = 0; block < 12; block++) {
      assertEquals(REPLICAS, place("/cold/one-rack", null).size());
    }
    // Two racks of two machines: nine blocks have no nodes of their own.
    cluster(2, 2, "RS-6-3-131072k", null);
    for (int block = 0; block < 12; block++) {
      assertEquals(REPLICAS, place("/cold/four-machines", null).size());
    }
  }

  @Test
  void whatIsRememberedIsBoundedAndForgottenWhenItIsOld() {
    AtomicLong clock = new AtomicLong();
    OpenStripes open = new OpenStripes(6, () -> 1, 100, clock::get);
    OpenStripes.Stripe first = open.of("/f0");
    for (int file = 1; file < 250; file++) {
      open.of("/f" + file);
    }
    assertEquals(100, open.size());
    assertTrue(first != open.of("/f0"));
    OpenStripes.Stripe last = open.of("/f249");
    clock.addAndGet(OpenStripes.IDLE_MS);
    assertTrue(last == open.of("/f249"));
    clock.addAndGet(OpenStripes.IDLE_MS + 1);
    assertTrue(last != open.of("/f249"));
  }

  @Test
  void nonsenseIsRefusedAndNothingIsNoNonsense() {
    assertThrows(IllegalArgumentException.class, () -> cluster(2, 2, "RS-6-3", null));
    Configuration relative = new Configuration(false);
    relative.set(EncodingAwarePlacement.PATHS, "cold");
    relative.set(EncodingAwarePlacement.POLICY, "RS-6-3-1024k");
    assertThrows(IllegalArgumentException.class, () -> new PaperCluster(policy, relative, 1, 1));
    EncodingAwarePlacement unset = new EncodingAwarePlacement();
    PaperCluster cluster = new PaperCluster(unset, new Configuration(false), 3, 3);
    assertEquals(REPLICAS, cluster.choose("/cold/f", REPLICAS, List.of(), null, Set.of()).size());
  }
}
