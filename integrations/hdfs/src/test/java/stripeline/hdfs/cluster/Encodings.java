package stripeline.hdfs.cluster;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.server.blockmanagement.EncodingAwarePlacement;
import org.apache.hadoop.util.ToolRunner;
import stripeline.hdfs.encode.EncodeCommand;

/**
 * Replicated files of unmodified HDFS become erasure-coded ones, again and again: placed by EAR, placed by HDFS's default, and copied as
 * distcp does it. The experiment hdfs-ear ({@code crates/lab}) starts it on its testbed, and reads the lines that it prints.
 *
 * <pre>
 *   begin WAY                       files are written; goes on when a line comes
 *   end WAY SECONDS STRIPES BYTES   every file is encoded, with the checksum that it had; goes on when a line comes
 *   done
 * </pre>
 */
public final class Encodings {

  /** Reports and heartbeats of what was before. */
  private static final long SETTLE_MS = 3_000;

  /** The folder with a policy. */
  private static final String CODED = "/coded";

  private final HdfsCluster cluster;
  private final ReplicatedFiles replicated;
  private final int machines;
  private final String wide;
  private final String narrow;
  private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

  private Encodings(HdfsCluster cluster, ReplicatedFiles replicated, int machines, int dataUnits, int parityUnits) throws IOException {
    this.cluster = cluster;
    this.replicated = replicated;
    this.machines = machines;
    wide = ReplicatedFiles.enable(cluster.fileSystem(), dataUnits, parityUnits, replicated.blockBytes());
    narrow = ReplicatedFiles.enable(cluster.fileSystem(), dataUnits, parityUnits, Losses.CELL);
  }

