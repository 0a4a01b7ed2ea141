package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.server.blockmanagement.PackedRacksPlacement;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Unmodified HDFS whose NameNode packs blocks into few racks. */
@Tag("cluster")
class RacksTest {

  private static final int CELL = 1 << 20;
  private static final Duration RECOVERED_WITHIN = Duration.ofMinutes(2);

  @Test
  void groupsLieInThreeRacksAndStillDoWhenAMachineWasReplaced() throws Exception {
    Path folder = Path.of(System.getProperty("hdfs.folder"));
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    Map<String, String> settings = Map.of(
        "net.topology.node.switch.mapping.impl", MachineRacks.class.getName(),
        MachineRacks.PER_RACK, "4",
        "dfs.block.placement.ec.classname", PackedRacksPlacement.class.getName(),
        PackedRacksPlacement.BLOCKS_PER_RACK, "3");
    try (HdfsCluster cluster = new HdfsCluster(folder, Path.of(System.getProperty("stripeline")), 16, settings, List.of(),
        HdfsCluster.Hosts.LOOPBACK)) {
      Losses losses = new Losses(cluster, new Random(11));
      losses.makeFolders("RS-6-3-1024k");
      List<String> files = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        files.add(losses.write("RS-6-3-1024k", 9L * CELL + i));
      }
      packed(cluster, files);
      Map<String, String> before = Demo.digests(cluster, files);
      DatanodeInfo victim = cluster.groups(files.get(0)).get(0).getLocations()[1];
      cluster.killMachine(cluster.machineOf(victim).number());
      cluster.await("recovery", RECOVERED_WITHIN, () -> cluster.isWhole(files));
      packed(cluster, files);
      assertEquals(before, Demo.digests(cluster, files));
      String fsck = cluster.fsck("/");
      assertTrue(fsck.contains("HEALTHY") && fsck.matches("(?s).*(Unsatisfactory placement|Mis-replicated)[^\n]*\\s0 .*"), fsck);
    }
    HdfsCluster.remove(folder);
  }

  private static void packed(HdfsCluster cluster, List<String> files) throws Exception {
    for (String file : files) {
      for (LocatedStripedBlock group : cluster.groups(file)) {
        Map<String, Long> racks = Arrays.stream(group.getLocations())
            .collect(Collectors.groupingBy(DatanodeInfo::getNetworkLocation, Collectors.counting()));
        assertEquals(List.of(3L, 3L, 3L), List.copyOf(racks.values()), racks.toString());
      }
    }
  }
}
