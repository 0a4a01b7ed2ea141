package stripeline.hdfs.cluster;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * How long unmodified HDFS takes for a lost block over links of one rate, alone and through helpers: {@code make hdfs-measure}. Each
 * machine is a network namespace; this runs in one of its own. Needs root.
 */
public final class Measure {

  private static final int MACHINES = 15;
  private static final int CELL = 1 << 20;
  private static final long BLOCK_BYTES = 64L * CELL;
  private static final int RUNS = 3;

  private Measure() {}

  /** With the path of the program {@code stripeline}, a folder that may be removed, and Mb/s. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    int megabits = Integer.parseInt(arguments[2]);
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    boolean isDone = false;
    try (Namespaces hosts = new Namespaces(MACHINES, megabits);
        HdfsCluster cluster = new HdfsCluster(folder, Path.of(arguments[0]), MACHINES,
            Map.of("dfs.datanode.directoryscan.interval", "2", "dfs.blockreport.intervalMsec", "3000"), List.of(), hosts)) {
      System.out.println("hdfs-measure: " + MACHINES + " machines, " + megabits + " Mb/s each way, blocks of 64 MiB, a member of "
          + "each group lost, " + RUNS + " runs; seconds from the DataNode's order to the last byte written");
      Losses losses = new Losses(cluster, new Random(5));
      List<String> files = new ArrayList<>();
      for (String policy : List.of("RS-6-3-1024k", "RS-10-4-1024k")) {
        losses.makeFolders(policy);
        files.add(write(cluster, policy));
      }
      for (String file : files) {
        report(file, "through helpers", times(cluster, losses, file, Pattern.compile("through helpers in (\\d+) ms")));
      }
      cluster.killCoordinator();
      for (String file : files) {
        report(file, "as HDFS does it", times(cluster, losses, file, Pattern.compile("took (\\d+) ms without helpers")));
      }
      isDone = true;
    }
    if (isDone) {
      HdfsCluster.remove(folder);
    }
    System.exit(isDone ? 0 : 1);
  }

  private static String write(HdfsCluster cluster, String policy) throws Exception {
    String file = "/" + policy + "/file";
    DistributedFileSystem fs = cluster.fileSystem();
    int dataUnits = Integer.parseInt(policy.split("-")[1]);
    byte[] bytes = new byte[CELL];
    Random random = new Random(3);
    try (FSDataOutputStream out = fs.create(new org.apache.hadoop.fs.Path(file), true, 1 << 16, (short) 1, BLOCK_BYTES)) {
      for (long left = dataUnits * BLOCK_BYTES; left > 0; left -= CELL) {
        random.nextBytes(bytes);
        out.write(bytes);
      }
    }
    return file;
  }

  /** Loses a member again and again; what the plugin's log tells of each time, in milliseconds. */
  private static List<Long> times(HdfsCluster cluster, Losses losses, String file, Pattern took) throws Exception {
    String group = "blk_" + cluster.groups(file).get(0).getBlock().getBlockId() + "_";
    List<Long> times = new ArrayList<>();
    for (int run = 0; run < RUNS; run++) {
      List<String> before = cluster.logged(group);
      losses.awaitBack(losses.lose(file, new int[] {run}));
      List<Long> found = new ArrayList<>();
      cluster.await("the log", () -> {
        cluster.logged(group).stream().filter(line -> !before.contains(line)).map(took::matcher).filter(Matcher::find)
            .forEach(matcher -> found.add(Long.valueOf(matcher.group(1))));
        return !found.isEmpty();
      });
      times.add(found.get(0));
    }
    return times;
  }

  private static void report(String file, String how, List<Long> times) {
    List<Long> sorted = times.stream().sorted().toList();
    System.out.printf("hdfs-measure: %-14s %-16s median %.2f s (%s)%n", file.split("/")[1], how,
        sorted.get(sorted.size() / 2) / 1e3, sorted);
  }
}
