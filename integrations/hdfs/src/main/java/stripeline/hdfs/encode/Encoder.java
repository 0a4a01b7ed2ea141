package stripeline.hdfs.encode;

import java.io.Closeable;
import java.io.IOException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicyInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.util.Time;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.RackRule;
import stripeline.hdfs.StripeShape;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/** Encodes files of one HDFS with one policy. */
final class Encoder implements Closeable {

  private static final Logger LOG = LoggerFactory.getLogger(Encoder.class);

  /** Blocks of all files that are worked on at once: each is a call to a DataNode, and a thread here that waits for it. */
  private static final int MAX_WORKS = 64;

  /** DataNodes come and go; whoever is chosen and has gone is replaced by the NameNode. */
  private static final long REPORT_VALID_MS = 10_000;

  /** A DataNode that ends in the middle breaks one; the next one goes around it. */
  private static final int ATTEMPTS = 2;
  private static final long AVOIDED_MS = 600_000;

  private final DistributedFileSystem fs;
  private final Configuration conf;
  private final ErasureCodingPolicy policy;
  private final boolean evenIfLarger;
  private final Lease lease;
  private final Peers peers;
  private final Workplaces workplaces;
  private final Verification verification;
  private final Leftovers leftovers = new Leftovers();
  private final Random random = new Random();
  private final ExecutorService works = Executors.newFixedThreadPool(MAX_WORKS, task -> {
    Thread thread = new Thread(task, "stripeline-work");
    thread.setDaemon(true);
    return thread;
  });
  private final Map<String, Long> avoided = new HashMap<>();
  private List<DatanodeInfo> living = List.of();
  private long livingUntilMs = Long.MIN_VALUE;

  /**
   * What an operator wants.
   *
   * @param policy the policy's name
   * @param evenIfLarger also files that take more room when they are encoded
   * @param isFull parities are made anew from what is stored, all of their bytes
   */
  record Wish(String policy, boolean evenIfLarger, boolean isFull) {}

  /** Looks whether all that it needs is there. */
  Encoder(DistributedFileSystem fs, Wish wish) throws IOException {
    this.fs = fs;
    conf = fs.getConf();
    policy = enabled(fs, wish.policy());
    evenIfLarger = wish.evenIfLarger();
    lease = new Lease(fs.getClient().getNamenode());
    peers = Peers.of(fs.getClient(), conf);
    workplaces = new Workplaces(conf, new Worker(peers, conf, lease.holder(), null));
    verification = new Verification(fs, peers, conf, policy, wish.isFull(), random);
  }

  private static ErasureCodingPolicy enabled(DistributedFileSystem fs, String name) throws IOException {
    for (ErasureCodingPolicyInfo each : fs.getClient().getNamenode().getErasureCodingPolicies()) {
      if (each.getPolicy().getName().equals(name)) {
        if (!each.isEnabled()) {
          throw new NotEncodedException(Reason.POLICY, name + " is not enabled: hdfs ec -enablePolicy -policy " + name);
        }
        return each.getPolicy();
      }
    }
    throw new NotEncodedException(Reason.POLICY, "the NameNode knows no policy " + name + ": hdfs ec -addPolicies");
  }

  /** Encodes a file, or says why not. */
  void encode(String path, Tally tally) throws IOException {
    long start = Time.monotonicNow();
    boolean byHelpers = true;
    for (int attempt = 1; ; attempt++) {
      try {
        new FileEncoding(this, Original.of(fs, path, policy, evenIfLarger), tally, byHelpers).run();
        LOG.info("encoded {} in {} ms", path, Time.monotonicNow() - start);
        return;
      } catch (NotEncodedException not) {
        throw not;
      } catch (IOException broken) {
        if (attempt == ATTEMPTS) {
          throw broken;
        }
        // A replica with wrong bytes would be read again: helpers read one of each block, and HDFS's coder gets all to choose from.
        byHelpers = !(broken instanceof SourceException);
        LOG.warn("the encoding of {} broke off, and begins anew", path, broken);
      }
    }
  }

  /** A work failed at one of these. The NameNode takes a DataNode that has died for alive for ten minutes. */
  synchronized void avoid(List<? extends DatanodeInfo> machines) {
    machines.forEach(each -> avoided.put(each.getDatanodeUuid(), Time.monotonicNow() + AVOIDED_MS));
  }

  /** Where the blocks of a group go. */
  synchronized GroupLayout layout(List<LocatedBlock> data) throws IOException {
    if (Time.monotonicNow() > livingUntilMs) {
      living = Arrays.stream(fs.getClient().datanodeReport(DatanodeReportType.LIVE)).filter(DatanodeInfo::isInService).toList();
      livingUntilMs = Time.monotonicNow() + REPORT_VALID_MS;
    }
    avoided.values().removeIf(until -> Time.monotonicNow() > until);
    List<DatanodeInfo> usable = living.stream().filter(each -> !avoided.containsKey(each.getDatanodeUuid())).toList();
    int racks = (int) living.stream().map(DatanodeInfo::getNetworkLocation).distinct().count();
    StripeShape shape = new StripeShape(policy.getNumDataUnits(), policy.getNumParityUnits());
    return GroupLayout.of(data, shape.parityBlocks(), usable, RackRule.of(conf, shape, racks), random);
  }

  Future<Workplaces.Outcome> submit(Work work, DatanodeInfo at) {
    return works.submit(() -> workplaces.run(work, at));
  }

  DistributedFileSystem fs() {
    return fs;
  }

  Lease lease() {
    return lease;
  }

  Leftovers leftovers() {
    return leftovers;
  }

  ErasureCodingPolicy policy() {
    return policy;
  }

  Verification verification() {
    return verification;
  }

  @Override
  public void close() {
    lease.close();
    works.shutdownNow();
  }
}
