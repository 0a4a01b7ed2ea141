package org.apache.hadoop.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.util.StripedBlockUtil;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.util.Time;
import stripeline.hdfs.Gateway;
import stripeline.hdfs.Request;

/**
 * An erasure-coded file, of which lost members are read through a gateway as if a DataNode had them: HDFS's stream neither fetches
 * other members for them nor decodes. When that fails it does both, as ever.
 */
class StripelineInputStream extends DFSStripedInputStream {

  /** After a failure nothing is asked of gateways for so long: HDFS decodes meanwhile. */
  private static final long LET_ALONE_MS = 10_000;

  /**
   * HDFS's stream keeps a whole stripe of cells in memory when it is read in order: 10 MiB with the widest policy that HDFS brings,
   * and gigabytes where cells are as large as blocks. Wider ones than this are read piece by piece.
   */
  static final long MAX_STRIPE_BYTES = 16 << 20;

  /** A piece: few requests, and little that nobody wants if whoever reads stops. */
  static final int PIECE_BYTES = 4 << 20;

  private final StripelineClient client;
  private final ErasureCodingPolicy policy;
  private final Gateway gateway;

  /** Until when gateways are let alone, on the clock of {@link Time#monotonicNow}. */
  private final AtomicLong letAloneUntil = new AtomicLong(Long.MIN_VALUE);

  /** Whose readers broke off in the read by position that this thread does, if it does one: members' blocks. HDFS's threads say so. */
  private final ThreadLocal<Set<Long>> brokenOff = new ThreadLocal<>();

  /** The piece that is read in order, and where it begins in the file; null if there is none. */
  private ByteBuffer piece;
  private long pieceStart;

  StripelineInputStream(StripelineClient client, String src, boolean verifyChecksum, ErasureCodingPolicy policy,
      LocatedBlocks blocks, Gateway gateway) throws IOException {
    super(client, src, verifyChecksum, policy, blocks);
    this.client = client;
    this.policy = policy;
    this.gateway = gateway;
  }

  private interface Positional {
    int read() throws IOException;
  }

  private boolean isWide() {
    return (long) policy.getCellSize() * policy.getNumDataUnits() > MAX_STRIPE_BYTES;
  }

  /** Reads in order what the piece has from the present position on, or the piece that begins there. */
  private int readPiece(ByteBuffer into) throws IOException {
    if (!into.hasRemaining()) {
      return 0;
    }
    long position = getPos();
    if (piece == null || position < pieceStart || position >= pieceStart + piece.limit()) {
      byte[] bytes = piece == null ? new byte[PIECE_BYTES] : piece.array();
      // Its bytes are overwritten, after a failure even later on: HDFS's threads may still be at it.
      piece = null;
      int count = read(position, bytes, 0, bytes.length);
      if (count <= 0) {
        return -1;
      }
      piece = ByteBuffer.wrap(bytes, 0, count);
      pieceStart = position;
    }
    ByteBuffer from = piece.duplicate().position((int) (position - pieceStart));
    from.limit(from.position() + Math.min(into.remaining(), from.remaining()));
    int count = from.remaining();
    into.put(from);
    seek(position + count);
    return count;
  }

  @Override
  public synchronized void unbuffer() {
    piece = null;
    super.unbuffer();
  }

  @Override
  public synchronized int read(byte[] into, int offset, int length) throws IOException {
    if (isWide()) {
      return readPiece(ByteBuffer.wrap(into, offset, length));
    }
    try (StripelineClient.Reading ours = client.reading()) {
      return super.read(into, offset, length);
    }
  }

  @Override
  public synchronized int read(ByteBuffer into) throws IOException {
    if (isWide()) {
      return readPiece(into);
    }
    try (StripelineClient.Reading ours = client.reading()) {
      return super.read(into);
    }
  }

  @Override
  public int read(long position, byte[] into, int offset, int length) throws IOException {
    return readByPosition(position, () -> super.read(position, into, offset, length), () -> { });
  }

  @Override
  public int read(long position, ByteBuffer into) throws IOException {
    int start = into.position();
    int limit = into.limit();
    return readByPosition(position, () -> super.read(position, into), () -> into.limit(limit).position(start));
  }

  /**
   * Where a reader has brought some cells of a member and not the next one, HDFS decodes the member and puts its first bytes, and not
   * those of that cell, into the cell that is missing ({@code StripedBlockUtil.ChunkByteBuffer.copyFrom} goes by what is left to fill).
   * What it returns then is not to be trusted: all of it is read once more, into buffers that are as they were, and without that
   * member: HDFS would ask for it again, and a DataNode whose block has a wrong byte would answer again, as far as to that byte.
   */
  private int readByPosition(long position, Positional read, Runnable rewind) throws IOException {
    // Each time, a group in which a reader broke off has one member less, and HDFS reads none without more than its parities.
    int mostRereads = policy.getNumParityUnits();
    Set<Long> broken = ConcurrentHashMap.newKeySet();
    for (int rereads = 0; rereads <= mostRereads; rereads++) {
      int before = broken.size();
      int count = attempt(broken, read);
      if (broken.size() == before) {
        return count;
      }
      StripelineClient.LOG.info("{} from {} on: readers of blocks {} broke off in the middle", getSrc(), position, broken);
      rewind.run();
    }
    throw new IOException(getSrc() + " from " + position + " on: readers broke off in the middle, however often it was read");
  }

