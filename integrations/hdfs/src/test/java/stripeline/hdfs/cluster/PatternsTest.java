package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.hdfs.protocol.AddErasureCodingPolicyResponse;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.io.erasurecode.ECSchema;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Which members of a group are lost, and how long its file is: a file for each pattern, all in one cluster, small cells. All patterns
 * are there before the NameNode orders the first reconstruction, so that each is rebuilt as the pattern that it is.
 */
@Tag("patterns")
class PatternsTest {

  /** RS-10-4, and one that has none of a group. */
  private static final int DATANODES = 15;

  private static final int CELL = 64 << 10;
  private static final long BLOCK_BYTES = 2L * CELL;

  /** Of RS-10-4, whose patterns are 1,470: of each number of losses. */
  private static final int SAMPLED = 14;

  private static final String HELPED = "through helpers in";
  private static final Pattern MEMBERS = Pattern.compile("reconstructed (\\d+) members of .*through helpers in");

  private final List<Losses.Loss> lost = new ArrayList<>();
  private final List<String> files = new ArrayList<>();
  private HdfsCluster cluster;
  private Losses losses;

  @Test
  void whateverIsLostComesBackByteForByteInOneReconstruction() throws Exception {
    long seed = Long.getLong("seed", 1);
    Path folder = Path.of(System.getProperty("hdfs.folder") + "-patterns");
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    try (HdfsCluster started = new HdfsCluster(folder, Path.of(System.getProperty("stripeline")), DATANODES, Map.of(
        "dfs.datanode.directoryscan.interval", "2",
        "dfs.blockreport.intervalMsec", "3000",
        "dfs.namenode.fs-limits.min-block-size", String.valueOf(CELL)), List.of(), HdfsCluster.Hosts.LOOPBACK)) {
      cluster = started;
      losses = new Losses(cluster, new Random(seed));
      String rs63 = folder(6, 3);
      String rs104 = folder(10, 4);
      writeAndPlan(rs63, rs104);
      Map<String, String> before = Demo.digests(cluster, files);
      int reconstructions = loseAndRebuild();
      assertEquals(before, Demo.digests(cluster, files), () -> "seed " + seed);
      assertTrue(cluster.fsck("/").contains("HEALTHY"));
      System.out.println("hdfs-patterns: " + lost.size() + " groups, each with a pattern of its own or another length, seed " + seed
          + ": all rebuilt byte for byte in " + reconstructions + " reconstructions through helpers");
    }
    HdfsCluster.remove(folder);
  }

  /** What is to be lost of each file, by its number among {@code files}. */
  private final List<int[]> planned = new ArrayList<>();

  private void writeAndPlan(String rs63, String rs104) throws Exception {
    // Every pattern of a group with all nine members; lengths around a stripe take turns with longer ones.
    long[] lengths = {6L * CELL - 1, 6L * CELL, 6L * CELL + 1, 12L * CELL, 0};
    List<int[]> all = patterns(IntStream.range(0, 9).toArray(), 3);
    for (int i = 0; i < all.size(); i++) {
      long length = lengths[i % lengths.length];
      plan(rs63, length > 0 ? length : 5L * CELL + 1 + losses.random().nextInt(7 * CELL), all.get(i));
    }
    // Short groups, that have no members 1 to 5, or no 2 to 5.
    for (long length : new long[] {1, CELL - 1, CELL, CELL + 1}) {
      for (int[] pattern : patterns(length > CELL ? new int[] {0, 1, 6, 7, 8} : new int[] {0, 6, 7, 8}, 3)) {
        plan(rs63, length, pattern);
      }
    }
    int[] members = IntStream.range(0, 14).toArray();
    for (int count = 1; count <= 4; count++) {
      int losing = count;
      List<int[]> some = new ArrayList<>(patterns(members, 4).stream().filter(p -> p.length == losing).toList());
      Collections.shuffle(some, losses.random());
      for (int[] pattern : some.subList(0, SAMPLED)) {
        plan(rs104, 9L * CELL + 1 + losses.random().nextInt(11 * CELL), pattern);
      }
    }
  }

  private void plan(String policy, long length, int[] pattern) throws Exception {
    files.add(losses.write(policy, length, BLOCK_BYTES));
    planned.add(pattern);
  }

  /** Nothing is rebuilt before all is lost; how many reconstructions it took. */
  private int loseAndRebuild() throws Exception {
    cluster.await("all files to be whole", () -> cluster.isWhole(files));
    cluster.fileSystem().setSafeMode(SafeModeAction.ENTER);
    for (int i = 0; i < files.size(); i++) {
      lost.add(losses.lose(files.get(i), planned.get(i)));
    }
    cluster.await("the NameNode to know of all losses", Losses.RECOVERED_WITHIN, () -> {
      for (Losses.Loss loss : lost) {
        LocatedStripedBlock now = cluster.groups(loss.file()).get(0);
        for (byte there : now.getBlockIndices()) {
          if (Arrays.stream(loss.members()).anyMatch(member -> member == there)) {
            return false;
          }
        }
      }
      return true;
    });
    assertTrue(cluster.logged(HELPED).isEmpty());
    cluster.fileSystem().setSafeMode(SafeModeAction.LEAVE);
    for (Losses.Loss loss : lost) {
      losses.awaitBack(loss);
    }
    cluster.await("all files to be whole", () -> cluster.isWhole(files));
    List<String> log = cluster.logged("reconstructed");
    for (Losses.Loss loss : lost) {
      List<Integer> counts = log.stream().filter(line -> line.contains("blk_" + loss.group().getBlock().getBlockId() + "_"))
          .map(MEMBERS::matcher).filter(Matcher::find).map(matcher -> Integer.valueOf(matcher.group(1))).toList();
      assertEquals(List.of(loss.members().length), counts, () -> Arrays.toString(loss.members()) + " of " + loss.file());
    }
    return log.size();
  }

  /** Up to so many of these members, in every way. */
  private static List<int[]> patterns(int[] members, int most) {
    List<int[]> patterns = new ArrayList<>();
    for (int chosen = 1; chosen < 1 << members.length; chosen++) {
      if (Integer.bitCount(chosen) <= most) {
        int of = chosen;
        patterns.add(IntStream.range(0, members.length).filter(i -> (of >> i & 1) == 1).map(i -> members[i]).toArray());
      }
    }
    return patterns;
  }

  /** A folder whose files have that code with small cells; the policy's name. */
  private String folder(int dataUnits, int parityUnits) throws Exception {
    ErasureCodingPolicy small = new ErasureCodingPolicy(new ECSchema("rs", dataUnits, parityUnits), CELL);
    AddErasureCodingPolicyResponse added =
        cluster.fileSystem().addErasureCodingPolicies(new ErasureCodingPolicy[] {small})[0];
    assertTrue(added.isSucceed(), added::getErrorMsg);
    losses.makeFolders(added.getPolicy().getName());
    return added.getPolicy().getName();
  }
}
