package stripeline.hdfs.encode;

import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonConfigurationKeys;
import org.apache.hadoop.hdfs.HDFSPolicyProvider;
import org.apache.hadoop.hdfs.protocol.proto.HdfsProtos.LocatedBlocksProto;
import org.apache.hadoop.hdfs.protocolPB.PBHelperClient;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.ipc.ProtobufRpcEngine2;
import org.apache.hadoop.ipc.ProtobufRpcEngineCallback2;
import org.apache.hadoop.ipc.RPC;
import org.apache.hadoop.security.authorize.PolicyProvider;
import org.apache.hadoop.security.authorize.Service;
import org.apache.hadoop.thirdparty.protobuf.BlockingService;
import org.apache.hadoop.thirdparty.protobuf.ByteString;
import org.apache.hadoop.thirdparty.protobuf.BytesValue;
import org.apache.hadoop.thirdparty.protobuf.DescriptorProtos;
import org.apache.hadoop.thirdparty.protobuf.Descriptors;
import org.apache.hadoop.thirdparty.protobuf.Message;
import org.apache.hadoop.thirdparty.protobuf.RpcController;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.Gateway;

/**
 * Does the works of encoders within a DataNode. Whoever asks brings the tokens of all blocks, so that nothing is done that he could
 * not do from where he is; here it is done near the bytes.
 */
public final class EncodeService implements BlockingService {

  private static final Logger LOG = LoggerFactory.getLogger(EncodeService.class);

  /** Who may ask, where Hadoop's service authorization is on; everybody who may use HDFS, unless it is set. */
  public static final String ACL_KEY = "security.stripeline.encode.protocol.acl";

  /** As many as HDFS's own reconstructions of a DataNode: each reads and writes at the rate of its disk or its links. */
  private static final int MAX_WORKS = 8;

  /** Works that wait. An encoder has as many as a group has blocks at each of the files that it encodes at once. */
  private static final int MAX_WAITING = 256;

  private static final long IDLE_S = 60;

  private final Worker worker;
  private final Descriptors.ServiceDescriptor descriptor;
  private final ThreadPoolExecutor threads;

  private EncodeService(Worker worker) throws Descriptors.DescriptorValidationException {
    this.worker = worker;
    descriptor = describe();
    threads = new ThreadPoolExecutor(
        MAX_WORKS, MAX_WORKS, IDLE_S, TimeUnit.SECONDS, new ArrayBlockingQueue<>(MAX_WAITING), task -> {
          Thread thread = new Thread(task, "stripeline-encode");
          thread.setDaemon(true);
          return thread;
        });
    threads.allowCoreThreadTimeOut(true);
  }

  /** Begins to serve at the DataNode's own port of calls. */
  public static EncodeService start(DataNode datanode, Gateway gateway) throws IOException {
    Configuration conf = datanode.getConf();
    try {
      Worker worker = new Worker(Peers.of(datanode), conf, "stripeline_" + datanode.getDatanodeUuid(), gateway);
      EncodeService service = new EncodeService(worker);
      RPC.setProtocolEngine(conf, EncodeProtocol.class, ProtobufRpcEngine2.class);
      datanode.ipcServer.addProtocol(RPC.RpcKind.RPC_PROTOCOL_BUFFER, EncodeProtocol.class, service);
      if (conf.getBoolean(CommonConfigurationKeys.HADOOP_SECURITY_AUTHORIZATION, false)) {
        datanode.ipcServer.refreshServiceAcl(conf, new Policies());
      }
      return service;
    } catch (Descriptors.DescriptorValidationException defect) {
      throw new IOException(defect);
    }
  }

  /** No further work begins. */
  public void stop() {
    threads.shutdownNow();
  }

  /** HDFS's own, and ours. */
  private static final class Policies extends PolicyProvider {
    @Override
    public Service[] getServices() {
      Service[] stock = new HDFSPolicyProvider().getServices();
      Service[] all = Arrays.copyOf(stock, stock.length + 1);
      all[stock.length] = new Service(ACL_KEY, EncodeProtocol.class);
      return all;
    }
  }

  /** What a compiler of such files would have made of: {@code service Encode { rpc write(LocatedBlocksProto) returns (BytesValue); }}. */
  private static Descriptors.ServiceDescriptor describe() throws Descriptors.DescriptorValidationException {
    Descriptors.Descriptor request = LocatedBlocksProto.getDescriptor();
    Descriptors.Descriptor answer = BytesValue.getDescriptor();
    DescriptorProtos.FileDescriptorProto file = DescriptorProtos.FileDescriptorProto.newBuilder()
        .setName("stripeline/encode.proto")
        .addDependency(request.getFile().getName()).addDependency(answer.getFile().getName())
        .addService(DescriptorProtos.ServiceDescriptorProto.newBuilder().setName("Encode")
            .addMethod(DescriptorProtos.MethodDescriptorProto.newBuilder().setName(EncodeProtocol.WRITE)
                .setInputType("." + request.getFullName()).setOutputType("." + answer.getFullName())))
        .build();
    Descriptors.FileDescriptor[] dependencies = {request.getFile(), answer.getFile()};
    return Descriptors.FileDescriptor.buildFrom(file, dependencies).getServices().get(0);
  }

  @Override
  public Descriptors.ServiceDescriptor getDescriptorForType() {
    return descriptor;
  }

  @Override
  public Message getRequestPrototype(Descriptors.MethodDescriptor method) {
    return LocatedBlocksProto.getDefaultInstance();
  }

  @Override
  public Message getResponsePrototype(Descriptors.MethodDescriptor method) {
    return BytesValue.getDefaultInstance();
  }

  /** A work takes as long as its blocks do, so a handler of the DataNode's is not kept: the answer comes when it is done. */
  @Override
  public Message callBlockingMethod(Descriptors.MethodDescriptor method, RpcController controller, Message request)
      throws org.apache.hadoop.thirdparty.protobuf.ServiceException {
    Work work;
    try {
      work = Work.of(PBHelperClient.convert((LocatedBlocksProto) request));
    } catch (RuntimeException nonsense) {
      throw new org.apache.hadoop.thirdparty.protobuf.ServiceException(
          new IOException("no work for a DataNode: " + nonsense.getMessage(), nonsense));
    }
    ProtobufRpcEngineCallback2 callback = ProtobufRpcEngine2.Server.registerForDeferredResponse2();
    try {
      threads.execute(() -> answer(work, callback));
    } catch (RejectedExecutionException full) {
      callback.error(new IOException(MAX_WAITING + " works wait here already"));
    }
    return null;
  }

  private void answer(Work work, ProtobufRpcEngineCallback2 callback) {
    try {
      WorkDone done = worker.run(work);
      LOG.info("wrote {} blocks of {} bytes from {}{}", work.targets().size(), work.targetBytes(),
          work.targets().get(0).getBlock(), done.note().isEmpty() ? "" : ": " + done.note());
      callback.setResponse(BytesValue.newBuilder().setValue(ByteString.copyFrom(done.toBytes())).build());
    } catch (Throwable trouble) {
      LOG.warn("{} was not written", work.targets().get(0).getBlock(), trouble);
      callback.error(trouble instanceof IOException ? trouble : new IOException(trouble));
    }
  }
}
