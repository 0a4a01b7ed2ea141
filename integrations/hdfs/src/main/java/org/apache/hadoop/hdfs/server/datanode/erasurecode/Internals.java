package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.List;
import java.util.concurrent.ThreadPoolExecutor;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockPoolTokenSecretManager;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.util.DataTransferThrottler;

/** Members of HDFS's classes that even their own package does not show. All are looked up when the plugin starts. */
final class Internals {

  private final Field pool = field(ErasureCodingWorker.class, "stripedReconstructionPool");
  private final Field writer = field(StripedBlockReconstructor.class, "stripedWriter");
  private final Field policy = field(StripedReconstructor.class, "ecPolicy");
  private final Field liveIndices = field(StripedReader.class, "liveIndices");
  private final Field sources = field(StripedReader.class, "sources");
  private final Field targets = field(StripedWriter.class, "targets");
  private final Field targetIndices = field(StripedWriter.class, "targetIndices");
  private final Field storageTypes = field(StripedWriter.class, "targetStorageTypes");
  private final Field storageIds = field(StripedWriter.class, "targetStorageIds");
  private final Method initChecksum = method(StripedReader.class, "initOrVerifyChecksum", StripedBlockReader.class);
  private final Method initBufferSize = method(StripedReader.class, "initBufferSize");
  private final Method readThrottler = method(DataNode.class, "getEcReconstuctReadThrottler");
  private final Method writeThrottler = method(DataNode.class, "getEcReconstuctWriteThrottler");
  private final Field isRegistered = field(DataNode.class, "hasAnyBlockPoolRegistered");
  private final Field tokensEnabled = field(DataNode.class, "isBlockTokenEnabled");
  private final Field tokens = field(DataNode.class, "blockPoolTokenSecretManager");
  private final Method offers = method(DataNode.class, "getAllBpOs");
  private final Method actors = method(datanodeClass("BPOfferService"), "getBPServiceActors");
  private final Field reports = field(datanodeClass("BPServiceActor"), "ibrManager");
  private final Method scheduler = method(datanodeClass("BPServiceActor"), "getScheduler");
  private final Method scheduleHeartbeat = method(datanodeClass("BPServiceActor$Scheduler"), "scheduleHeartbeat");
  private final Constructor<StripedReconstructionInfo> info = StripedReconstructionInfo.class.getDeclaredConstructor(
      ExtendedBlock.class, ErasureCodingPolicy.class, byte[].class, DatanodeInfo[].class, DatanodeInfo[].class,
      StorageType[].class, String[].class, byte[].class);

  Internals() throws ReflectiveOperationException {
    info.setAccessible(true);
  }

  ThreadPoolExecutor pool(ErasureCodingWorker worker) throws ReflectiveOperationException {
    return (ThreadPoolExecutor) pool.get(worker);
  }

  void setPool(ErasureCodingWorker worker, ThreadPoolExecutor executor) throws ReflectiveOperationException {
    pool.set(worker, executor);
  }

  StripedWriter writer(StripedBlockReconstructor task) throws ReflectiveOperationException {
    return (StripedWriter) writer.get(task);
  }

  ErasureCodingPolicy policy(StripedReconstructor task) throws ReflectiveOperationException {
    return (ErasureCodingPolicy) policy.get(task);
  }

  byte[] liveIndices(StripedReader reader) throws ReflectiveOperationException {
    return (byte[]) liveIndices.get(reader);
  }

  DatanodeInfo[] sources(StripedReader reader) throws ReflectiveOperationException {
    return (DatanodeInfo[]) sources.get(reader);
  }

  short[] targetIndices(StripedWriter of) throws ReflectiveOperationException {
    return (short[]) targetIndices.get(of);
  }

  /** The checksum and the buffer's size follow from one source's. */
  void learnChecksum(StripedReader reader, StripedBlockReader source) throws ReflectiveOperationException {
    initChecksum.invoke(reader, source);
    initBufferSize.invoke(reader);
  }

  DataTransferThrottler readThrottler(DataNode datanode) throws ReflectiveOperationException {
    return (DataTransferThrottler) readThrottler.invoke(datanode);
  }

  DataTransferThrottler writeThrottler(DataNode datanode) throws ReflectiveOperationException {
    return (DataTransferThrottler) writeThrottler.invoke(datanode);
  }

  /** Whether its NameNode uses block tokens; null if it has not said so yet. */
  Boolean blockTokensEnabled(DataNode datanode) throws ReflectiveOperationException {
    // Both change in one step under this lock.
    synchronized (datanode) {
      return isRegistered.getBoolean(datanode) ? tokensEnabled.getBoolean(datanode) : null;
    }
  }

  /** What makes and checks its block tokens. */
  BlockPoolTokenSecretManager tokens(DataNode datanode) throws ReflectiveOperationException {
    return (BlockPoolTokenSecretManager) tokens.get(datanode);
  }

  /** The DataNode's next heartbeat is due now, and those who send it are woken. */
  void heartbeatNow(DataNode datanode) throws ReflectiveOperationException {
    for (Object offer : (List<?>) offers.invoke(datanode)) {
      for (Object actor : (List<?>) actors.invoke(offer)) {
        Object waitedAt = reports.get(actor);
        synchronized (waitedAt) {
          scheduleHeartbeat.invoke(scheduler.invoke(actor));
          waitedAt.notifyAll();
        }
      }
    }
  }

  /** The same task, from its beginning. */
  StripedBlockReconstructor again(StripedBlockReconstructor task) throws ReflectiveOperationException {
    StripedWriter of = writer(task);
    StripedReader reader = task.getStripedReader();
    StripedReconstructionInfo same = info.newInstance(
        task.getBlockGroup(), policy(task), liveIndices(reader), sources(reader), targets.get(of), storageTypes.get(of),
        storageIds.get(of), excluded(task));
    return new StripedBlockReconstructor(task.getErasureCodingWorker(), same);
  }

  private static byte[] excluded(StripedReconstructor task) {
    int[] indices = task.getExcludeBitSet().stream().toArray();
    byte[] excluded = new byte[indices.length];
    for (int i = 0; i < indices.length; i++) {
      excluded[i] = (byte) indices[i];
    }
    return excluded;
  }

  private static Class<?> datanodeClass(String name) throws ClassNotFoundException {
    return Class.forName(DataNode.class.getPackageName() + "." + name);
  }

  private static Field field(Class<?> of, String name) throws NoSuchFieldException {
    Field field = of.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private static Method method(Class<?> of, String name, Class<?>... parameters) throws NoSuchMethodException {
    Method method = of.getDeclaredMethod(name, parameters);
    method.setAccessible(true);
    return method;
  }
}
