package stripeline.hdfs.cluster;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.server.blockmanagement.EncodingAwarePlacement;

/**
 * What it takes to make erasure-coded files of replicated ones, in seconds and in bytes between racks: placed by EAR, placed by HDFS's
 * default, and copied into a folder with a policy, as distcp does it. {@code make hdfs-measure-encoding}; needs root.
 */
public final class EncodeMeasure {

  private static final int RACKS = 9;
  private static final int EACH = 2;
  private static final int MACHINE_MEGABITS = 1_000;
  private static final int BLOCK = 8 << 20;
  private static final int K = 6;
  private static final int M = 3;
  private static final int FILES = 4;

  /** Blocks of a file: two groups. */
  private static final int BLOCKS = 2 * K;

  private final HdfsCluster cluster;
  private final RackHosts hosts;
  private final ReplicatedFiles replicated;

  private EncodeMeasure(HdfsCluster cluster, RackHosts hosts, Path folder) {
    this.cluster = cluster;
    this.hosts = hosts;
    replicated = new ReplicatedFiles(cluster, folder.resolve("logs"), FILES, BLOCKS, BLOCK, 3);
  }

  /** With the path of the program {@code stripeline}, a folder that may be removed, and Mb/s of a rack's link. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    int megabits = Integer.parseInt(arguments[2]);
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    Map<String, String> settings = new HashMap<>(Map.of(
        "net.topology.node.switch.mapping.impl", MachineRacks.class.getName(),
        MachineRacks.PER_RACK, String.valueOf(EACH),
        "dfs.block.replicator.classname", EncodingAwarePlacement.class.getName(),
        EncodingAwarePlacement.PATHS, "/ear",
        EncodingAwarePlacement.POLICY, "RS-6-3-8192k",
        "dfs.namenode.ec.policies.max.cellsize", String.valueOf(BLOCK)));
    boolean isDone = false;
    try (RackHosts hosts = new RackHosts(RACKS, EACH, MACHINE_MEGABITS, megabits);
        HdfsCluster cluster = new HdfsCluster(folder, Path.of(arguments[0]), hosts.machines(), settings, List.of(), hosts)) {
      System.out.printf("encoding: RS-6-3, %d racks of %d machines, %d Mb/s for a machine and %d Mb/s for a rack each way, %d files of %d "
          + "blocks of %d MiB%n", RACKS, EACH, MACHINE_MEGABITS, megabits, FILES, BLOCKS, BLOCK >> 20);
      new EncodeMeasure(cluster, hosts, folder).run();
      isDone = true;
    }
    if (isDone) {
      HdfsCluster.remove(folder);
    }
    System.exit(isDone ? 0 : 1);
  }

  private void run() throws Exception {
    DistributedFileSystem fs = cluster.fileSystem();
    String wide = ReplicatedFiles.enable(fs, K, M, BLOCK);
    fs.enableErasureCodingPolicy("RS-6-3-1024k");
    for (String round : List.of("1", "2")) {
      List<String> ear = replicated.write("/ear/" + round);
      List<String> random = replicated.write("/random/" + round);
      List<String> copied = replicated.write("/copied/" + round);
      org.apache.hadoop.fs.Path target = new org.apache.hadoop.fs.Path("/coded/" + round);
      fs.mkdirs(target);
      fs.setErasureCodingPolicy(target, "RS-6-3-1024k");
      measure("encode, placed by EAR", () -> replicated.encode(wide, FILES, ear));
      measure("encode, HDFS's placement", () -> replicated.encode(wide, FILES, random));
      measure("copy into an EC folder", () -> replicated.copy(copied, target.toString(), file -> 1 + file * EACH));
      for (String done : List.of("/ear/" + round, "/random/" + round, "/copied/" + round, target.toString())) {
        fs.delete(new org.apache.hadoop.fs.Path(done), true);
      }
    }
  }

  /** Something that is measured; what it says of itself. */
  private interface Work {
    String run() throws Exception;
  }

  private void measure(String what, Work work) throws Exception {
    // Reports and heartbeats of what was before.
    Thread.sleep(3_000);
    long bytes = hosts.betweenRacks();
    long start = System.nanoTime();
    String said = work.run();
    double seconds = (System.nanoTime() - start) / 1e9;
    double data = replicated.bytes();
    System.out.printf("encoding: %-26s %6.1f s %7.1f MiB/s of data, %.2f bytes between racks for each of data; %s%n", what, seconds,
        data / seconds / (1 << 20), (hosts.betweenRacks() - bytes) / data, said);
  }
}
