package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.FutureTask;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Random losses, and a random fault in the middle of their reconstruction: a helper, a DataNode, the coordinator is killed, a source
 * block has a wrong byte. HDFS ends with all files whole, and every byte right. {@code -Dschedules=50} runs so many.
 */
@Tag("schedules")
class SchedulesTest {

  private static final int DATANODES = 13;

  /** A block of 2 MiB takes seconds, so that faults come in the middle. */
  private static final List<String> SLOW_HELPERS = List.of("--throttle-up", "6mbit");

  /** Most of the time that such a block takes, alone. */
  private static final int REPAIR_MS = 2_000;

  /** So long a process is away: longer than it takes the NameNode to give a DataNode up. */
  private static final long AWAY_MS = 16_000;

  private static final List<String> POLICIES = List.of("RS-6-3-1024k", "RS-3-2-1024k", "XOR-2-1-1024k");

  private static Path folder;
  private static HdfsCluster cluster;

  static java.util.stream.LongStream seeds() {
    long first = Long.getLong("seed", 1);
    return java.util.stream.LongStream.range(first, first + Integer.getInteger("schedules", 5));
  }

  @BeforeAll
  static void start() throws Exception {
    folder = Path.of(System.getProperty("hdfs.folder") + "-schedules");
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    cluster = new HdfsCluster(folder, Path.of(System.getProperty("stripeline")), DATANODES, Map.of(
        "dfs.datanode.directoryscan.interval", "2",
        "dfs.blockreport.intervalMsec", "3000"), SLOW_HELPERS, HdfsCluster.Hosts.LOOPBACK);
    new Losses(cluster, new Random()).makeFolders(POLICIES.toArray(String[]::new));
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

  @ParameterizedTest
  @MethodSource("seeds")
  void hdfsEndsWholeWithAllBytesRight(long seed) throws Exception {
    Random random = new Random(seed);
    Losses losses = new Losses(cluster, random);
    List<String> files = new ArrayList<>();
    for (String policy : POLICIES) {
      long half = Integer.parseInt(policy.split("-")[1]) * Losses.BLOCK_BYTES / 2;
      files.add(losses.write(policy, half + 1 + Math.abs(random.nextLong()) % half));
    }
    cluster.await("all files to be whole", Losses.RECOVERED_WITHIN, () -> cluster.isWhole(files));
    Map<String, String> before = Demo.digests(cluster, files);
    List<Losses.Loss> lost = new ArrayList<>();
    for (String file : files) {
      int parityUnits = Integer.parseInt(file.split("-")[2]);
      // One fewer than may be lost, where a fault is to take another one.
      int count = Math.max(1, random.nextInt(parityUnits + 1) - 1);
      lost.add(losses.lose(file, pick(random, cluster.groups(file).get(0), count)));
    }
    // Not the last one, of XOR-2-1, which may lose no other.
    Running running = awaitRunning(lost.subList(0, 2));
    Thread.sleep(random.nextInt(REPAIR_MS));
    Mending mend = fault(random, running);
    // What cannot be made without it waits until then.
    FutureTask<Void> mended = new FutureTask<>(() -> {
      Thread.sleep(AWAY_MS);
      mend.run();
      return null;
    });
    new Thread(mended, "mending").start();
    for (Losses.Loss loss : lost) {
      losses.awaitBack(loss);
    }
    mended.get();
    cluster.await("all files to be whole", Losses.RECOVERED_WITHIN, () -> cluster.isWhole(files));
    assertEquals(before, Demo.digests(cluster, files));
    assertTrue(cluster.fsck("/").contains("HEALTHY"));
  }

  /** Members of a group that are stored, each once. */
  private static int[] pick(Random random, LocatedStripedBlock group, int count) {
    List<Integer> stored = new ArrayList<>();
    for (byte index : group.getBlockIndices()) {
      stored.add((int) index);
    }
    java.util.Collections.shuffle(stored, random);
    return stored.stream().limit(count).mapToInt(Integer::intValue).toArray();
  }

  private interface Mending {
    void run() throws Exception;
  }

  /** A loss that is just being mended, and the machine whose DataNode does it: the requestor. */
  private record Running(Losses.Loss loss, int requestor) {}

  /** Until a target has a part of a lost block. */
  private static Running awaitRunning(List<Losses.Loss> lost) throws Exception {
    List<Running> found = new ArrayList<>();
    cluster.await("a reconstruction to be in the middle", Losses.RECOVERED_WITHIN, () -> {
      for (Losses.Loss loss : lost) {
        for (int member : loss.members()) {
          cluster.unfinished(loss.group(), member).forEach(machine -> found.add(new Running(loss, machine)));
        }
      }
      return !found.isEmpty();
    });
    return found.get(0);
  }

  /** Something goes wrong; what is to be done afterwards, so that the next schedule finds everybody there. */
  private static Mending fault(Random random, Running running) throws Exception {
    int one = running.requestor();
    List<Integer> sources = new ArrayList<>();
    for (int member : running.loss().before().keySet()) {
      sources.addAll(cluster.filesOf(running.loss().group(), member).keySet());
    }
    sources.remove(Integer.valueOf(one));
    java.util.Collections.shuffle(sources, random);
    return switch (random.nextInt(6)) {
      case 0 -> {
        List<Integer> helpers = sources.subList(0, Math.min(2, sources.size()));
        helpers.forEach(cluster::killHelper);
        yield () -> {
          for (int helper : helpers) {
            cluster.restartHelper(helper);
          }
        };
      }
      case 1 -> {
        cluster.killDatanode(one);
        yield () -> cluster.restartDatanode(one);
      }
      case 2 -> {
        cluster.killDatanode(one);
        cluster.killHelper(one);
        yield () -> {
          cluster.restartDatanode(one);
          cluster.restartHelper(one);
        };
      }
      case 3 -> {
        cluster.killCoordinator();
        yield cluster::startCoordinator;
      }
      case 4 -> {
        int source = sources.get(0);
        cluster.killDatanode(source);
        cluster.killHelper(source);
        yield () -> {
          cluster.restartDatanode(source);
          cluster.restartHelper(source);
        };
      }
      default -> {
        flipAByte(random, running.loss());
        yield () -> { };
      }
    };
  }

  /** Of a member that is not lost, near its end, where no flow has been yet; a wrong one is one more that is. */
  private static void flipAByte(Random random, Losses.Loss loss) throws IOException {
    for (int member : loss.before().keySet()) {
      boolean isLost = java.util.Arrays.stream(loss.members()).anyMatch(other -> other == member);
      List<Path> files = List.copyOf(cluster.filesOf(loss.group(), member).values());
      if (!isLost && !files.isEmpty()) {
        byte[] bytes = Files.readAllBytes(files.get(0));
        bytes[bytes.length - 1 - random.nextInt(Math.max(1, bytes.length / 8))] ^= 1;
        Files.write(files.get(0), bytes);
        return;
      }
    }
  }
}
