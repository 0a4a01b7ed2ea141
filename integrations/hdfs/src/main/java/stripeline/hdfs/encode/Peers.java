package stripeline.hdfs.encode;

import java.io.IOException;
import java.net.Socket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.DFSUtilClient;
import org.apache.hadoop.hdfs.client.HdfsClientConfigKeys;
import org.apache.hadoop.hdfs.net.Peer;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.io.IOUtils;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.token.Token;

/** Connections to the data transfer port of DataNodes, authenticated and encrypted as HDFS has them. */
@FunctionalInterface
public interface Peers {

  /** Connects for work on a block. */
  Peer connect(DatanodeInfo to, ExtendedBlock block, Token<BlockTokenIdentifier> token) throws IOException;

  /** Those of a client. */
  static Peers of(DFSClient client, Configuration conf) {
    boolean byName = byName(conf);
    return (to, block, token) ->
        client.newConnectedPeer(NetUtils.createSocketAddr(to.getXferAddr(byName)), token, to);
  }

  /** Those of a DataNode. */
  static Peers of(DataNode datanode) {
    boolean byName = byName(datanode.getConf());
    return (to, block, token) -> {
      int timeoutMs = datanode.getDnConf().getSocketTimeout();
      Socket socket = datanode.newSocket();
      Peer peer = null;
      try {
        NetUtils.connect(socket, NetUtils.createSocketAddr(to.getXferAddr(byName)), timeoutMs);
        peer = DFSUtilClient.peerFromSocketAndKey(datanode.getSaslClient(), socket,
            datanode.getDataEncryptionKeyFactoryForBlock(block), token, to, timeoutMs);
        return peer;
      } finally {
        if (peer == null) {
          IOUtils.closeSocket(socket);
        }
      }
    };
  }

  private static boolean byName(Configuration conf) {
    return conf.getBoolean(HdfsClientConfigKeys.DFS_CLIENT_USE_DN_HOSTNAME,
        HdfsClientConfigKeys.DFS_CLIENT_USE_DN_HOSTNAME_DEFAULT);
  }
}
