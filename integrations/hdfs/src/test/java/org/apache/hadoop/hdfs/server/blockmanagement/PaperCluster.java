package org.apache.hadoop.hdfs.server.blockmanagement;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.net.DFSNetworkTopology;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.apache.hadoop.net.Node;

/** Machines on paper for a placement policy, of the NameNode's own classes. */
final class PaperCluster {

  private static final long BLOCK = 1 << 20;

  private final BlockPlacementPolicy policy;
  private final List<DatanodeDescriptor> machines = new ArrayList<>();
  private final DFSNetworkTopology topology;

  /** So many racks of so many machines, which the policy is told of. */
  PaperCluster(BlockPlacementPolicy policy, Configuration conf, int racks, int each) {
    this.policy = policy;
    conf.setBoolean(DFSConfigKeys.DFS_NAMENODE_REDUNDANCY_CONSIDERLOAD_KEY, false);
    topology = DFSNetworkTopology.getInstance(conf);
    FSClusterStats idle = (FSClusterStats) Proxy.newProxyInstance(
        FSClusterStats.class.getClassLoader(), new Class<?>[] {FSClusterStats.class}, (proxy, method, arguments) ->
            method.getReturnType() == boolean.class ? (Object) false
                : method.getReturnType() == int.class ? (Object) 0
                : method.getReturnType() == double.class ? (Object) 0.0 : Map.of());
    policy.initialize(conf, idle, topology, new Host2NodesMap());
    for (int rack = 0; rack < racks; rack++) {
      add(rack, each);
    }
  }

  /** So many more machines in a rack. */
  void add(int rack, int more) {
    for (int machine = 0; machine < more; machine++) {
      String ip = "10.0." + rack + "." + (machines.size() + 1);
      DatanodeDescriptor node =
          new DatanodeDescriptor(new DatanodeID(ip, ip, UUID.randomUUID().toString(), 1, 2, 3, 4), "/r" + rack);
      node.updateStorage(new DatanodeStorage(DatanodeStorage.generateUuid(), DatanodeStorage.State.NORMAL, StorageType.DISK));
      node.updateHeartbeatState(reports(node), 0, 0, 0, 0, null);
      topology.add(node);
      machines.add(node);
    }
  }

  private static StorageReport[] reports(DatanodeDescriptor node) {
    return Arrays.stream(node.getStorageInfos())
        .map(storage -> new StorageReport(new DatanodeStorage(storage.getStorageID()), false, 1L << 40, 0, 1L << 40, 0, 0))
        .toArray(StorageReport[]::new);
  }

  List<DatanodeDescriptor> machines() {
    return machines;
  }

  /** Targets for so many blocks of a group, or replicas of a block, beside those that are chosen. */
  List<DatanodeStorageInfo> choose(String path, int count, List<DatanodeStorageInfo> chosen, Node writer, Set<Node> without) {
    Set<Node> excluded = new HashSet<>(without);
    chosen.forEach(each -> excluded.add(each.getDatanodeDescriptor()));
    return new ArrayList<>(Arrays.asList(policy.chooseTarget(path, count, writer, chosen, false, excluded, BLOCK,
        BlockStoragePolicySuite.createDefaultSuite().getDefaultPolicy(), null)));
  }

  static Map<String, Long> byRack(List<DatanodeStorageInfo> blocks) {
    return blocks.stream().collect(
        Collectors.groupingBy(each -> each.getDatanodeDescriptor().getNetworkLocation(), Collectors.counting()));
  }
}
