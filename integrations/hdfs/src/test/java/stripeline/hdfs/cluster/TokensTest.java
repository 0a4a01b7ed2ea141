package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.HdfsDataInputStream;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.security.token.Token;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import stripeline.hdfs.Answer;
import stripeline.hdfs.Gateway;
import stripeline.hdfs.GatewayException;
import stripeline.hdfs.Request;
import stripeline.hdfs.Settings;

/** Unmodified HDFS with block tokens, which are good for a minute: helpers read blocks for those whom the DataNodes would let read them. */
@Tag("cluster")
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class TokensTest {

  private static final int DATANODES = 7;
  private static final int CELL = Losses.CELL;
  private static final String POLICY = "RS-3-2-1024k";
  private static final int K = 3;
  private static final int MEMBERS = 5;
  private static final long DATA_BYTES = K * Losses.BLOCK_BYTES;
  private static final long TOKENS_LIVE_MS = 60_000;
  private static final int DENIED = 8;

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
        "dfs.block.access.token.enable", "true",
        "dfs.block.access.token.lifetime", "1",
        // In safe mode DataNodes are told of no new key. They know the next one: during a minute of it there may be one, not two.
        "dfs.block.access.key.update.interval", "3",
        // Nobody but helpers finds wrong bytes.
        "dfs.datanode.scan.period.hours", "-1",
        // Files that vanish are found within seconds, not hours.
        "dfs.datanode.directoryscan.interval", "2",
        "dfs.blockreport.intervalMsec", "3000"), List.of(), HdfsCluster.Hosts.LOOPBACK);
    losses = new Losses(cluster, new Random(11));
    losses.makeFolders(POLICY);
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

  private static byte[] readAll(DistributedFileSystem fs, String file) throws IOException {
    try (FSDataInputStream in = fs.open(new org.apache.hadoop.fs.Path(file))) {
      return in.readAllBytes();
    }
  }

  @Test
  @Order(1)
  void blocksAreRebuiltThroughHelpersWithTheDataNodesTokens() throws Exception {
    int helped = cluster.logged(HELPED).size();
    List<Losses.Loss> lost = new ArrayList<>();
    for (int[] members : List.of(new int[] {0}, new int[] {4}, new int[] {1, 3})) {
      lost.add(losses.lose(POLICY, DATA_BYTES - 100, members));
    }
    for (Losses.Loss loss : lost) {
      losses.awaitBack(loss);
    }
    cluster.await("the log", () -> cluster.logged(HELPED).size() >= helped + lost.size());
    assertEquals(List.of(), cluster.logged(ALONE));
  }

  /** Bytes of a member through a gateway, with what somebody has for each of the others. */
  private static byte[] ask(LocatedStripedBlock group, int member, IntFunction<Token<?>> token) throws IOException {
    int port = cluster.machines().values().iterator().next().gatewayPort();
    Gateway gateway = new Gateway(new Settings(List.of(new InetSocketAddress("127.0.0.1", port)), "", 1_000, 30_000));
    List<Request.Member> living = new ArrayList<>();
    for (int i = 0; i < group.getLocations().length; i++) {
      int index = group.getBlockIndices()[i];
      if (index != member) {
        UUID uuid = UUID.fromString(group.getLocations()[i].getDatanodeUuid());
        living.add(new Request.Member(index, uuid, group.getLocations()[i].getNetworkLocation(), token.apply(i)));
      }
    }
    Request request = new Request(group.getBlock().getBlockPoolId(), group.getBlock().getBlockId(),
        group.getBlock().getGenerationStamp(), "rs", K, MEMBERS - K, CELL, group.getBlockSize(), 0, CELL,
        Request.Purpose.READ, "", List.of(member), living);
    try (Answer answer = gateway.ask(request)) {
      ByteBuffer bytes = ByteBuffer.allocate(CELL);
      answer.read(new ByteBuffer[] {bytes}, CELL);
      answer.finish();
      return bytes.array();
    }
  }

  private static void assertDenied(LocatedStripedBlock group, String what, IntFunction<Token<?>> token) {
    GatewayException refused = assertThrows(GatewayException.class, () -> ask(group, 1, token), what);
    assertEquals(DENIED, refused.code(), () -> what + ": " + refused.getMessage());
  }

  @Test
  @Order(2)
  void whoeverHasNoTokenOfABlockGetsNothingOfIt() throws Exception {
    String file = losses.write(POLICY, DATA_BYTES);
    String another = losses.write(POLICY, DATA_BYTES);
    cluster.await("whole files", () -> cluster.isWhole(List.of(file, another)));
    LocatedStripedBlock group = cluster.groups(file).get(0);
    Token<BlockTokenIdentifier>[] tokens = group.getBlockTokens();
    byte[] right = Files.readAllBytes(cluster.filesOf(group, 1).values().iterator().next());
    assertArrayEquals(Arrays.copyOf(right, CELL), ask(group, 1, i -> tokens[i]));

    assertDenied(group, "none", i -> null);
    Token<BlockTokenIdentifier>[] others = cluster.groups(another).get(0).getBlockTokens();
    assertDenied(group, "those of another file", i -> others[i]);
    assertDenied(group, "those of another block of the group", i -> tokens[(i + 1) % tokens.length]);
    assertDenied(group, "the whole group's", i -> group.getBlockToken());
    assertDenied(group, "forged ones", i -> {
      byte[] password = tokens[i].getPassword().clone();
      password[3] ^= 1;
      return new Token<>(tokens[i].getIdentifier(), password, tokens[i].getKind(), tokens[i].getService());
    });
    assertDenied(group, "ones that were made longer", i -> {
      byte[] identifier = tokens[i].getIdentifier().clone();
      identifier[2] ^= 0x40;
      return new Token<>(identifier, tokens[i].getPassword(), tokens[i].getKind(), tokens[i].getService());
    });
    assertArrayEquals(Arrays.copyOf(right, CELL), ask(group, 1, i -> tokens[i]), "they are still good");
  }

  @Test
  @Order(3)
  void lostBlocksAreReadThroughHelpersAsLongAsTokensAreGoodAndThenAsHdfsDoesIt() throws Exception {
    String file = losses.write(POLICY, DATA_BYTES);
    byte[] before = readAll(cluster.fileSystem(), file);
    cluster.await("a whole file", () -> cluster.isWhole(List.of(file)));
    // Nothing is reconstructed meanwhile.
    cluster.fileSystem().setSafeMode(SafeModeAction.ENTER);
    losses.lose(file, new int[] {1});
    byte[] cell = new byte[CELL];
    try (DistributedFileSystem helped = cluster.readingFileSystem();
        HdfsDataInputStream in = (HdfsDataInputStream) helped.open(new org.apache.hadoop.fs.Path(file))) {
      long opened = System.nanoTime();
      in.readFully(CELL, cell);
      assertArrayEquals(Arrays.copyOfRange(before, CELL, 2 * CELL), cell);
      assertEquals(CELL, in.getReadStatistics().getTotalBytesRead(), "through helpers a cell takes a cell");

      LocatedStripedBlock group = cluster.groups(file).get(0);
      Token<BlockTokenIdentifier>[] tokens = group.getBlockTokens();
      Thread.sleep(Math.max(0, TOKENS_LIVE_MS + 2_000 - (System.nanoTime() - opened) / 1_000_000));
      assertDenied(group, "expired ones", i -> tokens[i]);
      in.readFully(CELL, cell);
      assertArrayEquals(Arrays.copyOfRange(before, CELL, 2 * CELL), cell);
      assertTrue(in.getReadStatistics().getTotalBytesRead() >= (1L + K) * CELL, "as HDFS does it");
    }
    cluster.fileSystem().setSafeMode(SafeModeAction.LEAVE);
    cluster.await("recovery", Losses.RECOVERED_WITHIN, () -> cluster.isWhole(List.of(file)));
  }

  /** Flips a byte of a member's first cell where it is stored; its bytes before. */
  private static byte[] damage(LocatedStripedBlock group, int member) throws IOException {
    Path stored = cluster.filesOf(group, member).values().iterator().next();
    byte[] right = Files.readAllBytes(stored);
    byte[] wrong = right.clone();
    wrong[CELL / 2] ^= 1;
    Files.write(stored, wrong);
    return right;
  }

  /** The NameNode has a member made anew, and lets nobody keep the wrong bytes. */
  private static void awaitReplaced(LocatedStripedBlock group, int member, byte[] right, String file) throws Exception {
    String block = "blk_" + (group.getBlock().getBlockId() + member);
    cluster.await(block + " to be made anew", Losses.RECOVERED_WITHIN, () -> {
      Collection<byte[]> copies = cluster.copiesOf(group, member).values();
      return !copies.isEmpty() && copies.stream().allMatch(copy -> Arrays.equals(right, copy))
          && cluster.isWhole(List.of(file));
    });
  }

  /** Whether the NameNode is told within a few seconds that a member is corrupt: helpers may have done without it. */
  private static boolean isToldOf(LocatedStripedBlock group, int member) throws Exception {
    String block = "blk_" + (group.getBlock().getBlockId() + member) + "_";
    for (int i = 0; i < 20; i++) {
      if (cluster.logged("nn", "reportBadBlocks for block").stream().anyMatch(line -> line.contains(block))) {
        return true;
      }
      Thread.sleep(200);
    }
    return false;
  }

  /** Three of the four members that are left are read, so that of four damaged ones about three are met. */
  @Test
  @Order(4)
  void wrongBytesAtASourceOfAReconstructionAreReplaced() throws Exception {
    int met = 0;
    for (int damaged : new int[] {0, 1, 2, 4}) {
      String file = losses.write(POLICY, DATA_BYTES);
      cluster.await("a whole file", () -> cluster.isWhole(List.of(file)));
      LocatedStripedBlock group = cluster.groups(file).get(0);
      byte[] before = readAll(cluster.fileSystem(), file);
      byte[] right = damage(group, damaged);
      Losses.Loss loss = losses.lose(file, new int[] {3});
      losses.awaitBack(loss);
      if (isToldOf(group, damaged)) {
        met++;
        awaitReplaced(group, damaged, right, file);
        assertArrayEquals(before, readAll(cluster.fileSystem(), file));
      }
    }
    assertTrue(met > 0);
    // Not HDFS's own reconstruction, which tells as well.
    assertEquals(met, cluster.logged("has wrong bytes: the NameNode is told").size());
    assertEquals(List.of(), cluster.logged(ALONE));
    assertTrue(cluster.fsck("/").contains("HEALTHY"));
  }

  @Test
  @Order(5)
  void wrongBytesThatAReadMeetsAreReplaced() throws Exception {
    int met = 0;
    for (int damaged : new int[] {0, 2, 3, 4}) {
      String file = losses.write(POLICY, DATA_BYTES);
      byte[] before = readAll(cluster.fileSystem(), file);
      cluster.await("a whole file", () -> cluster.isWhole(List.of(file)));
      LocatedStripedBlock group = cluster.groups(file).get(0);
      // Nothing is reconstructed meanwhile.
      cluster.fileSystem().setSafeMode(SafeModeAction.ENTER);
      losses.lose(file, new int[] {1});
      byte[] right = damage(group, damaged);
      byte[] cell = new byte[CELL];
      try (DistributedFileSystem helped = cluster.readingFileSystem();
          HdfsDataInputStream in = (HdfsDataInputStream) helped.open(new org.apache.hadoop.fs.Path(file))) {
        in.readFully(CELL, cell);
        assertEquals(CELL, in.getReadStatistics().getTotalBytesRead(), "HDFS's own stream, which tells as well, has read nothing");
      }
      assertArrayEquals(Arrays.copyOfRange(before, CELL, 2 * CELL), cell);
      boolean isMet = isToldOf(group, damaged);
      cluster.fileSystem().setSafeMode(SafeModeAction.LEAVE);
      if (isMet) {
        met++;
        awaitReplaced(group, damaged, right, file);
        assertArrayEquals(before, readAll(cluster.fileSystem(), file));
      }
    }
    assertTrue(met > 0);
  }

  @Test
  @Order(6)
  void aHelperReadsNothingForAnybodyWithoutItsDataNodesPlugin() throws Exception {
    String file = losses.write(POLICY, DATA_BYTES);
    cluster.await("a whole file", () -> cluster.isWhole(List.of(file)));
    LocatedStripedBlock group = cluster.groups(file).get(0);
    Token<BlockTokenIdentifier>[] tokens = group.getBlockTokens();
    byte[] right = Arrays.copyOf(Files.readAllBytes(cluster.filesOf(group, 1).values().iterator().next()), CELL);
    List<Path> away = new ArrayList<>();
    for (int number : cluster.machines().keySet()) {
      Path socket = cluster.dataOf(number).resolve("stripeline.sock");
      away.add(Files.move(socket, socket.resolveSibling("away")));
    }
    assertDenied(group, "nobody can be asked", i -> tokens[i]);
    for (Path socket : away) {
      Files.move(socket, socket.resolveSibling("stripeline.sock"));
    }
    assertArrayEquals(right, ask(group, 1, i -> tokens[i]));
  }
}
