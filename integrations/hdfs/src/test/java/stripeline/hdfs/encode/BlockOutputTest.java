package stripeline.hdfs.encode;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.net.BasicInetPeer;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.datatransfer.PacketHeader;
import org.apache.hadoop.hdfs.protocol.datatransfer.PipelineAck;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.BlockOpResponseProto;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.OpWriteBlockProto;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.Status;
import org.apache.hadoop.util.DataChecksum;
import org.junit.jupiter.api.Test;

class BlockOutputTest {

  /** What a DataNode got of a block: its packets, and their bytes without checksums. */
  private record Got(List<PacketHeader> packets, byte[] bytes) {}

  private static Got take(Socket socket) throws IOException {
    DataInputStream in = new DataInputStream(socket.getInputStream());
    DataOutputStream out = new DataOutputStream(socket.getOutputStream());
    // The version of the protocol, and which of its operations.
    in.readShort();
    in.readByte();
    OpWriteBlockProto.parseDelimitedFrom(in);
    BlockOpResponseProto.newBuilder().setStatus(Status.SUCCESS).build().writeDelimitedTo(out);
    Got got = new Got(new ArrayList<>(), null);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    boolean isLast = false;
    while (!isLast) {
      PacketHeader header = new PacketHeader();
      int length = in.readInt();
      byte[] fields = new byte[in.readShort()];
      in.readFully(fields);
      header.setFieldsFromData(length, fields);
      byte[] body = new byte[length - Integer.BYTES];
      in.readFully(body);
      bytes.write(body, body.length - header.getDataLen(), header.getDataLen());
      got.packets().add(header);
      new PipelineAck(header.getSeqno(), new int[] {PipelineAck.combineHeader(PipelineAck.ECN.DISABLED, Status.SUCCESS)}).write(out);
      out.flush();
      isLast = header.isLastPacketInBlock();
    }
    return new Got(got.packets(), bytes.toByteArray());
  }

  /** Whoever is told that a block is there may delete what it was made of, so a DataNode that loses power must have it. */
  @Test
  void aBlockIsOnTheDiskOfItsDataNodeBeforeItIsThere() throws Exception {
    DatanodeInfo machine = GroupLayoutTest.machine(1, 0, 0);
    for (int length : new int[] {1, 64 << 10, 300_001}) {
      try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
        CompletableFuture<Got> datanode = CompletableFuture.supplyAsync(() -> {
          try (Socket socket = server.accept()) {
            return take(socket);
          } catch (IOException failed) {
            throw new IllegalStateException(failed);
          }
        });
        Peers peers = (to, block, token) -> new BasicInetPeer(new Socket(server.getInetAddress(), server.getLocalPort()));
        LocatedBlock target = new LocatedBlock(GroupLayoutTest.block(1, 0).getBlock(), new DatanodeInfo[] {machine},
            new String[] {"s"}, new StorageType[] {StorageType.DISK});
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        try (BlockOutput output = new BlockOutput(
            peers, target, DataChecksum.newDataChecksum(DataChecksum.Type.CRC32C, 512), "test")) {
          output.write(ByteBuffer.wrap(bytes));
          assertEquals((int) crc.getValue(), output.finish());
        }
        Got got = datanode.get(30, TimeUnit.SECONDS);
        assertArrayEquals(bytes, got.bytes());
        for (PacketHeader packet : got.packets()) {
          // Only the end is waited for: a sync of each packet would be the disk's time over and over.
          assertEquals(packet.isLastPacketInBlock(), packet.getSyncBlock(), packet.toString());
        }
        PacketHeader last = got.packets().get(got.packets().size() - 1);
        assertEquals(List.of((long) length, 0), List.of(last.getOffsetInBlock(), last.getDataLen()));
      }
    }
  }
}
