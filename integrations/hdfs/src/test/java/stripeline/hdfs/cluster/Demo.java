package stripeline.hdfs.cluster;

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;

/**
 * The demonstration, {@code make hdfs-demo}: real files in unmodified HDFS lose a machine, and are whole again, through helpers;
 * then another machine, while the coordinator is away, as HDFS does it alone.
 */
public final class Demo {

  private static final int DATANODES = 16;
  private static final long BLOCK_BYTES = 8L << 20;
  /** What the plugin's log says of a reconstruction by either way. */
  private static final String HELPED = "through helpers in";
  private static final String ALONE = "as HDFS does it";

  private static final Duration RECOVERED_WITHIN = Duration.ofMinutes(5);

  private Demo() {}

  /** Files by their names, each with its length. */
  private static final Map<String, Long> FILES = new LinkedHashMap<>();

  static {
    for (String policy : List.of("RS-6-3-1024k", "RS-10-4-1024k")) {
      FILES.put("/" + policy + "/large", 120_000_000L);
      FILES.put("/" + policy + "/medium", 9_437_184L + 17);
      FILES.put("/" + policy + "/cell", 1_048_577L);
      FILES.put("/" + policy + "/byte", 1L);
    }
  }

  /** With the path of the program {@code stripeline}, and a folder that may be removed afterwards. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    boolean isWell = false;
    try (HdfsCluster cluster = start(folder, Path.of(arguments[0]))) {
      Thread end = new Thread(cluster::close);
      Runtime.getRuntime().addShutdownHook(end);
      isWell = show(cluster);
      Runtime.getRuntime().removeShutdownHook(end);
    }
    if (isWell) {
      HdfsCluster.remove(folder);
    }
    say(isWell ? "all files are as they were; everything is taken down" : "NOT WELL; logs are in " + folder.resolve("logs"));
    System.exit(isWell ? 0 : 1);
  }

  private static HdfsCluster start(Path folder, Path stripeline) throws Exception {
    long start = System.nanoTime();
    say("starting a NameNode, " + DATANODES + " DataNodes with the plugin, a helper beside each, a coordinator");
    HdfsCluster cluster = new HdfsCluster(folder, stripeline, DATANODES, Map.of(), List.of(), HdfsCluster.Hosts.LOOPBACK);
    say("running after " + seconds(start) + " (Hadoop " + org.apache.hadoop.util.VersionInfo.getVersion() + ")");
    return cluster;
  }

  private static boolean show(HdfsCluster cluster) throws Exception {
    Map<String, String> before = write(cluster);
    say("wrote " + before.size() + " files; fsck: " + verdict(cluster));
    boolean isWell = recover(cluster, before);
    isWell &= !cluster.logged(HELPED).isEmpty() && cluster.logged(ALONE).isEmpty();
    cluster.killCoordinator();
    say("the coordinator is killed: the plugin has nobody to ask");
    isWell &= recover(cluster, before);
    return isWell && !cluster.logged(ALONE).isEmpty();
  }

  /** Kills a machine that has blocks, and waits until all is whole. */
  private static boolean recover(HdfsCluster cluster, Map<String, String> before) throws Exception {
    List<String> files = List.copyOf(before.keySet());
    DatanodeInfo victim = cluster.groups(files.get(0)).get(0).getLocations()[0];
    HdfsCluster.Machine machine = cluster.machineOf(victim);
    long lost = blocksOn(cluster, victim, files);
    int[] counted = {cluster.logged(HELPED).size(), cluster.logged(ALONE).size()};
    say("killing DataNode " + machine.number() + " (process " + machine.datanode().process().pid() + "), which has "
        + lost + " blocks, and the helper beside it");
    long start = System.nanoTime();
    cluster.killMachine(machine.number());
    cluster.await("recovery", RECOVERED_WITHIN, () -> cluster.isWhole(files));
    String took = seconds(start);
    int pipelined = cluster.logged(HELPED).size() - counted[0];
    int alone = cluster.logged(ALONE).size() - counted[1];
    say("whole again after " + took + ", detection included: " + pipelined + " reconstructions through helpers, " + alone
        + " as HDFS does them");
    if (pipelined > 0) {
      say("each through helpers took " + milliseconds(cluster.logged(HELPED)));
    }
    say("fsck: " + verdict(cluster));
    boolean isEqual = digests(cluster, files).equals(before);
    say("SHA-256 of every file " + (isEqual ? "as before" : "DIFFERS"));
    return isEqual && verdict(cluster).contains("HEALTHY");
  }

  private static Map<String, String> write(HdfsCluster cluster) throws Exception {
    DistributedFileSystem fs = cluster.fileSystem();
    for (String policy : List.of("RS-6-3-1024k", "RS-10-4-1024k")) {
      org.apache.hadoop.fs.Path folder = new org.apache.hadoop.fs.Path("/" + policy);
      fs.enableErasureCodingPolicy(policy);
      fs.mkdirs(folder);
      fs.setErasureCodingPolicy(folder, policy);
    }
    Random random = new Random(1);
    byte[] bytes = new byte[1 << 20];
    for (Map.Entry<String, Long> file : FILES.entrySet()) {
      org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(file.getKey());
      try (FSDataOutputStream out = fs.create(path, true, 1 << 16, (short) 1, BLOCK_BYTES)) {
        for (long left = file.getValue(); left > 0; left -= bytes.length) {
          random.nextBytes(bytes);
          out.write(bytes, 0, (int) Math.min(left, bytes.length));
        }
      }
    }
    return digests(cluster, List.copyOf(FILES.keySet()));
  }

  static Map<String, String> digests(HdfsCluster cluster, List<String> files) throws Exception {
    Map<String, String> digests = new LinkedHashMap<>();
    byte[] bytes = new byte[1 << 20];
    for (String file : files) {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      try (FSDataInputStream in = cluster.fileSystem().open(new org.apache.hadoop.fs.Path(file))) {
        for (int count; (count = in.read(bytes)) > 0; ) {
          digest.update(bytes, 0, count);
        }
      }
      digests.put(file, HexFormat.of().formatHex(digest.digest()));
    }
    return digests;
  }

  private static long blocksOn(HdfsCluster cluster, DatanodeInfo datanode, List<String> files) throws Exception {
    long count = 0;
    for (String file : files) {
      for (var group : cluster.groups(file)) {
        for (DatanodeInfo at : group.getLocations()) {
          count += at.getDatanodeUuid().equals(datanode.getDatanodeUuid()) ? 1 : 0;
        }
      }
    }
    return count;
  }

  /** The last line but those that are empty. */
  private static String verdict(HdfsCluster cluster) throws Exception {
    List<String> lines = new ArrayList<>(cluster.fsck("/").lines().filter(line -> !line.isBlank()).toList());
    return lines.isEmpty() ? "nothing" : lines.get(lines.size() - 1).trim();
  }

  /** From the least to the most that the plugin's log tells. */
  private static String milliseconds(List<String> lines) {
    Pattern took = Pattern.compile(HELPED + " (\\d+) ms");
    List<Long> all = lines.stream().map(took::matcher).filter(Matcher::find).map(m -> Long.valueOf(m.group(1))).sorted().toList();
    return all.isEmpty() ? "no time" : all.get(0) + " to " + all.get(all.size() - 1) + " ms";
  }

  private static String seconds(long since) {
    return String.format("%.1f s", (System.nanoTime() - since) / 1e9);
  }

  private static void say(String sentence) {
    System.out.println("hdfs-demo: " + sentence);
  }
}
