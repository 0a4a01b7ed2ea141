package org.apache.hadoop.hdfs;

import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo.DatanodeInfoBuilder;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.util.StripedBlockUtil;
import org.apache.hadoop.security.token.Token;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.Gateway;
import stripeline.hdfs.Settings;

/** HDFS's client, but for how erasure-coded files are opened. */
class StripelineClient extends DFSClient {

  static final Logger LOG = LoggerFactory.getLogger(StripelineClient.class);

  /**
   * In the place of the DataNode of a lost member. HDFS's streams do not ask for a reader of a member that no DataNode has, so one
   * is named that is none, to streams that know it and to nobody else.
   */
  static final DatanodeInfo NOBODY = new DatanodeInfoBuilder()
      .setNodeID(new DatanodeID("0.0.0.0", "nobody", "stripeline-nobody", 0, 0, 0, 0)).build();

  private static final String NO_STORAGE = "stripeline-nobody";

  static boolean isNobody(DatanodeInfo datanode) {
    return NOBODY.getDatanodeUuid().equals(datanode.getDatanodeUuid());
  }

  private final Gateway gateway;

  /** How deep this thread is in reads of our streams. */
  private final ThreadLocal<int[]> reading = ThreadLocal.withInitial(() -> new int[1]);

  StripelineClient(URI uri, Configuration conf, FileSystem.Statistics statistics) throws IOException {
    super(uri, conf, statistics);
    gateway = new Gateway(Settings.of(conf));
  }

  @Override
  public DFSInputStream open(String src, int bufferSize, boolean verifyChecksum) throws IOException {
    checkOpen();
    try (Reading ours = reading()) {
      LocatedBlocks blocks = getLocatedBlocks(src, 0);
      if (blocks == null) {
        throw new IOException("Cannot open filename " + src);
      }
      ErasureCodingPolicy policy = blocks.getErasureCodingPolicy();
      // As HDFS's own client makes them of the same answer: the NameNode is not asked twice.
      return policy == null
          ? new DFSInputStream(this, src, verifyChecksum, blocks)
          : new StripelineInputStream(this, src, verifyChecksum, policy, blocks, gateway);
    }
  }

  /** While it is open this thread sees {@link #NOBODY}. */
  Reading reading() {
    reading.get()[0]++;
    return () -> reading.get()[0]--;
  }

  interface Reading extends AutoCloseable {
    @Override
    void close();
  }

  @Override
  public LocatedBlocks getLocatedBlocks(String src, long start, long length) throws IOException {
    LocatedBlocks blocks = super.getLocatedBlocks(src, start, length);
    ErasureCodingPolicy policy = blocks == null ? null : blocks.getErasureCodingPolicy();
    if (reading.get()[0] == 0 || policy == null || blocks.isUnderConstruction()) {
      return blocks;
    }
    List<LocatedBlock> groups = new ArrayList<>();
    for (LocatedBlock block : blocks.getLocatedBlocks()) {
      groups.add(block instanceof LocatedStripedBlock group ? withNobody(group, policy) : block);
    }
    return new LocatedBlocks(blocks.getFileLength(), false, groups, blocks.getLastLocatedBlock(),
        blocks.isLastBlockComplete(), blocks.getFileEncryptionInfo(), policy);
  }

  /** The group with somebody for each data member that has bytes and no DataNode. */
  private static LocatedStripedBlock withNobody(LocatedStripedBlock group, ErasureCodingPolicy policy) {
    BitSet there = new BitSet();
    for (byte index : group.getBlockIndices()) {
      there.set(index);
    }
    int[] lost = java.util.stream.IntStream.range(0, policy.getNumDataUnits())
        .filter(i -> !there.get(i) && StripedBlockUtil.getInternalBlockLength(group.getBlockSize(), policy, i) > 0)
        .toArray();
    if (lost.length == 0 || group.isCorrupt()) {
      return group;
    }
    int known = group.getLocations().length;
    int all = known + lost.length;
    DatanodeInfo[] locations = Arrays.copyOf(group.getLocations(), all, DatanodeInfo[].class);
    String[] storages = Arrays.copyOf(group.getStorageIDs(), all);
    StorageType[] types = Arrays.copyOf(group.getStorageTypes(), all);
    byte[] indices = Arrays.copyOf(group.getBlockIndices(), all);
    Token<BlockTokenIdentifier>[] tokens = Arrays.copyOf(group.getBlockTokens(), all);
    for (int i = 0; i < lost.length; i++) {
      locations[known + i] = NOBODY;
      storages[known + i] = NO_STORAGE;
      types[known + i] = StorageType.DEFAULT;
      indices[known + i] = (byte) lost[i];
      tokens[known + i] = new Token<>();
    }
    LocatedStripedBlock with = new LocatedStripedBlock(
        group.getBlock(), locations, storages, types, indices, group.getStartOffset(), false, null);
    with.setBlockToken(group.getBlockToken());
    with.setBlockTokens(tokens);
    return with;
  }
}