  /**
   * The path of the program {@code stripeline}; a folder that may be removed; what namespaces are called, without their numbers; how many
   * racks; data and parity units; bytes of a block; how many stripes, each of them a file; how many are encoded at once; how many rounds.
   */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    int[] numbers = java.util.Arrays.stream(arguments).skip(3).mapToInt(Integer::parseInt).toArray();
    int machines = numbers[0] - 1;
    int blockBytes = numbers[3];
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    Map<String, String> settings = new HashMap<>(Map.of(
        "net.topology.node.switch.mapping.impl", MachineRacks.class.getName(),
        MachineRacks.DEALT, arguments[3],
        "dfs.block.replicator.classname", EncodingAwarePlacement.class.getName(),
        EncodingAwarePlacement.PATHS, "/ear",
        EncodingAwarePlacement.POLICY, "RS-" + numbers[1] + "-" + numbers[2] + "-" + blockBytes / 1024 + "k",
        "dfs.namenode.ec.policies.max.cellsize", String.valueOf(blockBytes),
        // Where replicas lie anywhere a chain carries m partial sums from rack to rack, and a star each block once, as the paper has it.
        "stripeline.scheme", "conventional"));
    boolean isDone = false;
    try (HdfsCluster cluster = new HdfsCluster(
        folder, Path.of(arguments[0]), machines, settings, List.of(), new TestbedHosts(arguments[2], numbers[0]))) {
      ReplicatedFiles replicated =
          new ReplicatedFiles(cluster, folder.resolve("logs"), numbers[4], numbers[1], blockBytes, 2);
      Encodings encodings = new Encodings(cluster, replicated, machines, numbers[1], numbers[2]);
      for (int round = 0; round < numbers[6]; round++) {
        encodings.round(numbers[5]);
      }
      isDone = true;
    }
    if (isDone) {
      HdfsCluster.remove(folder);
      say("done");
    }
    System.exit(isDone ? 0 : 1);
  }

  private void round(int atOnce) throws Exception {
    turn("ear", "/ear", files -> () -> encode(atOnce, files));
    turn("random", "/random", files -> () -> encode(atOnce, files));
    org.apache.hadoop.fs.Path coded = new org.apache.hadoop.fs.Path(CODED);
    cluster.fileSystem().mkdirs(coded);
    cluster.fileSystem().setErasureCodingPolicy(coded, narrow);
    turn("copy", "/copied", this::copiers);
    cluster.fileSystem().delete(coded, true);
  }

  /** What is prepared for files before the clock runs, and then done. */
  private interface Way {
    Work prepare(List<String> files) throws Exception;
  }

  private interface Work {
    void run() throws Exception;
  }

  private void turn(String name, String folder, Way way) throws Exception {
    List<String> files = replicated.write(folder);
    try (DistributedFileSystem fs = comparing()) {
      List<String> before = checksums(fs, files);
      Work work = way.prepare(files);
      Thread.sleep(SETTLE_MS);
      say("begin " + name);
      input.readLine();
      long start = System.nanoTime();
      work.run();
      double seconds = (System.nanoTime() - start) / 1e9;
      say(String.format(Locale.ROOT, "end %s %.3f %d %d", name, seconds, files.size(), replicated.bytes()));
      input.readLine();
      List<String> coded = name.equals("copy") ? files.stream().map(file -> CODED + file.substring(folder.length())).toList() : files;
      if (!checksums(fs, coded).equals(before)) {
        throw new IOException(name + ": files differ from what they were");
      }
      for (String file : coded) {
        if (!fs.getFileStatus(new org.apache.hadoop.fs.Path(file)).isErasureCoded()) {
          throw new IOException(file + " is not erasure-coded");
        }
      }
    }
    cluster.fileSystem().delete(new org.apache.hadoop.fs.Path(folder), true);
  }

  /** The command, in this process, which is on the machine of the NameNode. */
  private void encode(int atOnce, List<String> files) throws Exception {
    List<String> arguments = new ArrayList<>(List.of("-policy", wide, "-files", String.valueOf(atOnce)));
    arguments.addAll(files);
    if (ToolRunner.run(cluster.clientConf(), new EncodeCommand(System.err), arguments.toArray(String[]::new)) != 0) {
      throw new IOException("not all files were encoded");
    }
  }

  /** A copier on each machine, as distcp's maps are, ready to begin. */
  private Work copiers(List<String> files) throws Exception {
    List<Process> copiers = new ArrayList<>();
    for (int machine = 1; machine <= machines; machine++) {
      List<String> arguments = new ArrayList<>(List.of(cluster.clientConf().get("fs.defaultFS"), CODED));
      for (int file = machine - 1; file < files.size(); file += machines) {
        arguments.add(files.get(file));
      }
      Process copier = new ProcessBuilder(cluster.program(machine, Copier.class, arguments.toArray(String[]::new)))
          .redirectError(ProcessBuilder.Redirect.INHERIT).start();
      BufferedReader lines = copier.inputReader();
      // Hadoop's own classes talk too.
      for (String line = lines.readLine(); !"ready".equals(line); line = lines.readLine()) {
        if (line == null) {
          throw new IOException("a copier did not start");
        }
      }
      copiers.add(copier);
    }
    return () -> {
      for (Process copier : copiers) {
        copier.outputWriter().close();
      }
      for (Process copier : copiers) {
        if (copier.waitFor() != 0) {
          throw new IOException("a copier failed");
        }
      }
    };
  }

  /** A client whose checksums of files are the same for replicated and erasure-coded ones. */
  private DistributedFileSystem comparing() throws IOException {
    Configuration conf = cluster.clientConf();
    conf.set("dfs.checksum.combine.mode", "COMPOSITE_CRC");
    return (DistributedFileSystem) FileSystem.newInstance(conf);
  }

  private static List<String> checksums(DistributedFileSystem fs, List<String> files) throws IOException {
    List<String> checksums = new ArrayList<>();
    for (String file : files) {
      checksums.add(fs.getFileChecksum(new org.apache.hadoop.fs.Path(file)).toString());
    }
    return checksums;
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
