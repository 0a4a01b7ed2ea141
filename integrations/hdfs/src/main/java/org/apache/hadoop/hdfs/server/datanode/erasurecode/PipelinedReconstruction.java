package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.DFSUtilClient.CorruptedBlocks;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier.AccessMode;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.metrics.DataNodeMetrics;
import org.apache.hadoop.hdfs.util.DataTransferThrottler;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.util.Time;
import stripeline.hdfs.Answer;
import stripeline.hdfs.Gateway;
import stripeline.hdfs.Request;

/**
 * A reconstruction of HDFS's, whose bytes come through a gateway. They go where HDFS's own would go, through HDFS's own
 * writers: checksums, reports, metrics and throttles stay HDFS's.
 *
 * <p>No reconstruction is lost. What fails before anything was written is run as HDFS would have; what fails later is given
 * up, and run from its beginning as HDFS would have.
 */
final class PipelinedReconstruction implements Runnable {

  /** A target notices that its writer is gone, and lets go of what it has, well within this time. */
  private static final long TARGETS_LET_GO_MS = 2_000;

  private final StripedBlockReconstructor task;
  private final Gateway gateway;
  private final Internals internals;
  private final ReconstructionMetrics metrics;
  private final Orders orders;

  /** Streams that HDFS counts for this and helpers do not need. */
  private final int sparedXmits;

  /** Sources that the gateway was told of, by their members. */
  private final Map<Integer, DatanodeInfo> named = new TreeMap<>();

  /** Whether targets know of this reconstruction. */
  private boolean hasBegun;

  /**
   * From here on the DataNode is busy with as many streams as there are targets, and not with one for each of k sources: the NameNode
   * gives it further blocks as long as it has fewer than {@code dfs.namenode.replication.max-streams}. HDFS adds its own count when
   * the task is handed over; what is taken off here, before or after that, is added again should HDFS's own way begin.
   */
  PipelinedReconstruction(
      StripedBlockReconstructor task, Gateway gateway, Internals internals, ReconstructionMetrics metrics, Orders orders)
      throws ReflectiveOperationException {
    this.task = task;
    this.gateway = gateway;
    this.internals = internals;
    this.metrics = metrics;
    this.orders = orders;
    sparedXmits = Math.max(countedXmits() - internals.writer(task).getTargets(), 0);
    datanode().decrementXmitsInProgress(sparedXmits);
  }

  /** As {@link ErasureCodingWorker#processErasureCodingTasks} counts. */
  private int countedXmits() {
    return Math.max((int) (task.getXmits() * task.getErasureCodingWorker().getXmitWeight()), 1);
  }

  @Override
  public void run() {
    long start = Time.monotonicNow();
    StripedWriter writer = null;
    try {
      writer = internals.writer(task);
      String note = reconstruct(writer);
      writer.endTargetBlocks();
      long took = Time.monotonicNow() - start;
      metrics.pipelined(task.getBytesWritten(), took);
      StripelinePlugin.LOG.info("reconstructed {} members of {} through helpers in {} ms ({} bytes; {})",
          writer.getRealTargetIndices().length, task.getBlockGroup(), took, task.getBytesWritten(), note);
    } catch (Throwable trouble) {
      metrics.fellBack();
      runAsHdfsWould(writer, trouble);
      return;
    }
    end(writer);
    orders.ask();
  }

  /** What the gateway says of it. */
  private String reconstruct(StripedWriter writer) throws IOException, ReflectiveOperationException {
    short[] targets = internals.targetIndices(writer);
    try (Answer answer = gateway.ask(request(targets))) {
      try {
        return reconstruct(writer, targets, answer);
      } finally {
        report(answer.corrupt());
      }
    }
  }

