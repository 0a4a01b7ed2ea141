package stripeline.hdfs.encode;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.client.HdfsClientConfigKeys;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocolPB.PBHelperClient;
import org.apache.hadoop.ipc.ProtobufRpcEngine2;
import org.apache.hadoop.ipc.RPC;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.ipc.RpcNoSuchProtocolException;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.thirdparty.protobuf.ServiceException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Where works are done: in the DataNode that is best for it, if it has the plugin, and otherwise in the encoder. */
final class Workplaces {

  private static final Logger LOG = LoggerFactory.getLogger(Workplaces.class);

  /** The work of one block at the rate of the slowest links, and its turn after others: HDFS's own clients wait eight minutes for a packet. */
  private static final int ANSWER_TIMEOUT_MS = 1_800_000;

  private final Configuration conf;
  private final Worker here;
  private final boolean byName;

  /** DataNodes without the plugin: they are not asked again. */
  private final Map<String, Boolean> without = new ConcurrentHashMap<>();

  Workplaces(Configuration conf, Worker here) {
    this.conf = new Configuration(conf);
    this.here = here;
    byName = conf.getBoolean(HdfsClientConfigKeys.DFS_CLIENT_USE_DN_HOSTNAME,
        HdfsClientConfigKeys.DFS_CLIENT_USE_DN_HOSTNAME_DEFAULT);
    RPC.setProtocolEngine(this.conf, EncodeProtocol.class, ProtobufRpcEngine2.class);
  }

  /** What became of a work, and whether a DataNode did it. */
  record Outcome(WorkDone done, boolean isAtDatanode) {}

  Outcome run(Work work, DatanodeInfo at) throws IOException {
    if (!without.containsKey(at.getDatanodeUuid())) {
      try {
        return new Outcome(ask(work, at), true);
      } catch (RemoteException refused) {
        if (!RpcNoSuchProtocolException.class.getName().equals(refused.getClassName())) {
          throw refused;
        }
        without.put(at.getDatanodeUuid(), true);
        LOG.warn("{} has no Stripeline plugin: its blocks are read and written from here", at);
      }
    }
    return new Outcome(here.run(work), false);
  }

  private WorkDone ask(Work work, DatanodeInfo at) throws IOException {
    InetSocketAddress address = NetUtils.createSocketAddr(at.getIpcAddr(byName));
    // As HDFS's own calls of this kind: whoever has a token of a block may ask its DataNode.
    UserGroupInformation user = UserGroupInformation.createRemoteUser(
        work.targets().get(0).getBlock().getLocalBlock().toString());
    user.addToken(work.targets().get(0).getBlockToken());
    EncodeProtocol proxy = RPC.getProxy(EncodeProtocol.class, RPC.getProtocolVersion(EncodeProtocol.class), address,
        UserGroupInformation.isSecurityEnabled() ? user : UserGroupInformation.getCurrentUser(), conf,
        NetUtils.getDefaultSocketFactory(conf), ANSWER_TIMEOUT_MS);
    try {
      return WorkDone.of(proxy.write(null, PBHelperClient.convert(work.toMessage())).getValue().toByteArray());
    } catch (ServiceException failed) {
      throw failed.getCause() instanceof IOException cause ? cause : new IOException(failed);
    } finally {
      RPC.stopProxy(proxy);
    }
  }
}
