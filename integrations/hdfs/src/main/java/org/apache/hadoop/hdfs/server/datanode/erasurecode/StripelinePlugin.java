package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import java.io.IOException;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.util.ServicePlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.Gateway;
import stripeline.hdfs.Settings;
import stripeline.hdfs.Versions;
import stripeline.hdfs.encode.EncodeService;

/**
 * Lets a DataNode's reconstructions go through Stripeline's helpers: {@code dfs.datanode.plugins} names this class.
 *
 * <p>It puts an executor in the place of {@link ErasureCodingWorker}'s, which runs each task of HDFS's as
 * {@link PipelinedReconstruction} does. Should anything be missing that this needs, the DataNode keeps what it has, and the
 * log says so.
 */
public final class StripelinePlugin implements ServicePlugin {

  static final Logger LOG = LoggerFactory.getLogger(StripelinePlugin.class);

  /** What HDFS had, as long as ours has its place. */
  private ThreadPoolExecutor stock;
  private ErasureCodingWorker worker;
  private ReconstructionMetrics metrics;
  private EncodeService encodes;
  private TokenSockets tokens;

  @Override
  public void start(Object service) {
    if (Versions.trouble() != null) {
      LOG.error("{}: reconstructions stay as they are", Versions.trouble());
      return;
    }
    try {
      DataNode datanode = (DataNode) service;
      Gateway gateway = new Gateway(Settings.of(datanode.getConf()));
      Internals internals = new Internals();
      listen(datanode, internals);
      worker = datanode.getErasureCodingWorker();
      stock = internals.pool(worker);
      metrics = ReconstructionMetrics.register();
      Orders orders = new Orders(datanode, internals);
      internals.setPool(worker, new Pool(stock,
          task -> new PipelinedReconstruction(task, gateway, internals, metrics, orders)));
      LOG.info("reconstructions go through Stripeline: gateways {}, scheme {}",
          gateway.settings().gateways(), gateway.settings().scheme().isEmpty() ? "auto" : gateway.settings().scheme());
      encodes = EncodeService.start(datanode, gateway);
    } catch (ReflectiveOperationException | RuntimeException missing) {
      LOG.error("Stripeline cannot take part: reconstructions stay as they are", missing);
      worker = null;
    } catch (IOException | LinkageError missing) {
      LOG.error("files are not encoded at this DataNode", missing);
    }
  }

  /** The helper beside this DataNode asks what it may read. */
  private void listen(DataNode datanode, Internals internals) {
    try {
      tokens = TokenSockets.start(TokenSockets.places(datanode.getConf()), new TokenChecks(datanode, internals)::refusal);
      LOG.info("the helper is told at {} which blocks it may read", tokens.bound());
    } catch (IOException | RuntimeException none) {
      LOG.error("blocks of this DataNode are not read through helpers, for its helper cannot ask whether it may: "
          + "set {}, and --block-tokens of the helper to the same path", TokenSockets.SOCKET_KEY, none);
    }
  }

  @Override
  public void stop() {
    if (tokens != null) {
      org.apache.hadoop.io.IOUtils.closeStream(tokens);
      tokens = null;
    }
    if (encodes != null) {
      encodes.stop();
      encodes = null;
    }
    if (worker == null) {
      return;
    }
    try {
      Internals internals = new Internals();
      ThreadPoolExecutor ours = internals.pool(worker);
      internals.setPool(worker, stock);
      ours.shutdown();
    } catch (ReflectiveOperationException gone) {
      LOG.warn("the executor stays", gone);
    }
    worker = null;
    metrics.unregister();
  }

  @Override
  public void close() throws IOException {
    stop();
  }

  /** How a task of HDFS's becomes one of ours. */
  private interface Wrapping {
    Runnable of(StripedBlockReconstructor task) throws ReflectiveOperationException;
  }

  /** As many threads as HDFS's own, which run other tasks as they are. */
  private static final class Pool extends ThreadPoolExecutor {

    private final Wrapping wrapping;

    /** A queue of its own: tasks that HDFS has queued already are run by HDFS's. */
    Pool(ThreadPoolExecutor like, Wrapping wrapping) {
      super(like.getCorePoolSize(), like.getMaximumPoolSize(), like.getKeepAliveTime(TimeUnit.SECONDS),
          TimeUnit.SECONDS, new java.util.concurrent.LinkedBlockingQueue<>(), like.getThreadFactory());
      allowCoreThreadTimeOut(true);
      this.wrapping = wrapping;
    }

    @Override
    public Future<?> submit(Runnable task) {
      Runnable wrapped = task;
      if (task instanceof StripedBlockReconstructor ours) {
        try {
          wrapped = wrapping.of(ours);
        } catch (ReflectiveOperationException missing) {
          LOG.error("a reconstruction stays as it is", missing);
        }
      }
      return super.submit(wrapped);
    }
  }
}
