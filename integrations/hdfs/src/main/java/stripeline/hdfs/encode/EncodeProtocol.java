package stripeline.hdfs.encode;

import org.apache.hadoop.hdfs.client.HdfsClientConfigKeys;
import org.apache.hadoop.hdfs.protocol.proto.HdfsProtos.LocatedBlocksProto;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenSelector;
import org.apache.hadoop.ipc.ProtocolInfo;
import org.apache.hadoop.security.KerberosInfo;
import org.apache.hadoop.security.token.TokenInfo;
import org.apache.hadoop.thirdparty.protobuf.BytesValue;
import org.apache.hadoop.thirdparty.protobuf.RpcController;
import org.apache.hadoop.thirdparty.protobuf.ServiceException;

/**
 * What an encoder asks of a DataNode, at the port of its other calls and with the same authentication: to write blocks of a group of
 * what its machine, or its rack, has. The message is HDFS's own; the answer is a {@link WorkDone}.
 */
@KerberosInfo(serverPrincipal = HdfsClientConfigKeys.DFS_DATANODE_KERBEROS_PRINCIPAL_KEY)
@TokenInfo(BlockTokenSelector.class)
@ProtocolInfo(protocolName = "stripeline.hdfs.encode.EncodeProtocol", protocolVersion = 1)
public interface EncodeProtocol {

  /** The call's name. */
  String WRITE = "write";

  /** Writes the targets of a {@link Work}. */
  BytesValue write(RpcController controller, LocatedBlocksProto work) throws ServiceException;
}
