package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.HdfsDataInputStream;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/** Unmodified HDFS with the plugin: whatever is lost comes back byte for byte. One cluster, which loses a machine now and then. */
@Tag("cluster")
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ReconstructionTest {

  private static final int DATANODES = 12;
  private static final int CELL = 1 << 20;
  private static final long BLOCK_BYTES = 2L * CELL;
  private static final Duration RECOVERED_WITHIN = Duration.ofMinutes(2);

  /** What the plugin's log says of a reconstruction by either way. */
  private static final String HELPED = "through helpers in";
  private static final String ALONE = "as HDFS does it";

  private static Path folder;
  private static HdfsCluster cluster;
  private static Losses losses;

  @BeforeAll
  static void start() throws Exception {
    folder = Path.of(System.getProperty("hdfs.folder"));
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    cluster = new HdfsCluster(folder, Path.of(System.getProperty("stripeline")), DATANODES, Map.of(
        // Files that vanish are found within seconds, not hours.
        "dfs.datanode.directoryscan.interval", "2",
        "dfs.blockreport.intervalMsec", "3000"), List.of(), HdfsCluster.Hosts.LOOPBACK);
    losses = new Losses(cluster, new Random(7));
    losses.makeFolders("RS-6-3-1024k", "RS-3-2-1024k", "XOR-2-1-1024k", "RS-LEGACY-6-3-1024k");
  }

  @AfterAll
  static void end() throws IOException {
    if (cluster != null) {
      cluster.close();
    }
    if (!Boolean.getBoolean("keep")) {
      HdfsCluster.remove(folder);
    }
  }

  @Test
  @Order(1)
  void everySingleLossAndSeveralAtOnceComeBackByteForByte() throws Exception {
    Map<String, List<int[]>> patterns = new LinkedHashMap<>();
    patterns.put("RS-6-3-1024k", new ArrayList<>());
    for (int member = 0; member < 9; member++) {
      patterns.get("RS-6-3-1024k").add(new int[] {member});
    }
    patterns.get("RS-6-3-1024k").addAll(List.of(new int[] {0, 8}, new int[] {2, 3, 5}, new int[] {1, 6, 7}));
    patterns.put("RS-3-2-1024k", List.of(new int[] {1}, new int[] {4}, new int[] {0, 3}));
    patterns.put("XOR-2-1-1024k", List.of(new int[] {0}, new int[] {2}));
    patterns.put("RS-LEGACY-6-3-1024k", List.of(new int[] {4}, new int[] {8, 0}));
    long pipelined = cluster.counter("Pipelined");
    List<Losses.Loss> lost = new ArrayList<>();
    for (Map.Entry<String, List<int[]>> policy : patterns.entrySet()) {
      int dataUnits = policy.getKey().contains("6-3") ? 6 : policy.getKey().contains("3-2") ? 3 : 2;
      for (int[] members : policy.getValue()) {
        lost.add(losses.lose(policy.getKey(), dataUnits * BLOCK_BYTES - losses.random().nextInt(CELL / 2), members));
      }
    }
    for (Losses.Loss loss : lost) {
      losses.awaitBack(loss);
    }
    awaitCounter("Pipelined", pipelined + lost.size());
    assertEquals(0, cluster.counter("FallBacks"), () -> logged(ALONE));
  }

  @Test
  @Order(2)
  void shortGroupsComeBack() throws Exception {
    List<Losses.Loss> lost = new ArrayList<>();
    for (long length : List.of(1L, CELL - 1L, (long) CELL, CELL + 1L, 6L * CELL - 1, 6L * CELL, 6L * CELL + 1)) {
      lost.add(losses.lose("RS-6-3-1024k", length, new int[] {0}));
      lost.add(losses.lose("RS-6-3-1024k", length, new int[] {8}));
    }
    for (Losses.Loss loss : lost) {
      losses.awaitBack(loss);
    }
    assertEquals(0, cluster.counter("FallBacks"), () -> logged(ALONE));
  }

  @Test
  @Order(3)
  void aMachineThatDiesIsReplacedAndAllFilesAreAsBefore() throws Exception {
    List<String> files = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      files.add(losses.write("RS-6-3-1024k", 9L * CELL * (i + 1) + i));
    }
    Map<String, String> before = Demo.digests(cluster, files);
    int pipelined = cluster.logged(HELPED).size();
    DatanodeInfo victim = cluster.groups(files.get(0)).get(0).getLocations()[1];
    cluster.killMachine(cluster.machineOf(victim).number());
    cluster.await("recovery", RECOVERED_WITHIN, () -> cluster.isWhole(files));
    assertEquals(before, Demo.digests(cluster, files));
    assertTrue(cluster.logged(HELPED).size() > pipelined);
    assertTrue(cluster.fsck("/").contains("HEALTHY"));
  }

  @Test
  @Order(4)
  void aCorruptSourceAndAHelperThatIsAwayAreGoneAround() throws Exception {
    int fallBacks = cluster.logged(ALONE).size();
    int away = cluster.machines().keySet().iterator().next();
    cluster.killHelper(away);
    String file = losses.write("RS-3-2-1024k", 3 * BLOCK_BYTES);
    LocatedStripedBlock group = cluster.groups(file).get(0);
    // A byte of one source flips; its checksum finds it out.
    Path corrupt = cluster.filesOf(group, 1).values().iterator().next();
    byte[] right = Files.readAllBytes(corrupt);
    byte[] wrong = right.clone();
    wrong[right.length / 2] ^= 1;
    Files.write(corrupt, wrong);
    Losses.Loss loss = losses.lose(file, new int[] {4});
    losses.awaitBack(loss);
    Files.write(corrupt, right);
    cluster.restartHelper(away);
    // By helpers if enough were left, else as HDFS does it: this is about the bytes.
    assertTrue(cluster.logged(ALONE).size() - fallBacks <= 2);
  }

  /** While it is only away, and once the NameNode names nobody for its blocks. */
  @Test
  @Order(5)
  void clientsReadWhatAMachineHadThroughHelpers() throws Exception {
    String file = losses.write("RS-6-3-1024k", 2 * 6 * BLOCK_BYTES - 12_345);
    byte[] before = readAll(cluster.fileSystem(), file);
    LocatedStripedBlock group = cluster.groups(file).get(0);
    DatanodeInfo victim = null;
    for (int i = 0; i < group.getLocations().length; i++) {
      victim = group.getBlockIndices()[i] == 2 ? group.getLocations()[i] : victim;
    }
    // Nothing is reconstructed meanwhile.
    cluster.fileSystem().setSafeMode(SafeModeAction.ENTER);
    String uuid = victim.getDatanodeUuid();
    cluster.killMachine(cluster.machineOf(victim).number());
    try (DistributedFileSystem helped = cluster.readingFileSystem()) {
      assertArrayEquals(before, readAll(helped, file), "away");
      cluster.await("the NameNode to give it up", RECOVERED_WITHIN, () -> cluster.groups(file).stream()
          .flatMap(of -> java.util.Arrays.stream(of.getLocations())).noneMatch(at -> at.getDatanodeUuid().equals(uuid)));
      assertArrayEquals(before, readAll(helped, file), "given up");
      assertEquals(CELL, readCell(helped, file, before), "a cell takes a cell, and no other");
      assertEquals(6L * CELL, readCell(cluster.fileSystem(), file, before), "as HDFS does it, it takes six");
      assertTrue(cluster.fileSystem().getFileChecksum(new org.apache.hadoop.fs.Path(file))
          .equals(helped.getFileChecksum(new org.apache.hadoop.fs.Path(file))));
      int hosts = helped.getFileBlockLocations(new org.apache.hadoop.fs.Path(file), 0, 1)[0].getHosts().length;
      assertEquals(8, hosts, "nobody sees who is none");
    }
    try (DistributedFileSystem alone = cluster.readingFileSystem()) {
      // Gateways that nobody listens at.
      alone.getConf().set("stripeline.gateway", "127.0.0.1:1");
      alone.initialize(alone.getUri(), alone.getConf());
      assertArrayEquals(before, readAll(alone, file), "decoded as HDFS does it");
    }
    cluster.fileSystem().setSafeMode(SafeModeAction.LEAVE);
    cluster.await("recovery", RECOVERED_WITHIN, () -> cluster.isWhole(List.of(file)));
  }

  private static byte[] readAll(DistributedFileSystem fs, String file) throws IOException {
    try (FSDataInputStream in = fs.open(new org.apache.hadoop.fs.Path(file))) {
      return in.readAllBytes();
    }
  }

  /** Reads the first cell of member 2 by its position; how many bytes HDFS's client counts for it. */
  private static long readCell(DistributedFileSystem fs, String file, byte[] before) throws IOException {
    try (HdfsDataInputStream in = (HdfsDataInputStream) fs.open(new org.apache.hadoop.fs.Path(file))) {
      byte[] cell = new byte[CELL];
      in.readFully(2L * CELL, cell);
      assertArrayEquals(java.util.Arrays.copyOfRange(before, 2 * CELL, 3 * CELL), cell);
      return in.getReadStatistics().getTotalBytesRead();
    }
  }

  @Test
  @Order(6)
  void withoutACoordinatorHdfsDoesItAlone() throws Exception {
    long fallBacks = cluster.counter("FallBacks");
    cluster.killCoordinator();
    losses.awaitBack(losses.lose("RS-6-3-1024k", 6 * BLOCK_BYTES, new int[] {2}));
    assertFalse(cluster.logged("nothing came through helpers").isEmpty());
    awaitCounter("FallBacks", fallBacks + 1);

    // It comes back, knows nobody, and soon everybody.
    cluster.startCoordinator();
    int pipelined = cluster.logged(HELPED).size();
    cluster.await("helpers to be known again", RECOVERED_WITHIN, () -> {
      losses.awaitBack(losses.lose("RS-6-3-1024k", BLOCK_BYTES, new int[] {0}));
      return cluster.logged(HELPED).size() > pipelined;
    });
  }

  /** JMX shows counters as they were up to ten seconds ago. */
  private static void awaitCounter(String name, long least) throws Exception {
    cluster.await(name + " to be " + least, Duration.ofSeconds(30), () -> cluster.counter(name) >= least);
  }

  private static String logged(String words) {
    try {
      return String.join("\n", cluster.logged(words));
    } catch (IOException error) {
      return error.toString();
    }
  }
}
