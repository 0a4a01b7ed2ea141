package stripeline.hdfs.cluster;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
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

  /** One more than RS-10-4 needs when two have died. */
  private static final int MACHINES = 16;
  private static final int CELL = 1 << 20;
  private static final long BLOCK_BYTES = 64L * CELL;
  private static final int RUNS = 3;

  /** Groups of a file of which a machine has a block each, or nearly: enough for all machines to have something to do. */
  private static final int GROUPS = 14;
  private static final long NODE_BLOCK_BYTES = 32L * CELL;

  private static final String HELPED = "through helpers";
  private static final String ALONE = "as HDFS does it";
  private static final Pattern BY_HELPERS = Pattern.compile("through helpers in (\\d+) ms");
  private static final Pattern BY_HDFS = Pattern.compile("took (\\d+) ms without helpers");

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
        files.add(write(cluster, policy, "/file", 1, BLOCK_BYTES));
      }
      String many = write(cluster, "RS-10-4-1024k", "/many", GROUPS, NODE_BLOCK_BYTES);
      for (String file : files) {
        report(file, HELPED, times(cluster, losses, file, BY_HELPERS));
      }
      node(cluster, many, HELPED, BY_HELPERS);
      cluster.killCoordinator();
      for (String file : files) {
        report(file, ALONE, times(cluster, losses, file, BY_HDFS));
      }
      node(cluster, many, ALONE, BY_HDFS);
      isDone = true;
    }
    if (isDone) {
      HdfsCluster.remove(folder);
    }
    System.exit(isDone ? 0 : 1);
  }

  private static String write(HdfsCluster cluster, String policy, String name, int groups, long blockBytes) throws Exception {
    String file = "/" + policy + name;
    DistributedFileSystem fs = cluster.fileSystem();
    int dataUnits = Integer.parseInt(policy.split("-")[1]);
    byte[] bytes = new byte[CELL];
    Random random = new Random(3);
    try (FSDataOutputStream out = fs.create(new org.apache.hadoop.fs.Path(file), true, 1 << 16, (short) 1, blockBytes)) {
      for (long left = groups * dataUnits * blockBytes; left > 0; left -= CELL) {
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

  /** A machine dies: how fast its blocks of a file come back, from the first order to the last byte, as the plugin's log has it. */
  private static void node(HdfsCluster cluster, String file, String how, Pattern took) throws Exception {
    HdfsCluster.Machine victim = cluster.machineOf(cluster.groups(file).get(0).getLocations()[0]);
    List<String> before = cluster.logged(" ms");
    cluster.killMachine(victim.number());
    cluster.await("recovery", Duration.ofMinutes(10), () -> cluster.isWhole(List.of(file)));
    Thread.sleep(2_000);
    LocalDateTime first = LocalDateTime.MAX;
    LocalDateTime last = LocalDateTime.MIN;
    int blocks = 0;
    List<String> groups = cluster.groups(file).stream().map(g -> "blk_" + g.getBlock().getBlockId() + "_").toList();
    for (String line : cluster.logged(" ms")) {
      Matcher matcher = took.matcher(line);
      if (!before.contains(line) && matcher.find() && groups.stream().anyMatch(line::contains)) {
        LocalDateTime end = LocalDateTime.parse(line.substring(0, 23), DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss,SSS"));
        LocalDateTime start = end.minus(Duration.ofMillis(Long.parseLong(matcher.group(1))));
        first = start.isBefore(first) ? start : first;
        last = end.isAfter(last) ? end : last;
        blocks++;
      }
    }
    double seconds = Duration.between(first, last).toMillis() / 1e3;
    System.out.printf("hdfs-measure: a machine, RS-10-4, %-16s %d blocks of %d MiB in %.1f s: %.1f MiB/s%n", how, blocks,
        NODE_BLOCK_BYTES / CELL, seconds, blocks * NODE_BLOCK_BYTES / CELL / seconds);
  }

  private static void report(String file, String how, List<Long> times) {
    List<Long> sorted = times.stream().sorted().toList();
    System.out.printf("hdfs-measure: %-14s %-16s median %.2f s (%s)%n", file.split("/")[1], how,
        sorted.get(sorted.size() / 2) / 1e3, sorted);
  }
}
