package stripeline.hdfs.encode;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.DFSPacket;
import org.apache.hadoop.hdfs.net.Peer;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.datatransfer.BlockConstructionStage;
import org.apache.hadoop.hdfs.protocol.datatransfer.PacketHeader;
import org.apache.hadoop.hdfs.protocol.datatransfer.PipelineAck;
import org.apache.hadoop.hdfs.protocol.datatransfer.Sender;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.BlockOpResponseProto;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.Status;
import org.apache.hadoop.hdfs.protocolPB.PBHelperClient;
import org.apache.hadoop.hdfs.server.datanode.CachingStrategy;
import org.apache.hadoop.util.DataChecksum;

/**
 * Writes a block of a group to its DataNode as HDFS's own clients do, with its token and its checksums. The DataNode checks each
 * packet, and says so; the block is there, on the disk, when {@link #finish} returns, and not before. Not for several threads.
 */
final class BlockOutput implements Closeable {

  private static final int CHUNKS_PER_PACKET = 128;

  /** Packets on their way, as HDFS's own clients have them: 5 MiB. */
  private static final int WINDOW = 80;

  private final Peer peer;
  private final LocatedBlock target;
  private final DataOutputStream out;
  private final DataInputStream in;
  private final DataChecksum checksum;
  private final Checksum whole;
  private final byte[] packet;
  private final ByteBuffer data;
  private final byte[] sums;
  private long offset;
  private long sent;
  private long acknowledged;

  /** Opens the block at the one DataNode that is named with it. */
  BlockOutput(Peers peers, LocatedBlock target, DataChecksum checksum, String client) throws IOException {
    this.target = target;
    this.checksum = checksum;
    whole = checksum.getChecksumType() == DataChecksum.Type.CRC32 ? new CRC32() : new CRC32C();
    data = ByteBuffer.allocate(CHUNKS_PER_PACKET * checksum.getBytesPerChecksum());
    sums = new byte[CHUNKS_PER_PACKET * checksum.getChecksumSize()];
    packet = new byte[PacketHeader.PKT_MAX_HEADER_LEN + data.capacity() + sums.length];
    DatanodeInfo datanode = target.getLocations()[0];
    peer = peers.connect(datanode, target.getBlock(), target.getBlockToken());
    try {
      out = new DataOutputStream(new BufferedOutputStream(peer.getOutputStream(), packet.length));
      in = new DataInputStream(peer.getInputStream());
      open(datanode, client);
    } catch (IOException | RuntimeException failed) {
      peer.close();
      throw failed;
    }
  }

  private void open(DatanodeInfo datanode, String client) throws IOException {
    StorageType type = target.getStorageTypes()[0];
    String storage = target.getStorageIDs()[0];
    ExtendedBlock empty = new ExtendedBlock(target.getBlock());
    empty.setNumBytes(0);
    new Sender(out).writeBlock(empty, type, target.getBlockToken(), client, new DatanodeInfo[] {datanode},
        new StorageType[] {type}, null, BlockConstructionStage.PIPELINE_SETUP_CREATE, 1, 0, 0, 0, checksum,
        CachingStrategy.newDefaultStrategy(), false, false, null, storage, new String[] {storage});
    BlockOpResponseProto answer = BlockOpResponseProto.parseFrom(PBHelperClient.vintPrefixed(in));
    if (answer.getStatus() != Status.SUCCESS) {
      throw new IOException(datanode + " does not take " + target.getBlock() + ": " + answer.getStatus() + " "
          + answer.getMessage());
    }
  }

  /** The block's next bytes. */
  void write(ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining()) {
      int count = Math.min(bytes.remaining(), data.remaining());
      ByteBuffer part = bytes.slice(bytes.position(), count);
      data.put(part);
      bytes.position(bytes.position() + count);
      if (!data.hasRemaining()) {
        send();
      }
    }
  }

  private void send() throws IOException {
    data.flip();
    int length = data.remaining();
    whole.update(data.array(), 0, length);
    checksum.calculateChunkedSums(data.array(), 0, length, sums, 0);
    DFSPacket next = new DFSPacket(packet, CHUNKS_PER_PACKET, offset, sent, checksum.getChecksumSize(), false);
    int chunks = (length - 1) / checksum.getBytesPerChecksum() + 1;
    next.writeChecksum(sums, 0, chunks * checksum.getChecksumSize());
    next.writeData(data, length);
    next.writeTo(out);
    offset += length;
    data.clear();
    sent++;
    while (sent - acknowledged >= WINDOW) {
      acknowledge();
    }
  }

  /** The block ends; its CRC, of the type of its checksums, when its DataNode says that it has all of it. */
  int finish() throws IOException {
    if (data.position() > 0) {
      send();
    }
    // The replicas go when this block is acknowledged: so it is on the disk by then, its checksums and its folder too.
    boolean onDisk = true;
    new PacketHeader(Integer.BYTES, offset, sent, true, 0, onDisk).write(out);
    sent++;
    out.flush();
    while (acknowledged < sent) {
      acknowledge();
    }
    return (int) whole.getValue();
  }

  private void acknowledge() throws IOException {
    out.flush();
    PipelineAck ack = new PipelineAck();
    ack.readFields(in);
    if (ack.getSeqno() == DFSPacket.HEART_BEAT_SEQNO) {
      return;
    }
    if (ack.getSeqno() != acknowledged || !ack.isSuccess()) {
      throw new IOException(target.getLocations()[0] + " did not take packet " + acknowledged + " of " + target.getBlock()
          + ": " + ack);
    }
    acknowledged++;
  }

  @Override
  public void close() {
    org.apache.hadoop.io.IOUtils.closeStream(peer);
  }
}
