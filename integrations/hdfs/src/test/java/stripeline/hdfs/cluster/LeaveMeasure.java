package stripeline.hdfs.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.hdfs.server.blockmanagement.AllSourcesMonitor;

/**
 * How long a DataNode takes to leave unmodified HDFS, and how much of what it has leaves by its own port: {@code make hdfs-measure-leave}.
 * Each machine is a network namespace, with links of one rate; each way of leaving has a cluster of its own. Needs root.
 */
public final class LeaveMeasure {

  private static final int MACHINES = 16;
  private static final int CELL = 1 << 20;
  private static final long BLOCK_BYTES = 8L * CELL;

  /** Of each 1514 bytes on a link, TCP carries so many. */
  private static final double PAYLOAD = 1448.0 / 1514.0;

  /** What limits the NameNode's orders, as it is shipped with 2, 4 and 2, and as many as a DataNode has threads for. */
  private static final Map<String, String> RAISED = Map.of(
      "dfs.namenode.replication.max-streams", "8",
      "dfs.namenode.replication.max-streams-hard-limit", "16",
      "dfs.namenode.replication.work.multiplier.per.iteration", "10");

  private static final Map<String, String> ALL_SOURCES =
      Map.of("dfs.namenode.decommission.monitor.class", AllSourcesMonitor.class.getName());

  /** A way to leave: what the NameNode is told, whether the DataNode is ended instead, and whether helpers are there. */
  private record Way(String what, List<Map<String, String>> settings, boolean isEnded, boolean isHelped) {}

  private static final Map<String, Way> WAYS = new LinkedHashMap<>();

  static {
    WAYS.put("copied", new Way("decommissioned, as HDFS does it", List.of(), false, true));
    WAYS.put("copied-raised", new Way("the same, limits raised", List.of(RAISED), false, true));
    WAYS.put("all", new Way("decommissioned, all sources, helpers", List.of(ALL_SOURCES), false, true));
    WAYS.put("all-raised", new Way("the same, limits raised", List.of(ALL_SOURCES, RAISED), false, true));
    WAYS.put("all-alone", new Way("decommissioned, all sources, no helpers", List.of(ALL_SOURCES), false, false));
    WAYS.put("ended", new Way("ended, rebuilt through helpers", List.of(), true, true));
    WAYS.put("ended-alone", new Way("ended, rebuilt as HDFS does it", List.of(), true, false));
  }

  private LeaveMeasure() {}

  /** With the path of the program {@code stripeline}, a folder that may be removed, Mb/s, how many groups, a policy, and ways; all if there are none. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    int megabits = Integer.parseInt(arguments[2]);
    int groups = Integer.parseInt(arguments[3]);
    List<String> names = List.of(arguments).subList(5, arguments.length);
    System.out.printf("hdfs-measure-leave: %s, %d machines, %d Mb/s each way, blocks of %d MiB, heartbeats of one second%n", arguments[4],
        MACHINES, megabits, BLOCK_BYTES / CELL);
    try (Namespaces hosts = new Namespaces(MACHINES, megabits)) {
      for (String name : names.isEmpty() ? WAYS.keySet() : names) {
        HdfsCluster.remove(folder);
        Files.createDirectories(folder);
        Path exclude = folder.toAbsolutePath().resolve("exclude");
        Way way = WAYS.get(name);
        Map<String, String> settings = new HashMap<>(Leaving.settings(exclude));
        way.settings().forEach(settings::putAll);
        try (HdfsCluster cluster = new HdfsCluster(folder, Path.of(arguments[0]), MACHINES, settings, List.of(), hosts)) {
          String file = write(cluster, arguments[4], groups);
          if (!way.isHelped()) {
            cluster.killCoordinator();
          }
          measure(cluster, hosts, way, new Leaving(cluster, exclude, file), file, megabits);
        }
      }
    }
    HdfsCluster.remove(folder);
    System.exit(0);
  }

  private static String write(HdfsCluster cluster, String policy, int groups) throws Exception {
    String file = "/file";
    org.apache.hadoop.fs.Path root = new org.apache.hadoop.fs.Path("/");
    cluster.fileSystem().enableErasureCodingPolicy(policy);
    cluster.fileSystem().setErasureCodingPolicy(root, policy);
    int dataUnits = Integer.parseInt(policy.split("-")[1]);
    byte[] bytes = new byte[CELL];
    new java.util.Random(3).nextBytes(bytes);
    try (FSDataOutputStream out = cluster.fileSystem().create(new org.apache.hadoop.fs.Path(file), true, 1 << 16, (short) 1, BLOCK_BYTES)) {
      for (long cell = 0; cell < groups * dataUnits * BLOCK_BYTES / CELL; cell++) {
        // No two cells are the same, and little time goes into it.
        java.nio.ByteBuffer.wrap(bytes).putLong((int) (cell * 8191 % (CELL - 8)), cell);
        out.write(bytes);
      }
    }
    cluster.await("the file to be whole", () -> cluster.isWhole(List.of(file)));
    return file;
  }

  private static void measure(HdfsCluster cluster, Namespaces hosts, Way way, Leaving leaving, String file, int megabits)
      throws Exception {
    long sent = hosts.sent(leaving.machine());
    int helped = cluster.logged("through helpers in").size();
    long start;
    if (way.isEnded()) {
      start = end(cluster, leaving, file);
      cluster.await("recovery", Duration.ofMinutes(5), () -> cluster.isWhole(List.of(file)));
    } else {
      start = System.nanoTime();
      leaving.start();
      leaving.await();
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    long bytes = leaving.blocks() * BLOCK_BYTES;
    double share = (double) (hosts.sent(leaving.machine()) - sent) / bytes;
    double physical = bytes / (megabits * 1e6 / 8 * PAYLOAD);
    leaving.check();
    System.out.printf("hdfs-measure-leave: %-40s %3d blocks, %3d of them through helpers, %5.1f s, %5.1f MiB/s; by its own port %.2f bytes of "
        + "each, all by that port take %.1f s at least%n", way.what(), leaving.blocks(), cluster.logged("through helpers in").size() - helped,
        seconds, bytes / seconds / (1 << 20), share, physical);
  }

  /** Ends the DataNode; when the NameNode, which has given it up, gives orders. */
  private static long end(HdfsCluster cluster, Leaving leaving, String file) throws Exception {
    String gone = cluster.machines().get(leaving.machine()).uuid();
    cluster.fileSystem().setSafeMode(SafeModeAction.ENTER);
    cluster.killMachine(leaving.machine());
    cluster.await("the NameNode to give it up", () -> cluster.groups(file).stream()
        .flatMap(group -> Arrays.stream(group.getLocations()))
        .noneMatch(at -> at.getDatanodeUuid().equals(gone)));
    cluster.fileSystem().setSafeMode(SafeModeAction.LEAVE);
    return System.nanoTime();
  }
}
