package org.apache.hadoop.hdfs;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.function.IntSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.util.StripedBlockUtil;
import org.apache.hadoop.io.erasurecode.CodecUtil;
import org.apache.hadoop.io.erasurecode.ECSchema;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;
import org.apache.hadoop.security.token.Token;
import stripeline.hdfs.Gateway;
import stripeline.hdfs.Settings;

/**
 * A file of one group of whole stripes, whose members are in memory: one is lost, if any is, and a gateway has it; the others are read as
 * DataNodes' are.
 */
final class PaperGroup {

  /** No member is lost. */
  static final int NONE = -1;

  private static final String FILE = "/file";

  /** What becomes of a read of a member that is not lost, which may do it. */
  interface Reads {
    int of(int member, IntSupplier read) throws IOException;
  }

  /** A reader of a member that is not lost, from a byte of it on. */
  interface Readers {
    BlockReader of(int member, int offset);
  }

  private final ErasureCodingPolicy policy;
  private final int lost;
  private final byte[] bytes;
  private final byte[][] members;

  PaperGroup(int dataUnits, int parityUnits, int cellBytes, int stripes, int lost) throws IOException {
    policy = new ErasureCodingPolicy(new ECSchema("rs", dataUnits, parityUnits), cellBytes);
    this.lost = lost;
    bytes = new byte[dataUnits * cellBytes * stripes];
    new Random(5).nextBytes(bytes);
    members = new byte[dataUnits + parityUnits][cellBytes * stripes];
    for (int cell = 0; cell < dataUnits * stripes; cell++) {
      System.arraycopy(bytes, cell * cellBytes, members[cell % dataUnits], cell / dataUnits * cellBytes, cellBytes);
    }
    RawErasureEncoder encoder =
        CodecUtil.createRawEncoder(new Configuration(), "rs", new ErasureCoderOptions(dataUnits, parityUnits));
    encoder.encode(Arrays.copyOf(members, dataUnits), Arrays.copyOfRange(members, dataUnits, dataUnits + parityUnits));
    encoder.release();
  }

  byte[] bytes() {
    return bytes;
  }

  /** The bytes of the lost member. */
  byte[] lostMember() {
    return members[lost];
  }

  /** A stream of the file, of a client that asks this gateway. */
  StripelineInputStream open(String gateway, Reads reads) throws IOException {
    return openWith(gateway, (member, offset) -> reader(member, offset, reads));
  }

  /** The same, with others' readers in the place of DataNodes'. */
  StripelineInputStream openWith(String gateway, Readers readers) throws IOException {
    Configuration conf = new Configuration();
    conf.set(Settings.GATEWAY_KEY, gateway);
    // Nobody is there, and nobody is asked: all blocks are known.
    StripelineClient client = new StripelineClient(URI.create("hdfs://127.0.0.1:1"), conf, null) {
      @Override
      public void reportChecksumFailure(String file, LocatedBlock[] blocks) {
        // Without a NameNode nobody is told.
      }
    };
    return new StripelineInputStream(client, FILE, true, policy, located(), new Gateway(Settings.of(conf))) {
      @Override
      protected BlockReader getBlockReader(LocatedBlock block, long offsetInBlock, long length, InetSocketAddress address,
          StorageType type, DatanodeInfo node) {
        return readers.of(StripedBlockUtil.getBlockIndex(block.getBlock().getLocalBlock()), (int) offsetInBlock);
      }
    };
  }

  /** Reads a member from a byte of it on. */
  BlockReader reader(int member, int offset, Reads reads) {
    ByteBuffer from = ByteBuffer.wrap(members[member]).position(offset);
    return (BlockReader) Proxy.newProxyInstance(BlockReader.class.getClassLoader(), new Class<?>[] {BlockReader.class},
        (proxy, method, arguments) -> switch (method.getName()) {
          case "read" -> reads.of(member, () -> {
            ByteBuffer into = (ByteBuffer) arguments[0];
            int count = Math.min(into.remaining(), from.remaining());
            into.put(from.slice().limit(count));
            from.position(from.position() + count);
            return count;
          });
          case "skip" -> {
            from.position(from.position() + ((Long) arguments[0]).intValue());
            yield arguments[0];
          }
          case "isShortCircuit" -> false;
          case "getNetworkDistance" -> 0;
          case "close" -> null;
          default -> throw new UnsupportedOperationException(method.getName());
        });
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private LocatedBlocks located() {
    int all = members.length;
    DatanodeInfo[] locations = new DatanodeInfo[all];
    String[] storages = new String[all];
    StorageType[] types = new StorageType[all];
    byte[] indices = new byte[all];
    Token<BlockTokenIdentifier>[] tokens = new Token[all];
    for (int member = 0; member < all; member++) {
      String uuid = new UUID(0, member).toString();
      locations[member] = member == lost ? StripelineClient.NOBODY : new DatanodeInfo.DatanodeInfoBuilder()
          .setNodeID(new DatanodeID("127.0.0.1", "127.0.0.1", uuid, 1 + member, 0, 0, 0)).setNetworkLocation("/r").build();
      storages[member] = "s" + member;
      types[member] = StorageType.DISK;
      indices[member] = (byte) member;
      tokens[member] = new Token<>();
    }
    LocatedStripedBlock group = new LocatedStripedBlock(
        new ExtendedBlock("BP-1", -16, bytes.length, 1), locations, storages, types, indices, 0, false, null);
    group.setBlockTokens(tokens);
    return new LocatedBlocks(bytes.length, false, List.of(group), group, true, null, policy);
  }
}
