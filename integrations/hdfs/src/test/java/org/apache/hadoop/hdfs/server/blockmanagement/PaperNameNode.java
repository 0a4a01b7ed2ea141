package org.apache.hadoop.hdfs.server.blockmanagement;

import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.AddBlockFlag;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.BlockStoragePolicy;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.SystemErasureCodingPolicies;
import org.apache.hadoop.hdfs.server.namenode.Namesystem;
import org.apache.hadoop.hdfs.server.namenode.ha.ActiveState;
import org.apache.hadoop.hdfs.server.namenode.ha.HAContext;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.apache.hadoop.net.Node;

/** A NameNode's block manager, with DataNodes and groups of RS-6-3 on paper, which counts what is done with its lock. */
final class PaperNameNode {

  static final int MEMBERS = 9;
  private static final int FILE = 1_001;

  /** HDFS's own for groups, which counts; it finds nobody if it is told to. */
  public static final class CountingPlacement extends BlockPlacementPolicyRackFaultTolerant {

    static int placements;
    static boolean isFull;

    @Override
    public DatanodeStorageInfo[] chooseTarget(String path, int count, Node writer, List<DatanodeStorageInfo> chosen, boolean returnsChosen,
        Set<Node> excluded, long bytes, BlockStoragePolicy policy, EnumSet<AddBlockFlag> flags) {
      placements++;
      return isFull ? chosen.toArray(DatanodeStorageInfo[]::new)
          : super.chooseTarget(path, count, writer, chosen, returnsChosen, excluded, bytes, policy, flags);
    }
  }

  private final BlockManager blockManager;
  private final Namesystem namesystem;
  private final List<DatanodeDescriptor> datanodes = new ArrayList<>();
  private int groups;

  /** How often the lock was taken, and the most blocks whose file was asked for while it was held once. */
  private int holds;
  private int looks;
  private int mostLooks;

  PaperNameNode(int machines, int streams) throws IOException {
    Configuration conf = new Configuration();
    conf.setClass(DFSConfigKeys.DFS_BLOCK_PLACEMENT_EC_CLASSNAME_KEY, CountingPlacement.class, BlockPlacementPolicy.class);
    conf.setBoolean(DFSConfigKeys.DFS_NAMENODE_REDUNDANCY_CONSIDERLOAD_KEY, false);
    conf.setInt(DFSConfigKeys.DFS_NAMENODE_REPLICATION_MAX_STREAMS_KEY, streams);
    conf.setInt(DFSConfigKeys.DFS_NAMENODE_REPLICATION_STREAMS_HARD_LIMIT_KEY, streams * 2);
    CountingPlacement.placements = 0;
    CountingPlacement.isFull = false;
    HAContext active = proxy(HAContext.class, (method, arguments) -> method.getName().equals("getState") ? new ActiveState() : null);
    BlockCollection file = proxy(BlockCollection.class, (method, arguments) -> switch (method.getName()) {
      case "getName" -> "/file";
      case "getId" -> (long) FILE;
      case "getStoragePolicyID" -> BlockStoragePolicySuite.createDefaultSuite().getDefaultPolicy().getId();
      case "isStriped" -> true;
      default -> null;
    });
    namesystem = proxy(Namesystem.class, (method, arguments) -> switch (method.getName()) {
      case "isRunning", "hasWriteLock", "hasReadLock" -> true;
      case "getHAContext" -> active;
      case "getBlockCollection" -> {
        looks++;
        mostLooks = Math.max(mostLooks, looks);
        yield file;
      }
      case "writeLock" -> {
        holds++;
        looks = 0;
        yield null;
      }
      default -> null;
    });
    blockManager = new BlockManager(namesystem, false, conf);
    blockManager.setInitializedReplQueues(true);
    for (int machine = 0; machine < machines; machine++) {
      add();
    }
  }

  private interface Call {
    Object of(Method method, Object[] arguments);
  }

  /** What a call gives back; null stands for zero and false. */
  private static <T> T proxy(Class<T> of, Call call) {
    return of.cast(Proxy.newProxyInstance(of.getClassLoader(), new Class<?>[] {of}, (proxy, method, arguments) -> {
      Object value = call.of(method, arguments);
      Class<?> type = method.getReturnType();
      return value != null || !type.isPrimitive() || type == void.class ? value
          : type == boolean.class ? (Object) false : type == long.class ? (Object) 0L : (Object) 0;
    }));
  }

  private void add() {
    String ip = "10.0.0." + (datanodes.size() + 1);
    DatanodeDescriptor node =
        new DatanodeDescriptor(new DatanodeID(ip, ip, UUID.randomUUID().toString(), 1, 2, 3, 4), "/r" + datanodes.size());
    node.updateStorage(new DatanodeStorage(DatanodeStorage.generateUuid(), DatanodeStorage.State.NORMAL, StorageType.DISK));
    node.updateHeartbeatState(Arrays.stream(node.getStorageInfos())
        .map(storage -> new StorageReport(new DatanodeStorage(storage.getStorageID()), false, 1L << 40, 0, 1L << 40, 0, 0))
        .toArray(StorageReport[]::new), 0, 0, 0, 0, null);
    blockManager.getDatanodeManager().addDatanode(node);
    node.setAlive(true);
    datanodes.add(node);
  }

  /** A group whose first member is on this DataNode, and the others on the ones after it. */
  BlockInfoStriped addGroup(int first) {
    long id = -16L * ++groups;
    BlockInfoStriped group = new BlockInfoStriped(new Block(id, 6L << 20, 1), SystemErasureCodingPolicies.getByID((byte) 1));
    BlockCollection file = namesystem.getBlockCollection(FILE);
    blockManager.addBlockCollection(group, file);
    for (int member = 0; member < MEMBERS; member++) {
      datanodes.get((first + member) % datanodes.size()).getStorageInfos()[0].addBlock(group, new Block(id + member, 1L << 20, 1));
    }
    return group;
  }

  /** A monitor that has been told that the first so many leave. */
  AllSourcesMonitor leave(int count) {
    AllSourcesMonitor monitor = new AllSourcesMonitor();
    monitor.setNameSystem(namesystem);
    monitor.setBlockManager(blockManager);
    for (DatanodeDescriptor node : datanodes.subList(0, count)) {
      node.startDecommission();
      monitor.track(node);
    }
    holds = 0;
    mostLooks = 0;
    return monitor;
  }

  BlockManager blockManager() {
    return blockManager;
  }

  List<DatanodeDescriptor> datanodes() {
    return datanodes;
  }

  int holds() {
    return holds;
  }

  int mostLooks() {
    return mostLooks;
  }

  /** How many reconstructions DataNodes have been ordered. */
  int orders() {
    return datanodes.stream().mapToInt(DatanodeDescriptor::getNumberOfBlocksToBeErasureCoded).sum();
  }
}