  private String reconstruct(StripedWriter writer, short[] targets, Answer answer)
      throws IOException, ReflectiveOperationException {
    task.initDecoderIfNecessary();
    learnChecksum();
    // The first bytes come before any target hears of it.
    int length = nextLength();
    ByteBuffer[] first = new ByteBuffer[targets.length];
    for (int i = 0; i < first.length; i++) {
      first[i] = ByteBuffer.allocate(length);
    }
    receive(answer, first, length);
    hasBegun = true;
    writer.init();
    ByteBuffer[] buffers = buffers(writer, targets, length);
    for (int i = 0; i < buffers.length; i++) {
      if (buffers[i] != null) {
        buffers[i].put(first[i].flip());
      }
    }
    send(writer, buffers, length);
    while (task.getPositionInBlock() < task.getMaxTargetLength()) {
      length = nextLength();
      buffers = buffers(writer, targets, length);
      receive(answer, buffers, length);
      send(writer, buffers, length);
    }
    answer.finish();
    return answer.note();
  }

  /** Sources with wrong bytes are told to the NameNode, as HDFS's own reconstruction does. */
  private void report(Set<Integer> members) {
    if (members.isEmpty()) {
      return;
    }
    try {
      CorruptedBlocks corrupted = new CorruptedBlocks();
      for (Map.Entry<Integer, DatanodeInfo> source : named.entrySet()) {
        if (members.contains(source.getKey())) {
          ExtendedBlock block = task.getBlock(source.getKey());
          corrupted.addCorruptedBlock(block, source.getValue());
          StripelinePlugin.LOG.warn("{} at {} has wrong bytes: the NameNode is told", block, source.getValue());
        }
      }
      datanode().reportCorruptedBlocks(corrupted);
    } catch (IOException | RuntimeException untold) {
      StripelinePlugin.LOG.warn("wrong bytes of members {} of {} were not told to the NameNode", members, task.getBlockGroup(), untold);
    }
  }

  private int nextLength() {
    long left = task.getMaxTargetLength() - task.getPositionInBlock();
    return (int) Math.min(task.getBufferSize(), left);
  }

  /** The buffers of targets that are still written to, in the order of all targets; null for others. */
  private static ByteBuffer[] buffers(StripedWriter writer, short[] targets, int length) {
    int[] real = writer.getRealTargetIndices();
    ByteBuffer[] given = writer.getRealTargetBuffers(length);
    ByteBuffer[] buffers = new ByteBuffer[targets.length];
    for (int i = 0, next = 0; i < targets.length && next < real.length; i++) {
      if (targets[i] == real[next]) {
        buffers[i] = given[next++];
      }
    }
    return buffers;
  }

  private void receive(Answer answer, ByteBuffer[] buffers, int length)
      throws IOException, ReflectiveOperationException {
    long start = Time.monotonicNow();
    throttle(internals.readThrottler(datanode()), (long) length * buffers.length);
    answer.read(buffers, length);
    task.incrBytesRead(false, (long) length * buffers.length);
    datanode().getMetrics().incrECReconstructionReadTime(Time.monotonicNow() - start);
  }

  private void send(StripedWriter writer, ByteBuffer[] buffers, int length)
      throws IOException, ReflectiveOperationException {
    for (ByteBuffer buffer : buffers) {
      if (buffer != null) {
        buffer.flip();
      }
    }
    writer.updateRealTargetBuffers(length);
    long start = Time.monotonicNow();
    throttle(internals.writeThrottler(datanode()), (long) length * writer.getTargets());
    if (writer.transferData2Targets() == 0) {
      throw new IOException("no target takes the block");
    }
    datanode().getMetrics().incrECReconstructionWriteTime(Time.monotonicNow() - start);
    task.updatePositionInBlock(length);
    writer.clearBuffers();
  }

  private static void throttle(DataTransferThrottler throttler, long bytes) {
    if (throttler != null) {
      throttler.throttle(bytes);
    }
  }

  /** New blocks get the checksums that the group's others have: one of these is asked, for its last byte. */
  private void learnChecksum() throws IOException, ReflectiveOperationException {
    StripedReader reader = task.getStripedReader();
    byte[] live = internals.liveIndices(reader);
    for (int i = 0; i < live.length; i++) {
      long length = task.getBlockLen(live[i]);
      if (length <= 0) {
        continue;
      }
      StripedBlockReader source = reader.createReader(i, length - 1);
      try {
        if (source.getBlockReader() != null) {
          internals.learnChecksum(reader, source);
          return;
        }
      } finally {
        source.closeBlockReader();
      }
    }
    throw new IOException("no source says which checksums it has");
  }

