package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;

/** Files of a cluster that lose members from the disks of DataNodes, and get them back. */
record Losses(HdfsCluster cluster, Random random) {

  static final int CELL = 1 << 20;
  static final long BLOCK_BYTES = 2L * CELL;
  static final Duration RECOVERED_WITHIN = Duration.ofMinutes(2);

  /** A file of one group that lost some members, and all that the group had. */
  record Loss(String file, LocatedStripedBlock group, int[] members, Map<Integer, byte[]> before) {}

  /** A folder of each policy's name, whose files have that policy. */
  void makeFolders(String... policies) throws IOException {
    for (String policy : policies) {
      org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path("/" + policy);
      cluster.fileSystem().enableErasureCodingPolicy(policy);
      cluster.fileSystem().mkdirs(path);
      cluster.fileSystem().setErasureCodingPolicy(path, policy);
    }
  }

  String write(String policy, long length) throws IOException {
    return write(policy, length, BLOCK_BYTES);
  }

  /** A file of random bytes, in blocks of that size. */
  String write(String policy, long length, long blockBytes) throws IOException {
    String file = "/" + policy + "/" + random.nextLong();
    DistributedFileSystem fs = cluster.fileSystem();
    byte[] bytes = new byte[CELL];
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(file);
    try (FSDataOutputStream out = fs.create(path, true, 1 << 16, (short) 1, blockBytes)) {
      for (long left = length; left > 0; left -= bytes.length) {
        random.nextBytes(bytes);
        out.write(bytes, 0, (int) Math.min(left, bytes.length));
      }
    }
    return file;
  }

  Loss lose(String policy, long length, int[] members) throws Exception {
    return lose(write(policy, length), members);
  }

  /** Removes these members of a file's first group from the disks of those that have them. */
  Loss lose(String file, int[] members) throws Exception {
    LocatedStripedBlock group = cluster.groups(file).get(0);
    // A writer that lost a DataNode goes on without it, and HDFS makes what it did not write.
    cluster.await(file + " to be whole", RECOVERED_WITHIN, () -> {
      boolean isThere = cluster.isWhole(List.of(file));
      for (int member : members) {
        isThere &= !cluster.filesOf(group, member).isEmpty();
      }
      return isThere;
    });
    Map<Integer, byte[]> before = new TreeMap<>();
    for (int member = 0; member < 16; member++) {
      for (byte[] copy : cluster.copiesOf(group, member).values()) {
        before.put(member, copy);
      }
    }
    for (int member : members) {
      for (Path stored : cluster.filesOf(group, member).values()) {
        Path meta = stored.resolveSibling(
            stored.getFileName() + "_" + group.getBlock().getGenerationStamp() + ".meta");
        Files.deleteIfExists(stored);
        Files.deleteIfExists(meta);
      }
    }
    return new Loss(file, group, members, before);
  }

  void awaitBack(Loss loss) throws Exception {
    for (int member : loss.members()) {
      byte[] before = loss.before().get(member);
      List<byte[]> copies = new ArrayList<>();
      cluster.await("member " + member + " of " + loss.file(), RECOVERED_WITHIN, () -> {
        copies.clear();
        copies.addAll(cluster.copiesOf(loss.group(), member).values());
        return copies.stream().anyMatch(copy -> copy.length == before.length);
      });
      for (byte[] copy : copies) {
        assertArrayEquals(before, copy, () -> "member " + member + " of " + loss.file());
      }
    }
  }
}
