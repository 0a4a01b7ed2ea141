package stripeline.hdfs.cluster;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Processes that this one has started, and ends: each by its own handle. Their output is in a file each. */
final class Daemons implements AutoCloseable {

  /** Below the ports that systems give to whoever connects; tests that run beside each other have ranges of their own. */
  private static final int FIRST_PORT =
      Integer.getInteger("first.port", 23_000 + (int) (ProcessHandle.current().pid() % 800) * 10);
  private static final int LAST_PORT = 32_000;

  /** A daemon that is asked to end does so within seconds. */
  private static final long PATIENCE_S = 10;

  private final Path logs;
  private final Deque<Daemon> running = new ArrayDeque<>();
  private int nextPort = FIRST_PORT;

  /** A process, and its name. */
  record Daemon(String name, Process process, Path log) {

    /** Ends it as a machine that loses power would. */
    void kill() {
      process.destroyForcibly();
      try {
        process.waitFor(PATIENCE_S, TimeUnit.SECONDS);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
    }

    /** What it said last. */
    String tail() throws IOException {
      List<String> lines = Files.readAllLines(log);
      return String.join("\n", lines.subList(Math.max(0, lines.size() - 20), lines.size()));
    }
  }

  Daemons(Path logs) throws IOException {
    this.logs = Files.createDirectories(logs);
  }

  Daemon start(String name, List<String> command) throws IOException {
    Path log = logs.resolve(name + ".log");
    ProcessBuilder builder = new ProcessBuilder(new ArrayList<>(command));
    builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
    builder.redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()));
    Daemon daemon = new Daemon(name, builder.start(), log);
    running.push(daemon);
    return daemon;
  }

  /** Runs a command to its end. */
  void run(String name, List<String> command, long seconds) throws IOException, InterruptedException {
    Daemon daemon = start(name, command);
    if (!daemon.process().waitFor(seconds, TimeUnit.SECONDS) || daemon.process().exitValue() != 0) {
      throw new IOException(name + " failed:\n" + daemon.tail());
    }
    running.remove(daemon);
  }

  /** A port of the loopback that is free now. */
  int freePort() throws IOException {
    while (nextPort < LAST_PORT) {
      int port = nextPort++;
      try (ServerSocket probe = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
        return probe.getLocalPort();
      } catch (IOException taken) {
        // The next one, then.
      }
    }
    throw new IOException("no port is free from " + FIRST_PORT + " to " + LAST_PORT);
  }

  /** Those that ended though nobody told them to. */
  List<Daemon> dead() {
    return running.stream().filter(daemon -> !daemon.process().isAlive()).toList();
  }

  /** The process is not to be ended any more: it has. */
  void forget(Daemon daemon) {
    running.remove(daemon);
  }

  @Override
  public void close() {
    running.forEach(daemon -> daemon.process().destroy());
    for (Daemon daemon : running) {
      try {
        if (!daemon.process().waitFor(PATIENCE_S, TimeUnit.SECONDS)) {
          daemon.kill();
        }
      } catch (InterruptedException interrupted) {
        daemon.process().destroyForcibly();
        Thread.currentThread().interrupt();
      }
    }
    running.clear();
  }
}
