package stripeline.hdfs.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.IntUnaryOperator;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.io.erasurecode.ECSchema;
import stripeline.hdfs.encode.EncodeCommand;

/**
 * Replicated files, and the ways to make erasure-coded ones of them, each by programs as an operator starts them.
 *
 * @param logs where these programs write
 * @param count how many files
 * @param blocks in each
 * @param blockBytes of each
 * @param replicas of each
 */
record ReplicatedFiles(HdfsCluster cluster, Path logs, int count, int blocks, int blockBytes, int replicas) {

  private static final int PATIENCE_S = 600;
  private static final int PIECE = 1 << 20;

  /** The name of a policy whose cells are so large, which is enabled then. */
  static String enable(DistributedFileSystem fs, int dataUnits, int parityUnits, int cellBytes) throws IOException {
    ErasureCodingPolicy wanted = new ErasureCodingPolicy(new ECSchema("rs", dataUnits, parityUnits), cellBytes);
    var added = fs.addErasureCodingPolicies(new ErasureCodingPolicy[] {wanted})[0];
    String name = added.isSucceed() ? added.getPolicy().getName() : wanted.getName();
    fs.enableErasureCodingPolicy(name);
    return name;
  }

  long bytes() {
    return (long) count * blocks * blockBytes;
  }

  /** Writes them from where this process is, and returns their names. */
  List<String> write(String folder) throws IOException {
    byte[] bytes = new byte[PIECE];
    Random random = new Random(3);
    List<String> files = new ArrayList<>();
    for (int file = 0; file < count; file++) {
      String path = folder + "/" + file;
      try (FSDataOutputStream out =
          cluster.fileSystem().create(new org.apache.hadoop.fs.Path(path), true, 1 << 16, (short) replicas, blockBytes)) {
        for (int i = 0; i < blocks * (blockBytes / PIECE); i++) {
          random.nextBytes(bytes);
          out.write(bytes);
        }
      }
      files.add(path);
    }
    return files;
  }

  /** Encodes files where they are, so many at once; what the command says of all of them. */
  String encode(String policy, int atOnce, List<String> files) throws Exception {
    List<String> arguments = new ArrayList<>(List.of("encode", "-policy", policy, "-files", String.valueOf(atOnce)));
    arguments.addAll(files);
    Path log = logs.resolve("encode.log");
    finish(List.of(start(0, log, EncodeCommand.class, arguments)));
    return Files.readAllLines(log).stream().filter(line -> line.contains("files encoded")).findFirst().orElseThrow();
  }

  /** Copies them into a folder with a policy: one copier a file, at once, each on a machine, as distcp's maps are. */
  String copy(List<String> files, String target, IntUnaryOperator machine) throws Exception {
    List<Process> copiers = new ArrayList<>();
    for (int file = 0; file < files.size(); file++) {
      copiers.add(start(machine.applyAsInt(file), logs.resolve("copier" + file + ".log"), FsShell.class,
          List.of("-cp", files.get(file), target + "/" + file)));
    }
    finish(copiers);
    return files.size() + " copiers";
  }

  private Process start(int machine, Path log, Class<?> program, List<String> arguments) throws IOException {
    return new ProcessBuilder(cluster.program(machine, program, arguments.toArray(String[]::new)))
        .redirectErrorStream(true).redirectOutput(log.toFile()).start();
  }

  private void finish(List<Process> programs) throws Exception {
    for (Process program : programs) {
      if (!program.waitFor(PATIENCE_S, TimeUnit.SECONDS) || program.exitValue() != 0) {
        programs.forEach(Process::destroyForcibly);
        throw new IOException("a program failed: see " + logs);
      }
    }
  }
}
