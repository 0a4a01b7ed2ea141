package stripeline.hdfs.encode;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.client.HdfsClientConfigKeys;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.Versions;

/** {@code hadoop jar stripeline-hdfs.jar encode …}: replicated files become erasure-coded ones of the same names. */
public final class EncodeCommand extends Configured implements Tool {

  private static final String USAGE = """
      encode [-policy NAME] [-all] [-verify sample|all] [-files N] PATH...
        Makes erasure-coded files of the replicated files PATH, and of those in the folders PATH, with the same names.
        -policy NAME   an enabled policy whose cells are as large as the files' blocks; default: stripeline.ear.policy
        -all           also files that take more room when they are encoded
        -verify all    makes all parities anew from what was stored, and compares; default: samples of each
        -files N       so many at once; default 4
      The exit code is 0 if every file is erasure-coded now, or need not be; 1 if one could not be encoded; 2 for a wrong command.
      """;

  /** Files at once; each works on the blocks of a group. */
  private static final int DEFAULT_FILES = 4;
  private static final int MAX_FILES = 64;

  /** The key for the policy, which the NameNode's placement knows too. */
  private static final String POLICY_KEY = "stripeline.ear.policy";

  private static final Logger LOG = LoggerFactory.getLogger(EncodeCommand.class);

  private final PrintStream out;

  public EncodeCommand(PrintStream out) {
    this.out = out;
  }

  /** {@code encode …}. */
  public static void main(String[] arguments) throws Exception {
    boolean isKnown = arguments.length > 0 && arguments[0].equals("encode");
    String[] rest = isKnown ? java.util.Arrays.copyOfRange(arguments, 1, arguments.length) : new String[0];
    System.exit(ToolRunner.run(new HdfsConfiguration(), new EncodeCommand(System.out), rest));
  }

  /** What was asked for. */
  private record Call(Encoder.Wish wish, int files, List<String> paths) {

    static Call of(String[] arguments, Configuration conf) {
      String policy = conf.getTrimmed(POLICY_KEY, "");
      boolean all = false;
      boolean isFull = false;
      int files = DEFAULT_FILES;
      List<String> paths = new ArrayList<>();
      for (int i = 0; i < arguments.length; i++) {
        switch (arguments[i]) {
          case "-all" -> all = true;
          case "-policy" -> policy = value(arguments, ++i);
          case "-files" -> files = Integer.parseInt(value(arguments, ++i));
          case "-verify" -> isFull = switch (value(arguments, ++i)) {
            case "all" -> true;
            case "sample" -> false;
            default -> throw new IllegalArgumentException("-verify is sample or all");
          };
          default -> {
            if (arguments[i].startsWith("-")) {
              throw new IllegalArgumentException(arguments[i] + " is no option");
            }
            paths.add(arguments[i]);
          }
        }
      }
      if (paths.isEmpty() || policy.isEmpty() || files < 1 || files > MAX_FILES) {
        throw new IllegalArgumentException(paths.isEmpty() ? "name a file or a folder"
            : policy.isEmpty() ? "name a policy with -policy, or set " + POLICY_KEY : "-files is from 1 to " + MAX_FILES);
      }
      return new Call(new Encoder.Wish(policy, all, isFull), files, paths);
    }

    private static String value(String[] arguments, int at) {
      if (at >= arguments.length) {
        throw new IllegalArgumentException(arguments[at - 1] + " wants a value");
      }
      return arguments[at];
    }
  }

  @Override
  public int run(String[] arguments) throws Exception {
    Call call;
    try {
      call = Call.of(arguments, getConf());
    } catch (IllegalArgumentException wrong) {
      out.println(wrong.getMessage());
      out.print(USAGE);
      return 2;
    }
    if (Versions.trouble() != null) {
      out.println(Versions.trouble());
      return 1;
    }
    Configuration conf = new Configuration(getConf());
    conf.set(HdfsClientConfigKeys.DFS_CHECKSUM_COMBINE_MODE_KEY, "COMPOSITE_CRC");
    // A file of the same name is another one, in another namespace.
    if (!(FileSystem.newInstance(conf) instanceof DistributedFileSystem fs)) {
      out.println("fs.defaultFS is no HDFS");
      return 1;
    }
    try (fs; Encoder encoder = new Encoder(fs, call.wish())) {
      return encode(encoder, call);
    } catch (NotEncodedException wrong) {
      out.println(wrong.getMessage());
      return 1;
    }
  }

