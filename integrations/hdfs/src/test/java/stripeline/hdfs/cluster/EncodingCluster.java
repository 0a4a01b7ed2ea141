package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.InterceptedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.server.blockmanagement.EncodingAwarePlacement;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import stripeline.hdfs.encode.EncodeCommand;

/** Unmodified HDFS, whose replicated files become erasure-coded ones. Five racks of two machines, block tokens, service authorization. */
abstract class EncodingCluster {

  private static final int DATANODES = 10;
  static final int BLOCK = 1 << 20;
  static final int K = 3;
  static final int M = 2;
  static final String POLICY = "RS-3-2-1024k";
  static final Duration WITHIN = Duration.ofMinutes(1);

  static Path folder;
  static HdfsCluster cluster;
  static DistributedFileSystem fs;
  private static final Random RANDOM = new Random(5);

  @BeforeAll
  static void start() throws Exception {
    folder = Path.of(System.getProperty("hdfs.folder"));
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    Map<String, String> settings = new HashMap<>(Map.of(
        "net.topology.node.switch.mapping.impl", MachineRacks.class.getName(),
        MachineRacks.PER_RACK, "2",
        "dfs.block.replicator.classname", EncodingAwarePlacement.class.getName(),
        EncodingAwarePlacement.PATHS, "/cold",
        EncodingAwarePlacement.POLICY, POLICY,
        "dfs.block.access.token.enable", "true",
        "hadoop.security.authorization", "true",
        "dfs.permissions.enabled", "true"));
    settings.put("dfs.namenode.ec.policies.max.cellsize", "134217728");
    cluster = new HdfsCluster(folder, Path.of(System.getProperty("stripeline")), DATANODES, settings, List.of(),
        HdfsCluster.Hosts.LOOPBACK);
    fs = cluster.fileSystem();
    fs.enableErasureCodingPolicy(POLICY);
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

  static org.apache.hadoop.fs.Path path(String file) {
    return new org.apache.hadoop.fs.Path(file);
  }

  static void write(String file, long length, int blockBytes) throws IOException {
    byte[] bytes = new byte[BLOCK];
    try (FSDataOutputStream out = fs.create(path(file), true, 1 << 16, (short) 3, blockBytes)) {
      for (long left = length; left > 0; left -= bytes.length) {
        RANDOM.nextBytes(bytes);
        out.write(bytes, 0, (int) Math.min(left, bytes.length));
      }
    }
  }

  /** What the command printed, with its exit code in the first line. */
  static String encode(String... arguments) throws Exception {
    return encode(cluster.clientConf(), arguments);
  }

  /** The same, with a test between it and the NameNode. */
  static String encode(InterceptedFileSystem.Interceptor between, String... arguments) throws Exception {
    InterceptedFileSystem.use(between);
    Configuration conf = cluster.clientConf();
    conf.set("fs.hdfs.impl", InterceptedFileSystem.class.getName());
    return encode(conf, arguments);
  }

  private static String encode(Configuration conf, String... arguments) throws Exception {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    EncodeCommand command = new EncodeCommand(new PrintStream(said, true, StandardCharsets.UTF_8));
    conf.set(EncodingAwarePlacement.POLICY, POLICY);
    command.setConf(conf);
    int code = command.run(arguments);
    return code + "\n" + said.toString(StandardCharsets.UTF_8);
  }

  /** The machines that have each block of a replicated file. */
  static List<Set<String>> replicas(String file) throws IOException {
    List<Set<String>> all = new ArrayList<>();
    long length = fs.getFileStatus(path(file)).getLen();
    for (LocatedBlock block : fs.getClient().getLocatedBlocks(file, 0, length).getLocatedBlocks()) {
      all.add(Arrays.stream(block.getLocations()).map(DatanodeInfo::getDatanodeUuid).collect(Collectors.toSet()));
    }
    return all;
  }

  /** Each data block where a replica of it was, and no two blocks of a group in a rack. */
  static void assertLies(String file, List<Set<String>> before) throws IOException {
    int block = 0;
    for (LocatedStripedBlock group : cluster.groups(file)) {
      int data = (int) ((group.getBlockSize() - 1) / BLOCK + 1);
      assertEquals(data + M, group.getLocations().length, group.toString());
      assertEquals(data + M, Arrays.stream(group.getLocations()).map(DatanodeInfo::getNetworkLocation).distinct().count());
      for (int i = 0; i < group.getLocations().length; i++) {
        int member = group.getBlockIndices()[i];
        if (member < K) {
          assertTrue(before.get(block + member).contains(group.getLocations()[i].getDatanodeUuid()), file + " " + member);
        }
      }
      block += data;
    }
    assertEquals(before.size(), block);
  }

  static List<FileStatus> hidden(String folder) throws IOException {
    return Arrays.stream(fs.listStatus(path(folder))).filter(each -> each.getPath().getName().startsWith("._")).toList();
  }

  /** All that a file has beside its bytes. */
  static String beside(String file) throws IOException {
    FileStatus status = fs.getFileStatus(path(file));
    Map<String, String> extended = new TreeMap<>();
    fs.getXAttrs(path(file)).forEach((name, value) -> extended.put(name, Arrays.toString(value)));
    return status.getOwner() + " " + status.getGroup() + " " + status.getPermission() + " " + status.getModificationTime() + " "
        + fs.getAclStatus(path(file)).getEntries() + " " + fs.getClient().getFileInfo(file).getStoragePolicy() + " " + extended;
  }

  static List<String> racks(LocatedBlock block) {
    return Arrays.stream(block.getLocations()).map(DatanodeInfo::getNetworkLocation).toList();
  }
}
