package stripeline.hdfs.cluster;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;

/**
 * Unmodified HDFS loses a DataNode again and again, and rebuilds its blocks in one new DataNode, each time by another scheme: the
 * experiment rp-10b ({@code crates/lab}) starts it on its testbed, and reads the lines that it prints.
 *
 * <pre>
 *   ready                                   all is written; goes on when a line comes
 *   read SCHEME healthy|lost SECONDS        a positional read of a cell
 *   begin SCHEME                            now the NameNode may order reconstructions
 *   end SCHEME SECONDS BLOCKS BYTES         every lost block is there again, byte for byte
 *   done
 * </pre>
 *
 * <p>A group has a block on every DataNode, so that the new one is the only target there is.
 */
public final class Recovery {

  static final int CELL = 1 << 20;

  private static final Duration RECOVERED_WITHIN = Duration.ofMinutes(15);

  /** So often it is asked whether all is there. */
  private static final long POLL_MS = 50;

  private static final String FILE = "/file";

  /** How HDFS does it itself: its DataNode has no plugin. */
  static final String ORIGINAL = "original";

  private final HdfsCluster cluster;
  private final long blockBytes;
  private final int dataUnits;
  private int newest;
  private int turn;

  private Recovery(HdfsCluster cluster, int dataUnits, int parityUnits, long blockBytes) {
    this.cluster = cluster;
    this.dataUnits = dataUnits;
    this.blockBytes = blockBytes;
    newest = dataUnits + parityUnits;
  }

  /**
   * The path of the program {@code stripeline}; a folder that may be removed; what namespaces are called, without their numbers; data and
   * parity units; bytes of a block; how many groups; reads of each kind; blocks that a DataNode rebuilds at once; and each loss's scheme.
   */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    int dataUnits = Integer.parseInt(arguments[3]);
    int parityUnits = Integer.parseInt(arguments[4]);
    long blockBytes = Long.parseLong(arguments[5]);
    int groups = Integer.parseInt(arguments[6]);
    int reads = Integer.parseInt(arguments[7]);
    int streams = Integer.parseInt(arguments[8]);
    List<String> turns = List.of(arguments).subList(9, arguments.length);
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    boolean isDone = false;
    try (HdfsCluster cluster = new HdfsCluster(folder, Path.of(arguments[0]), dataUnits + parityUnits, Map.of(
        // The shipped limits are 2 and 4.
        "dfs.namenode.replication.max-streams", String.valueOf(streams),
        "dfs.namenode.replication.max-streams-hard-limit", String.valueOf(2 * streams)), List.of("--block-tokens", "off"), new TestbedHosts(arguments[2], 1))) {
      Recovery recovery = new Recovery(cluster, dataUnits, parityUnits, blockBytes);
      recovery.write(parityUnits, groups);
      say("ready");
      new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
      for (String turn : turns) {
        recovery.turn(turn, turn.equals(turns.get(0)) ? reads : 0);
      }
      isDone = true;
    }
    if (isDone) {
      HdfsCluster.remove(folder);
      say("done");
    }
    System.exit(isDone ? 0 : 1);
  }

  private void write(int parityUnits, int groups) throws Exception {
    String policy = ReplicatedFiles.enable(cluster.fileSystem(), dataUnits, parityUnits, CELL);
    cluster.fileSystem().setErasureCodingPolicy(new org.apache.hadoop.fs.Path("/"), policy);
    byte[] bytes = new byte[CELL];
    Random random = new Random(3);
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(FILE);
    try (FSDataOutputStream out = cluster.fileSystem().create(path, true, 1 << 16, (short) 1, blockBytes)) {
      for (long left = groups * dataUnits * blockBytes; left > 0; left -= CELL) {
        random.nextBytes(bytes);
        out.write(bytes);
      }
    }
    cluster.await("the file to be whole", () -> cluster.isWhole(List.of(FILE)));
  }

  /** A machine comes, another one dies, and the one that came gets what that one had. */
  private void turn(String scheme, int reads) throws Exception {
    int came = ++newest;
    cluster.add(came, scheme.equals(ORIGINAL) ? Map.of("dfs.datanode.plugins", "") : Map.of("stripeline.scheme", scheme));
    LocatedStripedBlock first = cluster.groups(FILE).get(0);
    // Data of the first group, that clients want; another machine each time.
    int member = turn++ % dataUnits;
    DatanodeInfo victim = null;
    for (int i = 0; i < first.getLocations().length; i++) {
      victim = first.getBlockIndices()[i] == member ? first.getLocations()[i] : victim;
    }
    String gone = victim.getDatanodeUuid();
    int lost = cluster.machineOf(victim).number();
    Map<String, String> before = digests(lost);
    // Nothing is ordered before it is known of all.
    cluster.fileSystem().setSafeMode(SafeModeAction.ENTER);
    cluster.killMachine(lost);
    cluster.await("the NameNode to give it up", () -> cluster.groups(FILE).stream()
        .flatMap(group -> java.util.Arrays.stream(group.getLocations()))
        .noneMatch(at -> at.getDatanodeUuid().equals(gone)));
    if (reads > 0) {
      read(came, member, reads);
    }
    int helped = cluster.logged("through helpers in").size();
    say("begin " + scheme);
    long start = System.nanoTime();
    cluster.fileSystem().setSafeMode(SafeModeAction.LEAVE);
    long deadline = start + RECOVERED_WITHIN.toNanos();
    while (!cluster.isWhole(List.of(FILE))) {
      if (System.nanoTime() > deadline) {
        throw new IOException("not recovered within " + RECOVERED_WITHIN);
      }
      Thread.sleep(POLL_MS);
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    Map<String, String> after = digests(came);
    int by = cluster.logged("through helpers in").size() - helped;
    if (!after.equals(before) || by != (scheme.equals(ORIGINAL) ? 0 : before.size())) {
      throw new IOException(after.size() + " blocks, " + by + " of them by helpers; lost were " + before.size()
          + (after.equals(before) ? "" : ", and bytes differ"));
    }
    HdfsCluster.remove(cluster.dataOf(lost));
    say(String.format(Locale.ROOT, "end %s %.3f %d %d", scheme, seconds, before.size(), before.size() * blockBytes));
  }

  /** A client on the machine that has just come, and holds nothing, reads cells of a member that is there, and of the one that is not. */
  private void read(int machine, int lostMember, int reads) throws Exception {
    List<String> command = cluster.program(machine, CellReads.class,
        cluster.clientConf().get("fs.defaultFS"), "127.0.0.1:" + cluster.machines().get(machine).gatewayPort(), FILE,
        String.valueOf(lostMember), String.valueOf(blockBytes), String.valueOf(reads));
    Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
      lines.lines().filter(line -> line.startsWith("read ")).forEach(Recovery::say);
    }
    if (process.waitFor() != 0) {
      throw new IOException("the client that reads failed: " + String.join(" ", command));
    }
  }

  /** Of every block file of a machine. */
  private Map<String, String> digests(int machine) throws Exception {
    Map<String, String> digests = new TreeMap<>();
    for (LocatedStripedBlock group : cluster.groups(FILE)) {
      for (int member = 0; member < newest; member++) {
        byte[] copy = cluster.copiesOf(group, member).get(machine);
        if (copy != null) {
          MessageDigest digest = MessageDigest.getInstance("SHA-256");
          digests.put("blk_" + (group.getBlock().getBlockId() + member), HexFormat.of().formatHex(digest.digest(copy)));
        }
      }
    }
    return digests;
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
