package stripeline.hdfs.encode;

import java.io.Closeable;
import java.io.IOException;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The encoder as the NameNode knows it: files that it writes are nobody else's as long as it lives. */
final class Lease implements Closeable {

  private static final Logger LOG = LoggerFactory.getLogger(Lease.class);

  /** The NameNode gives a writer's file to another one after a minute without a word. */
  private static final long RENEWED_EVERY_MS = 5_000;

  private final ClientProtocol namenode;
  private final String holder = name();
  private final List<Sign> signs = new CopyOnWriteArrayList<>();
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
    Thread thread = new Thread(task, "stripeline-lease");
    thread.setDaemon(true);
    return thread;
  });

  Lease(ClientProtocol namenode) {
    this(namenode, RENEWED_EVERY_MS);
  }

  Lease(ClientProtocol namenode, long everyMs) {
    this.namenode = namenode;
    sign(() -> namenode.renewLease(holder, List.of()));
    timer.scheduleWithFixedDelay(() -> signs.forEach(Sign::give), everyMs, everyMs, TimeUnit.MILLISECONDS);
  }

  private static String name() {
    return "Stripeline_encode_" + UUID.randomUUID();
  }

  String holder() {
    return holder;
  }

  /** A holder by itself. */
  Own own() {
    String name = name();
    return new Own(name, sign(() -> namenode.renewLease(name, List.of())));
  }

  /** Tells something as often as the lease is renewed, until that is closed. */
  Sign sign(Telling telling) {
    Sign sign = new Sign(telling);
    signs.add(sign);
    return sign;
  }

  /** A holder whose lease is renewed until this is closed: what it has open then the NameNode closes in a while, though the encoder lives. */
  record Own(String holder, Sign sign) implements Closeable {
    @Override
    public void close() {
      sign.close();
    }
  }

  /** What shows others that this encoder lives. */
  @FunctionalInterface
  interface Telling {
    void tell() throws IOException;
  }

  /** Something that is told again and again. */
  final class Sign implements Closeable {

    private final Telling telling;
    private boolean isClosed;

    private Sign(Telling telling) {
      this.telling = telling;
    }

    private synchronized void give() {
      if (isClosed) {
        return;
      }
      try {
        telling.tell();
      } catch (IOException away) {
        LOG.warn("the NameNode was not told that this encoder lives: {}", away.toString());
      }
    }

    /** When this returns it is told no more. */
    @Override
    public synchronized void close() {
      isClosed = true;
      signs.remove(this);
    }
  }

  @Override
  public void close() {
    timer.shutdownNow();
  }
}
