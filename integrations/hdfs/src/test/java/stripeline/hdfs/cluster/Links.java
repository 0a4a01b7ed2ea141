package stripeline.hdfs.cluster;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Calls of {@code ip} and {@code tc}, which make networks of namespaces. They need root. */
final class Links {

  /** So much may come at once; a link of 1 Gb/s sends it in two milliseconds. */
  private static final String BURST = "256kb";

  private static final Pattern SENT = Pattern.compile("TX:.*\\R\\s*(\\d+)");

  private Links() {}

  static void ip(String... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("ip"));
    command.addAll(List.of(arguments));
    run(command);
  }

  /** What a device sends has a rate; {@code device} begins the call of {@code tc} that names it. */
  static void limit(List<String> device, int megabits) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(device);
    command.addAll(List.of("root", "tbf", "rate", megabits + "mbit", "burst", BURST, "latency", "100ms"));
    run(command);
  }

  /** Bytes that a device has sent, packets' heads too; {@code ip} begins the call that shows it. */
  static long sent(List<String> ip, String device) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(ip);
    command.addAll(List.of("-s", "link", "show", "dev", device));
    Matcher sent = SENT.matcher(run(command));
    if (!sent.find()) {
      throw new IOException("ip tells no bytes of " + device);
    }
    return Long.parseLong(sent.group(1));
  }

  /** What it said, if it ended well. */
  static String run(List<String> command) throws IOException, InterruptedException {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes());
    if (!process.waitFor(10, TimeUnit.SECONDS) || process.exitValue() != 0) {
      throw new IOException(String.join(" ", command) + ": " + said);
    }
    return said;
  }
}