  private int attempt(Set<Long> broken, Positional read) throws IOException {
    brokenOff.set(broken);
    try (StripelineClient.Reading ours = client.reading()) {
      return read.read();
    } finally {
      brokenOff.remove();
    }
  }

  @Override
  boolean createBlockReader(LocatedBlock block, long offsetInBlock, LocatedBlock[] targetBlocks,
      StripeReader.BlockReaderInfo[] readerInfos, int chunkIndex, long readTo) throws IOException {
    // HDFS makes readers in the thread that reads. Those of a read in order are not watched: they fill one cell of a member at a time.
    Set<Long> broken = brokenOff.get();
    long id = block.getBlock().getBlockId();
    if (broken != null && broken.contains(id)
        || !createAnyReader(block, offsetInBlock, targetBlocks, readerInfos, chunkIndex, readTo)) {
      return false;
    }
    if (broken != null) {
      StripeReader.BlockReaderInfo made = readerInfos[chunkIndex];
      readerInfos[chunkIndex] = new StripeReader.BlockReaderInfo(
          new WatchedBlockReader(made.reader, () -> broken.add(id)), made.datanode, made.blockReaderOffset);
    }
    return true;
  }

  /** One of a DataNode, or else of a gateway. */
  private boolean createAnyReader(LocatedBlock block, long offsetInBlock, LocatedBlock[] targetBlocks,
      StripeReader.BlockReaderInfo[] readerInfos, int chunkIndex, long readTo) throws IOException {
    boolean isLost = block.getLocations().length > 0 && StripelineClient.isNobody(block.getLocations()[0]);
    if (!isLost && super.createBlockReader(block, offsetInBlock, targetBlocks, readerInfos, chunkIndex, readTo)) {
      return true;
    }
    if (chunkIndex >= policy.getNumDataUnits() || Time.monotonicNow() < letAloneUntil.get()) {
      return false;
    }
    LocatedBlock group = getBlockAt(block.getStartOffset());
    if (!(group instanceof LocatedStripedBlock striped)) {
      return false;
    }
    long length = StripedBlockUtil.getInternalBlockLength(striped.getBlockSize(), policy, chunkIndex);
    long end = readTo < 0 ? length : Math.min(readTo, length);
    if (offsetInBlock >= end) {
      return false;
    }
    DecodedBlockReader reader = new DecodedBlockReader(this, new DecodedBlockReader.Asking() {
      @Override
      public Request forBytes(long from, long count) {
        return request(striped, chunkIndex, from, count);
      }

      @Override
      public void areCorrupt(Set<Integer> members) {
        report(striped, members);
      }
    }, offsetInBlock, end);
    readerInfos[chunkIndex] = new StripeReader.BlockReaderInfo(reader, StripelineClient.NOBODY, offsetInBlock);
    return true;
  }

  Gateway gateway() {
    return gateway;
  }

  /** Blocks with wrong bytes are told to the NameNode, as HDFS's own stream does. */
  private void report(LocatedStripedBlock striped, Set<Integer> members) {
    if (members.isEmpty()) {
      return;
    }
    DFSUtilClient.CorruptedBlocks corrupted = new DFSUtilClient.CorruptedBlocks();
    DatanodeInfo[] locations = striped.getLocations();
    Set<Integer> told = new HashSet<>();
    for (int i = 0; i < locations.length; i++) {
      int index = striped.getBlockIndices()[i];
      // Of several DataNodes with a member the first one's helper was named.
      if (members.contains(index) && uuid(locations[i]) != null && told.add(index)) {
        corrupted.addCorruptedBlock(StripedBlockUtil.constructInternalBlock(
            striped.getBlock(), policy.getCellSize(), policy.getNumDataUnits(), index), locations[i]);
      }
    }
    StripelineClient.LOG.warn("members {} of {} have wrong bytes: the NameNode is told", members, striped.getBlock());
    reportCheckSumFailure(corrupted, locations.length, true);
  }

  /** A gateway failed: HDFS decodes, and for a while nobody is asked again. */
  void failed(Exception why) {
    letAloneUntil.set(Time.monotonicNow() + LET_ALONE_MS);
    StripelineClient.LOG.warn("{} is decoded as HDFS does it for {} ms: {}", getSrc(), LET_ALONE_MS, why.toString());
  }

  private Request request(LocatedStripedBlock striped, int member, long offset, long length) {
    ExtendedBlock group = striped.getBlock();
    List<Request.Member> living = new ArrayList<>();
    DatanodeInfo[] locations = striped.getLocations();
    for (int i = 0; i < locations.length; i++) {
      int index = striped.getBlockIndices()[i];
      UUID uuid = uuid(locations[i]);
      boolean isNamed = living.stream().anyMatch(named -> named.index() == index);
      if (uuid != null && index != member && !isNamed) {
        Token<BlockTokenIdentifier>[] tokens = striped.getBlockTokens();
        living.add(new Request.Member(index, uuid, locations[i].getNetworkLocation(), i < tokens.length ? tokens[i] : null));
      }
    }
    return new Request(group.getBlockPoolId(), group.getBlockId(), group.getGenerationStamp(), policy.getCodecName(),
        policy.getNumDataUnits(), policy.getNumParityUnits(), policy.getCellSize(), striped.getBlockSize(), offset,
        length, Request.Purpose.READ, gateway.settings().scheme(), List.of(member), living);
  }

  /** Null for one that is none. */
  private static UUID uuid(DatanodeInfo of) {
    try {
      return UUID.fromString(of.getDatanodeUuid());
    } catch (IllegalArgumentException none) {
      return null;
    }
  }
}
