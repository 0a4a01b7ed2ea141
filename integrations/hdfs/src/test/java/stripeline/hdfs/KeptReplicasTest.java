package stripeline.hdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.blockmanagement.PackedRacksPlacement;
import org.junit.jupiter.api.Test;
import stripeline.hdfs.KeptReplicas.Place;

class KeptReplicasTest {

  /** Every choice of one replica each, tried one after another. */
  private static boolean canAllStay(List<List<Place>> blocks, int perRack, List<Place> chosen) {
    if (chosen.size() == blocks.size()) {
      return true;
    }
    for (Place place : blocks.get(chosen.size())) {
      boolean isFree = chosen.stream().noneMatch(other -> other.node().equals(place.node()))
          && chosen.stream().filter(other -> other.rack().equals(place.rack())).count() < perRack;
      if (isFree) {
        List<Place> with = new ArrayList<>(chosen);
        with.add(place);
        if (canAllStay(blocks, perRack, with)) {
          return true;
        }
      }
    }
    return false;
  }

  @Test
  void aBlockIsTakenIfAndOnlyIfOneReplicaOfEachCanStay() {
    Random random = new Random(3);
    int refused = 0;
    for (int round = 0; round < 4_000; round++) {
      int racks = 2 + random.nextInt(4);
      int each = 1 + random.nextInt(3);
      int perRack = 1 + random.nextInt(3);
      KeptReplicas kept = new KeptReplicas(perRack);
      List<List<Place>> blocks = new ArrayList<>();
      for (int block = 0; block < 6; block++) {
        Set<Place> places = new HashSet<>();
        for (int replica = 0; replica < 3; replica++) {
          int rack = random.nextInt(racks);
          places.add(new Place("n" + rack + "-" + random.nextInt(each), "r" + rack));
        }
        List<Place> replicas = List.copyOf(places);
        List<List<Place>> with = new ArrayList<>(blocks);
        with.add(replicas);
        boolean can = canAllStay(with, perRack, List.of());
        assertEquals(can, kept.add(replicas), "round " + round + ": " + with);
        if (can) {
          blocks = with;
        } else {
          refused++;
        }
        check(kept, blocks, perRack);
      }
    }
    assertTrue(refused > 1_000, "refused " + refused);
  }

  private static void check(KeptReplicas kept, List<List<Place>> blocks, int perRack) {
    assertEquals(blocks.size(), kept.size());
    Set<String> nodes = new HashSet<>();
    Map<String, Integer> racks = new HashMap<>();
    for (int block = 0; block < blocks.size(); block++) {
      assertTrue(blocks.get(block).contains(kept.kept(block)));
      assertTrue(nodes.add(kept.kept(block).node()));
      racks.merge(kept.kept(block).rack(), 1, Integer::sum);
    }
    racks.forEach((rack, count) -> {
      assertTrue(count <= perRack);
      assertEquals(count, kept.keptIn(rack));
    });
  }

  @Test
  void policiesAreTakenByTheirNames() {
    assertEquals(new StripeShape(6, 3), StripeShape.ofPolicy("RS-6-3-1024k").orElseThrow());
    assertEquals(new StripeShape(10, 4), StripeShape.ofPolicy("RS-LEGACY-10-4-131072k").orElseThrow());
    for (String none : List.of("", "RS-6-3", "RS-0-3-1024k", "RS-6-3-1024", "6-3-1024k", "RS-6-3-1024k ")) {
      assertTrue(StripeShape.ofPolicy(none).isEmpty(), none);
    }
    Configuration conf = new Configuration(false);
    assertEquals(new RackRule(1, false), RackRule.of(conf, new StripeShape(6, 3), 9));
    assertEquals(new RackRule(2, false), RackRule.of(conf, new StripeShape(6, 3), 8));
    conf.set("dfs.block.placement.ec.classname", PackedRacksPlacement.class.getName());
    conf.setInt(PackedRacksPlacement.BLOCKS_PER_RACK, 3);
    assertEquals(new RackRule(3, true), RackRule.of(conf, new StripeShape(6, 3), 8));
    assertEquals(new RackRule(5, true), RackRule.of(conf, new StripeShape(6, 3), 2));
  }
}
