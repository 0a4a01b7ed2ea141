package stripeline.hdfs.encode;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.net.Peer;
import org.apache.hadoop.hdfs.protocol.BlockChecksumOptions;
import org.apache.hadoop.hdfs.protocol.BlockChecksumType;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.protocol.datatransfer.Sender;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.BlockOpResponseProto;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.Status;
import org.apache.hadoop.hdfs.protocolPB.PBHelperClient;
import org.apache.hadoop.hdfs.util.StripedBlockUtil;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;
import org.apache.hadoop.util.CrcUtil;
import org.apache.hadoop.util.Time;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/**
 * That an erasure-coded file is the original, from what DataNodes have stored: positive knowledge, without which nothing goes.
 *
 * <ul>
 *   <li>every block of it is reported by a DataNode;
 *   <li>the CRC of the whole file, which DataNodes compose of the checksums of its data blocks, is that of the original;
 *   <li>the CRC of each parity there is that of the bytes that were made;
 *   <li>parities are those that HDFS's own coder makes of the data blocks as they are stored: all of them, or samples of each.
 * </ul>
 */
final class Verification {

  /** DataNodes report a block at once when it is finished. */
  private static final long REPORTED_WITHIN_MS = 60_000;
  private static final long POLL_MS = 100;

  /** Of each block, thrice: a coder that is wrong is so in every byte. */
  private static final int SAMPLE_BYTES = 16 * 1024;

  private final DistributedFileSystem fs;
  private final Peers peers;
  private final Configuration conf;
  private final ErasureCodingPolicy policy;
  private final boolean isFull;
  private final int pieceBytes;
  private final Random random;

  Verification(DistributedFileSystem fs, Peers peers, Configuration conf, ErasureCodingPolicy policy, boolean isFull,
      Random random) {
    this.fs = fs;
    this.peers = peers;
    this.conf = conf;
    this.policy = policy;
    this.isFull = isFull;
    pieceBytes = isFull ? Worker.PIECE_BYTES : SAMPLE_BYTES;
    this.random = random;
  }

  /** Returns if all holds; {@code parityCrcs} are those of each group. */
  void check(HdfsFileStatus original, long inode, List<int[]> parityCrcs) throws IOException {
    List<LocatedBlock[]> groups = reported(inode, original.getLen(), parityCrcs.size());
    FileChecksum expected = fs.getFileChecksum(new Path(Original.byInode(original.getFileId())));
    FileChecksum found = fs.getFileChecksum(new Path(Original.byInode(inode)));
    if (expected == null || !expected.equals(found)) {
      throw new NotEncodedException(Reason.DIFFERS, "what was written has the checksum " + found + ", not " + expected);
    }
    int k = policy.getNumDataUnits();
    for (int group = 0; group < groups.size(); group++) {
      int[] crcs = parityCrcs.get(group);
      for (int parity = 0; parity < crcs.length; parity++) {
        LocatedBlock block = groups.get(group)[k + parity];
        if (storedCrc(block) != crcs[parity]) {
          throw new NotEncodedException(Reason.DIFFERS, "parity " + parity + " of group " + group + " is stored with another CRC");
        }
      }
      recode(group, groups.get(group));
    }
  }

  /** The blocks of all groups by their members, once all that have bytes are reported. */
  private List<LocatedBlock[]> reported(long inode, long length, int count) throws IOException {
    long deadline = Time.monotonicNow() + REPORTED_WITHIN_MS;
    while (true) {
      LocatedBlocks located = fs.getClient().getNamenode().getBlockLocations(Original.byInode(inode), 0, length);
      List<LocatedBlock[]> groups = new ArrayList<>();
      for (LocatedBlock block : located.getLocatedBlocks()) {
        groups.add(StripedBlockUtil.parseStripedBlockGroup((LocatedStripedBlock) block, policy.getCellSize(),
            policy.getNumDataUnits(), policy.getNumParityUnits()));
      }
      boolean isThere = located.getFileLength() == length && groups.size() == count;
      for (int group = 0; group < groups.size() && isThere; group++) {
        isThere = isWhole(groups.get(group), located.get(group).getBlockSize());
      }
      if (isThere) {
        return groups;
      }
      if (Time.monotonicNow() > deadline) {
        throw new NotEncodedException(Reason.DIFFERS, "not all blocks of it are reported within " + REPORTED_WITHIN_MS + " ms");
      }
      Pause.ms(POLL_MS);
    }
  }