  private Request request(short[] targets) throws IOException, ReflectiveOperationException {
    ErasureCodingPolicy policy = internals.policy(task);
    ExtendedBlock group = task.getBlockGroup();
    StripedReader reader = task.getStripedReader();
    byte[] live = internals.liveIndices(reader);
    DatanodeInfo[] sources = internals.sources(reader);
    List<Integer> wanted = new ArrayList<>();
    for (short target : targets) {
      wanted.add((int) target);
    }
    List<Request.Member> living = new ArrayList<>();
    for (int i = 0; i < live.length; i++) {
      UUID uuid = uuid(sources[i]);
      if (uuid != null && task.getBlockLen(live[i]) > 0 && named.putIfAbsent((int) live[i], sources[i]) == null) {
        // As HDFS's own reader makes it; empty where tokens are not used.
        Token<BlockTokenIdentifier> token = datanode().getBlockAccessToken(
            task.getBlock(live[i]), EnumSet.of(AccessMode.READ), StorageType.EMPTY_ARRAY, new String[0]);
        living.add(new Request.Member(live[i], uuid, sources[i].getNetworkLocation(), token));
      }
    }
    return new Request(
        group.getBlockPoolId(), group.getBlockId(), group.getGenerationStamp(), policy.getCodecName(),
        policy.getNumDataUnits(), policy.getNumParityUnits(), policy.getCellSize(), group.getNumBytes(),
        0, task.getMaxTargetLength(), Request.Purpose.REBUILD, gateway.settings().scheme(), wanted, living);
  }

  /** Null for a DataNode whose uuid is none; it has no helper. */
  private static UUID uuid(DatanodeInfo of) {
    try {
      return UUID.fromString(of.getDatanodeUuid());
    } catch (IllegalArgumentException none) {
      return null;
    }
  }

  /** As {@link StripedBlockReconstructor#run} ends. */
  private void end(StripedWriter writer) {
    DataNodeMetrics of = datanode().getMetrics();
    datanode().decrementXmitsInProgress(countedXmits() - sparedXmits);
    of.incrECReconstructionTasks();
    of.incrECReconstructionBytesRead(task.getBytesRead());
    of.incrECReconstructionRemoteBytesRead(task.getRemoteBytesRead());
    of.incrECReconstructionBytesWritten(task.getBytesWritten());
    letGo(writer);
  }

  /** HDFS's reader has nothing to let go: it was never begun. */
  private void letGo(StripedWriter writer) {
    writer.close();
    task.cleanup();
  }

  private void runAsHdfsWould(StripedWriter writer, Throwable why) {
    datanode().incrementXmitsInProcess(sparedXmits);
    if (!hasBegun) {
      StripelinePlugin.LOG.warn("{} is reconstructed as HDFS does it, for nothing came through helpers: {}",
          task.getBlockGroup(), why.toString());
      long start = Time.monotonicNow();
      task.run();
      StripelinePlugin.LOG.info("{} took {} ms without helpers", task.getBlockGroup(), Time.monotonicNow() - start);
      return;
    }
    StripelinePlugin.LOG.warn("{} is reconstructed anew as HDFS does it, for what came through helpers broke off at byte {}",
        task.getBlockGroup(), task.getPositionInBlock(), why);
    try {
      letGo(writer);
      Thread.sleep(TARGETS_LET_GO_MS);
      internals.again(task).run();
    } catch (InterruptedException | ReflectiveOperationException | RuntimeException ended) {
      // The NameNode finds out that the block is still missing, and orders another reconstruction.
      StripelinePlugin.LOG.error("the reconstruction of {} is given up", task.getBlockGroup(), ended);
      datanode().decrementXmitsInProgress(countedXmits());
      datanode().getMetrics().incrECFailedReconstructionTasks();
      if (ended instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private DataNode datanode() {
    return task.getDatanode();
  }
}
