package stripeline.hdfs.cluster;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.server.blockmanagement.EncodingAwarePlacement;
import org.apache.hadoop.io.erasurecode.ECSchema;
import stripeline.hdfs.encode.EncodeCommand;

/**
 * What it takes to make erasure-coded files of replicated ones, in seconds and in bytes between racks: placed by EAR, placed by HDFS's
 * default, and copied into a folder with a policy, as distcp does it. {@code make hdfs-measure-encoding}; needs root.
 */
public final class EncodeMeasure {

  private static final int RACKS = 9;
  private static final int EACH = 2;
  private static final int MACHINE_MEGABITS = 1_000;
  private static final int BLOCK = 8 << 20;
  private static final int K = 6;
  private static final int M = 3;
  private static final int FILES = 4;

  /** Blocks of a file: two groups. */
  private static final int BLOCKS = 2 * K;
  private static final int PATIENCE_S = 600;

  private final HdfsCluster cluster;
  private final RackHosts hosts;
  private final Path folder;

  private EncodeMeasure(HdfsCluster cluster, RackHosts hosts, Path folder) {
    this.cluster = cluster;
    this.hosts = hosts;
    this.folder = folder;
  }

  /** With the path of the program {@code stripeline}, a folder that may be removed, and Mb/s of a rack's link. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[1]);
    int megabits = Integer.parseInt(arguments[2]);
    HdfsCluster.remove(folder);
    Files.createDirectories(folder);
    Map<String, String> settings = new HashMap<>(Map.of(
        "net.topology.node.switch.mapping.impl", MachineRacks.class.getName(),
        MachineRacks.PER_RACK, String.valueOf(EACH),
        "dfs.block.replicator.classname", EncodingAwarePlacement.class.getName(),
        EncodingAwarePlacement.PATHS, "/ear",
        EncodingAwarePlacement.POLICY, "RS-6-3-8192k",
        "dfs.namenode.ec.policies.max.cellsize", String.valueOf(BLOCK)));
    boolean isDone = false;
    try (RackHosts hosts = new RackHosts(RACKS, EACH, MACHINE_MEGABITS, megabits);
        HdfsCluster cluster = new HdfsCluster(folder, Path.of(arguments[0]), hosts.machines(), settings, List.of(), hosts)) {
      System.out.printf("encoding: RS-6-3, %d racks of %d machines, %d Mb/s for a machine and %d Mb/s for a rack each way, %d files of %d "
          + "blocks of %d MiB%n", RACKS, EACH, MACHINE_MEGABITS, megabits, FILES, BLOCKS, BLOCK >> 20);
      new EncodeMeasure(cluster, hosts, folder).run();
      isDone = true;
    }
    if (isDone) {
      HdfsCluster.remove(folder);
    }
    System.exit(isDone ? 0 : 1);
  }

  private void run() throws Exception {
    DistributedFileSystem fs = cluster.fileSystem();
    ErasureCodingPolicy wide = fs.addErasureCodingPolicies(
        new ErasureCodingPolicy[] {new ErasureCodingPolicy(new ECSchema("rs", K, M), BLOCK)})[0].getPolicy();
    fs.enableErasureCodingPolicy(wide.getName());
    fs.enableErasureCodingPolicy("RS-6-3-1024k");
    for (String round : List.of("1", "2")) {
      List<String> ear = write("/ear/" + round);
      List<String> random = write("/random/" + round);
      List<String> copied = write("/copied/" + round);
      org.apache.hadoop.fs.Path target = new org.apache.hadoop.fs.Path("/coded/" + round);
      fs.mkdirs(target);
      fs.setErasureCodingPolicy(target, "RS-6-3-1024k");
      measure("encode, placed by EAR", () -> encode(wide.getName(), ear));
      measure("encode, HDFS's placement", () -> encode(wide.getName(), random));
      measure("copy into an EC folder", () -> copy(copied, target.toString()));
      for (String done : List.of("/ear/" + round, "/random/" + round, "/copied/" + round, target.toString())) {
        fs.delete(new org.apache.hadoop.fs.Path(done), true);
      }
    }
  }

  /** Something that is measured; what it says of itself. */
  private interface Work {
    String run() throws Exception;
  }

  private void measure(String what, Work work) throws Exception {
    // Reports and heartbeats of what was before.
    Thread.sleep(3_000);
    long bytes = hosts.betweenRacks();
    long start = System.nanoTime();
    String said = work.run();
    double seconds = (System.nanoTime() - start) / 1e9;
    double data = (double) FILES * BLOCKS * BLOCK;
    System.out.printf("encoding: %-26s %6.1f s %7.1f MiB/s of data, %.2f bytes between racks for each of data; %s%n", what, seconds,
        data / seconds / (1 << 20), (hosts.betweenRacks() - bytes) / data, said);
  }

  private List<String> write(String name) throws IOException {
    byte[] bytes = new byte[1 << 20];
    Random random = new Random(3);
    List<String> files = new ArrayList<>();
    for (int file = 0; file < FILES; file++) {
      String path = name + "/" + file;
      try (FSDataOutputStream out =
          cluster.fileSystem().create(new org.apache.hadoop.fs.Path(path), true, 1 << 16, (short) 3, BLOCK)) {
        for (int i = 0; i < BLOCKS * (BLOCK >> 20); i++) {
          random.nextBytes(bytes);
          out.write(bytes);
        }
      }
      files.add(path);
    }
    return files;
  }

  private String encode(String policy, List<String> files) throws Exception {
    List<String> arguments = new ArrayList<>(List.of("encode", "-policy", policy));
    arguments.addAll(files);
    Path log = folder.resolve("logs/encode.log");
    finish(List.of(start(0, log, EncodeCommand.class, arguments)));
    return Files.readAllLines(log).stream().filter(line -> line.contains("files encoded")).findFirst().orElseThrow();
  }

  /** A program on a machine, as an operator starts it. */
  private Process start(int machine, Path log, Class<?> program, List<String> arguments) throws IOException {
    List<String> command = new ArrayList<>(hosts.at(machine));
    command.addAll(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(), "-Xmx512m",
        "-cp", folder.resolve("nn/conf") + File.pathSeparator + System.getProperty("java.class.path"), program.getName()));
    command.addAll(arguments);
    return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
  }

  private void finish(List<Process> programs) throws Exception {
    for (Process program : programs) {
      if (!program.waitFor(PATIENCE_S, TimeUnit.SECONDS) || program.exitValue() != 0) {
        programs.forEach(Process::destroyForcibly);
        throw new IOException("a program failed: see " + folder.resolve("logs"));
      }
    }
  }

  /** One copier a file, on a machine each, as distcp's maps are. */
  private String copy(List<String> files, String target) throws Exception {
    List<Process> copiers = new ArrayList<>();
    for (int file = 0; file < files.size(); file++) {
      copiers.add(start(1 + file * EACH, folder.resolve("logs/copier" + file + ".log"), FsShell.class,
          List.of("-cp", files.get(file), target + "/" + file)));
    }
    finish(copiers);
    return files.size() + " copiers";
  }
}
