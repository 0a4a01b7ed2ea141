package stripeline.hdfs.encode;

import java.io.Closeable;
import java.io.IOException;
import java.util.List;
import java.util.UUID;
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
  private static final long RENEWED_EVERY_S = 5;

  private final String holder = "Stripeline_encode_" + UUID.randomUUID();
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
    Thread thread = new Thread(task, "stripeline-lease");
    thread.setDaemon(true);
    return thread;
  });

  Lease(ClientProtocol namenode) {
    timer.scheduleWithFixedDelay(() -> {
      try {
        namenode.renewLease(holder, List.of());
      } catch (IOException away) {
        LOG.warn("the NameNode was not told that this encoder lives: {}", away.toString());
      }
    }, RENEWED_EVERY_S, RENEWED_EVERY_S, TimeUnit.SECONDS);
  }

  String holder() {
    return holder;
  }

  @Override
  public void close() {
    timer.shutdownNow();
  }
}
