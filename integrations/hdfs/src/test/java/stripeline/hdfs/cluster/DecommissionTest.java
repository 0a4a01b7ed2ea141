package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.hdfs.server.blockmanagement.AllSourcesMonitor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A NameNode with {@link AllSourcesMonitor}: what a DataNode has that leaves is rebuilt by its groups, and copied from it. */
@Tag("cluster")
class DecommissionTest {

  private static final int GROUPS = 24;

  @Test
  void whatLeavesComesFromAllSourcesByteForByte() throws Exception {
    Path folder = Path.of(System.getProperty("hdfs.folder"));
    HdfsCluster.remove(folder);
    Path exclude = folder.toAbsolutePath().resolve("exclude");
    Map<String, String> settings = new HashMap<>(Leaving.settings(exclude));
    settings.put("dfs.namenode.decommission.monitor.class", AllSourcesMonitor.class.getName());
    try (HdfsCluster cluster = new HdfsCluster(
        folder, Path.of(System.getProperty("stripeline")), 12, settings, List.of(), HdfsCluster.Hosts.LOOPBACK)) {
      Losses losses = new Losses(cluster, new Random(11));
      losses.makeFolders("RS-6-3-1024k");
      String file = losses.write("RS-6-3-1024k", GROUPS * 6 * Losses.BLOCK_BYTES - 12_345);
      cluster.await("the file to be whole", () -> cluster.isWhole(List.of(file)));
      Leaving leaving = new Leaving(cluster, exclude, file);
      leaving.start();
      leaving.await();
      leaving.check();
      int rebuilt = cluster.logged("through helpers in").size();
      assertTrue(rebuilt > 0 && rebuilt < leaving.blocks(), () -> rebuilt + " of " + leaving.blocks() + " blocks were rebuilt");
      // It is not needed any more.
      cluster.killMachine(leaving.machine());
      assertTrue(cluster.isWhole(List.of(file)));
      assertTrue(cluster.fsck(file).contains("HEALTHY"));
    }
    if (!Boolean.getBoolean("keep")) {
      HdfsCluster.remove(folder);
    }
  }
}
