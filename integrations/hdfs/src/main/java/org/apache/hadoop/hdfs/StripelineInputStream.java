package org.apache.hadoop.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
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

  /** What this thread reads by position, if it does. */
  private final ThreadLocal<Attempt> attempts = new ThreadLocal<>();

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

  /** A read by position. */
  private static final class Attempt {

    private final boolean asksGateways;

    /** Some bytes of a lost member came, and the others did not; HDFS's threads say so. */
    private volatile boolean isBrokenOff;

    private Attempt(boolean asksGateways) {
      this.asksGateways = asksGateways;
    }
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
   * What it returns then is not to be trusted: all of it is read once more without gateways, into buffers that are as they were.
   */
  private int readByPosition(long position, Positional read, Runnable rewind) throws IOException {
    Attempt first = new Attempt(true);
    int count = attempt(first, read);
    if (!first.isBrokenOff) {
      return count;
    }
    StripelineClient.LOG.info("{} is read from {} on once more: a gateway broke off in the middle", getSrc(), position);
    rewind.run();
    return attempt(new Attempt(false), read);
  }

  private int attempt(Attempt attempt, Positional read) throws IOException {
    attempts.set(attempt);
    try (StripelineClient.Reading ours = client.reading()) {
      return read.read();
    } finally {
      attempts.remove();
    }
  }

  @Override
  boolean createBlockReader(LocatedBlock block, long offsetInBlock, LocatedBlock[] targetBlocks,
      StripeReader.BlockReaderInfo[] readerInfos, int chunkIndex, long readTo) throws IOException {
    boolean isLost = block.getLocations().length > 0 && StripelineClient.isNobody(block.getLocations()[0]);
    if (!isLost && super.createBlockReader(block, offsetInBlock, targetBlocks, readerInfos, chunkIndex, readTo)) {
      return true;
    }
    // HDFS makes readers in the thread that reads.
    Attempt attempt = attempts.get();
    boolean isAsked = attempt == null || attempt.asksGateways;
    if (!isAsked || chunkIndex >= policy.getNumDataUnits() || Time.monotonicNow() < letAloneUntil.get()) {
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

      @Override
      public void brokeOff() {
        if (attempt != null) {
          attempt.isBrokenOff = true;
        }
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