  private int encode(Encoder encoder, Call call) throws IOException, InterruptedException {
    ExecutorService threads = Executors.newFixedThreadPool(call.files());
    Semaphore room = new Semaphore(call.files());
    Counts counts = new Counts();
    Tally tally = new Tally();
    Queue<String> later = new ArrayBlockingQueue<>(Leftovers.MAX);
    try {
      for (String name : call.paths()) {
        walk(encoder.fs(), new Path(name), counts,
            path -> start(threads, room, () -> one(encoder, path, counts, tally, later)));
      }
      room.acquire(call.files());
      room.release(call.files());
      if (!later.isEmpty()) {
        out.println("waiting a minute: " + later.size() + " files were encoded by others, who have ended if they give no sign of life");
        Pause.ms(Leftovers.SILENT_MS);
      }
      for (String path : later) {
        start(threads, room, () -> one(encoder, path, counts, tally, null));
      }
    } finally {
      threads.shutdown();
      threads.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    }
    out.println(counts.encoded + " files encoded, " + counts.fine + " left as they are, " + counts.failed + " failed; " + tally.line());
    return counts.failed.get() > 0 ? 1 : 0;
  }

  /** No more files wait than are encoded. */
  private static void start(ExecutorService threads, Semaphore room, Runnable one) {
    room.acquireUninterruptibly();
    threads.execute(() -> {
      try {
        one.run();
      } finally {
        room.release();
      }
    });
  }

  private static final class Counts {
    private final AtomicInteger encoded = new AtomicInteger();
    private final AtomicInteger fine = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
  }

  /** Encodes a file, and says what became of it; or keeps it for later, if a second look may show more and there is room. */
  private void one(Encoder encoder, String path, Counts counts, Tally tally, Queue<String> later) {
    try {
      encoder.encode(path, tally);
      counts.encoded.incrementAndGet();
      out.println("encoded  " + path);
    } catch (SecondLookException look) {
      if (later == null || !later.offer(path)) {
        counts.failed.incrementAndGet();
        say(path, look);
      }
    } catch (NotEncodedException not) {
      (not.reason().isFine() ? counts.fine : counts.failed).incrementAndGet();
      say(path, not);
    } catch (IOException | RuntimeException | Error trouble) {
      counts.failed.incrementAndGet();
      // What a daemon says comes with its stack.
      out.println("failed   " + path + ": " + trouble.toString().lines().findFirst().orElse("") + "; the log says more");
      LOG.error("{} was not encoded", path, trouble);
    }
  }

  private void say(String path, NotEncodedException not) {
    out.println((not.reason().isFine() ? "left     " : "failed   ") + path + ": " + not.reason() + ": " + not.getMessage());
  }

  /** Hands on every file of a tree. */
  private void walk(DistributedFileSystem fs, Path path, Counts counts, java.util.function.Consumer<String> each)
      throws IOException {
    try {
      // Nothing is looked for there either: what an encoder has left would be removed.
      Original.checkPath(path.toUri().getPath());
    } catch (NotEncodedException not) {
      counts.failed.incrementAndGet();
      say(path.toUri().getPath(), not);
      return;
    }
    FileStatus status;
    try {
      status = fs.getFileStatus(path);
    } catch (java.io.FileNotFoundException | IllegalArgumentException none) {
      counts.failed.incrementAndGet();
      out.println("failed   " + path + ": there is no such file in this file system");
      return;
    }
    if (!status.isDirectory()) {
      each.accept(status.getPath().toUri().getPath());
      return;
    }
    RemoteIterator<FileStatus> below = fs.listStatusIterator(path);
    while (below.hasNext()) {
      FileStatus next = below.next();
      if (next.isDirectory()) {
        walk(fs, next.getPath(), counts, each);
      } else if (FileEncoding.isTemporary(next.getPath().getName())) {
        FileEncoding.removeOrphan(fs, next.getPath());
      } else if (!next.isSymlink()) {
        each.accept(next.getPath().toUri().getPath());
      }
    }
  }
}