  private boolean isWhole(LocatedBlock[] members, long dataBytes) {
    for (int member = 0; member < members.length; member++) {
      boolean hasBytes = StripedBlockUtil.getInternalBlockLength(dataBytes, policy, member) > 0;
      if (hasBytes && (members[member] == null || members[member].getLocations().length == 0)) {
        return false;
      }
    }
    return true;
  }

  /** The CRC that a DataNode composes of a block's stored checksums. */
  private int storedCrc(LocatedBlock block) throws IOException {
    try (Peer peer = peers.connect(block.getLocations()[0], block.getBlock(), block.getBlockToken())) {
      new Sender(new DataOutputStream(peer.getOutputStream())).blockChecksum(
          block.getBlock(), block.getBlockToken(), new BlockChecksumOptions(BlockChecksumType.COMPOSITE_CRC));
      BlockOpResponseProto answer =
          BlockOpResponseProto.parseFrom(PBHelperClient.vintPrefixed(new DataInputStream(peer.getInputStream())));
      if (answer.getStatus() != Status.SUCCESS) {
        throw new IOException("no checksum of " + block.getBlock() + ": " + answer.getStatus() + " " + answer.getMessage());
      }
      return CrcUtil.readInt(answer.getChecksumResponse().getBlockChecksum().toByteArray(), 0);
    }
  }

  /** Makes the parities anew from what is stored. */
  private void recode(int group, LocatedBlock[] members) throws IOException {
    int k = policy.getNumDataUnits();
    long length = members[k].getBlockSize();
    RawErasureEncoder encoder = CodedParities.encoder(policy, conf);
    List<BlockInput> inputs = new ArrayList<>();
    try {
      for (LocatedBlock member : members) {
        inputs.add(member == null ? null : new BlockInput(peers, member, "", conf));
      }
      byte[][] data = new byte[k][pieceBytes];
      byte[] stored = new byte[pieceBytes];
      ByteBuffer[] made = new ByteBuffer[members.length - k];
      for (long at : places(length)) {
        int count = (int) Math.min(pieceBytes, length - at);
        for (int member = 0; member < k; member++) {
          long there = members[member] == null ? 0 : Math.max(0, Math.min(count, members[member].getBlockSize() - at));
          read(inputs.get(member), at, data[member], (int) there);
          Arrays.fill(data[member], (int) there, count, (byte) 0);
        }
        for (int parity = 0; parity < made.length; parity++) {
          made[parity] = ByteBuffer.allocate(count);
        }
        CodedParities.encode(encoder, data, made, count);
        for (int parity = 0; parity < made.length; parity++) {
          read(inputs.get(k + parity), at, stored, count);
          if (!Arrays.equals(made[parity].array(), 0, count, stored, 0, count)) {
            throw new NotEncodedException(Reason.DIFFERS, "parity " + parity + " of group " + group + " is not that of its data blocks");
          }
        }
      }
    } finally {
      inputs.forEach(org.apache.hadoop.io.IOUtils::closeStream);
      encoder.release();
    }
  }

  private void read(BlockInput from, long at, byte[] into, int count) throws IOException {
    if (count > 0) {
      if (!isFull) {
        from.seek(at, count);
      }
      from.readFully(into, count);
    }
  }

  /** Where pieces begin that are compared, in rising order: all, or the first, the last and one between them. */
  private Iterable<Long> places(long length) {
    TreeSet<Long> places = new TreeSet<>();
    long last = (length - 1) / pieceBytes;
    if (isFull) {
      for (long piece = 0; piece <= last; piece++) {
        places.add(piece * pieceBytes);
      }
    } else {
      places.addAll(List.of(0L, random.nextLong(last + 1) * pieceBytes, last * pieceBytes));
    }
    return places;
  }
}
