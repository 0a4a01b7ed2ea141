package stripeline.hdfs.encode;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import stripeline.hdfs.KeptReplicas;
import stripeline.hdfs.RackRule;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/**
 * Where the blocks of a group go: data blocks where a replica of each is, parities where a rack has room. The replicas that stay
 * are those of the maximum flow (encoding-aware replication, section 3.2); a block that the flow has no room for is moved.
 *
 * @param data a DataNode for each data block
 * @param parities a DataNode for each parity
 * @param core the rack that has a replica of most of the blocks
 * @param requestor who makes the parities: one of their DataNodes in the core rack, or one there that has a data block
 * @param moved data blocks that go where no replica of them is
 */
record GroupLayout(List<DatanodeInfo> data, List<DatanodeInfo> parities, String core, DatanodeInfo requestor, int moved) {

  /**
   * Chooses.
   *
   * @param living the DataNodes that take blocks
   * @param racks how many of the group a rack may have
   */
  static GroupLayout of(List<LocatedBlock> blocks, int parityBlocks, List<DatanodeInfo> living, RackRule racks, Random random)
      throws NotEncodedException {
    int perRack = racks.perRack();
    Map<String, DatanodeInfo> byUuid = new HashMap<>();
    living.forEach(each -> byUuid.put(each.getDatanodeUuid(), each));
    KeptReplicas kept = new KeptReplicas(perRack);
    int[] place = new int[blocks.size()];
    for (int i = 0; i < place.length; i++) {
      List<KeptReplicas.Place> replicas = new ArrayList<>();
      for (DatanodeInfo at : blocks.get(i).getLocations()) {
        if (byUuid.containsKey(at.getDatanodeUuid())) {
          replicas.add(new KeptReplicas.Place(at.getDatanodeUuid(), at.getNetworkLocation()));
        }
      }
      place[i] = kept.add(replicas) ? kept.size() - 1 : -1;
    }
    Set<String> taken = new HashSet<>();
    Map<String, Integer> inRack = new HashMap<>();
    List<DatanodeInfo> data = new ArrayList<>();
    for (int at : place) {
      DatanodeInfo node = at < 0 ? null : byUuid.get(kept.kept(at).node());
      data.add(node);
      if (node != null) {
        taken.add(node.getDatanodeUuid());
        inRack.merge(node.getNetworkLocation(), 1, Integer::sum);
      }
    }
    Room room = new Room(living, taken, inRack, racks, blocks.get(0).getBlockSize(), random);
    int moved = Collections.frequency(data, null);
    data.replaceAll(node -> node == null ? room.next() : node);
    List<DatanodeInfo> parities = new ArrayList<>();
    for (int i = 0; i < parityBlocks; i++) {
      parities.add(room.next());
    }
    if (data.contains(null) || parities.contains(null)) {
      throw new NotEncodedException(Reason.MACHINES, "a group of " + (data.size() + parityBlocks) + " blocks, no more than "
          + perRack + " in a rack, finds too few DataNodes with room: " + living.size() + " live");
    }
    String core = core(blocks);
    return new GroupLayout(
        List.copyOf(data), List.copyOf(parities), core, requestor(blocks, data, parities, core, byUuid), moved);
  }

  /** All of them, data blocks first. */
  List<DatanodeInfo> all() {
    List<DatanodeInfo> all = new ArrayList<>(data);
    all.addAll(parities);
    return all;
  }

  /** The rack with a replica of most blocks. */
  private static String core(List<LocatedBlock> blocks) {
    Map<String, Integer> counts = new HashMap<>();
    for (LocatedBlock block : blocks) {
      Arrays.stream(block.getLocations()).map(DatanodeInfo::getNetworkLocation).distinct()
          .forEach(rack -> counts.merge(rack, 1, Integer::sum));
    }
    return Collections.max(counts.entrySet(), Map.Entry.comparingByValue()).getKey();
  }

  /** DataNodes for further blocks. */
  private record Room(
      List<DatanodeInfo> living, Set<String> taken, Map<String, Integer> inRack, RackRule racks, long bytes, Random random) {

    /** One in a rack that may have more, of these in the fullest if groups are packed, or in the emptiest. Null if there is none. */
    DatanodeInfo next() {
      List<DatanodeInfo> drawn = new ArrayList<>(living);
      Collections.shuffle(drawn, random);
      DatanodeInfo next = drawn.stream()
          .filter(each -> !taken.contains(each.getDatanodeUuid()) && each.getRemaining() >= bytes
              && count(each) < racks.perRack())
          .max(Comparator.comparingInt(each -> racks.isPacked() ? count(each) : -count(each))).orElse(null);
      if (next != null) {
        taken.add(next.getDatanodeUuid());
        inRack.merge(next.getNetworkLocation(), 1, Integer::sum);
      }
      return next;
    }

    private int count(DatanodeInfo each) {
      return inRack.getOrDefault(each.getNetworkLocation(), 0);
    }
  }

  /** The replicas of a block, those in the core rack first, and before them that on this DataNode. */
  DatanodeInfo[] inOrder(LocatedBlock block, DatanodeInfo first) {
    DatanodeInfo[] all = block.getLocations().clone();
    Arrays.sort(all, Comparator.comparingInt(each -> each.getDatanodeUuid().equals(first.getDatanodeUuid()) ? 0
        : each.getNetworkLocation().equals(core) ? 1 : 2));
    return all;
  }

  private static DatanodeInfo requestor(List<LocatedBlock> blocks, List<DatanodeInfo> data, List<DatanodeInfo> parities,
      String core, Map<String, DatanodeInfo> living) {
    for (DatanodeInfo parity : parities) {
      if (parity.getNetworkLocation().equals(core)) {
        return parity;
      }
    }
    for (LocatedBlock block : blocks) {
      for (DatanodeInfo at : block.getLocations()) {
        if (at.getNetworkLocation().equals(core) && living.containsKey(at.getDatanodeUuid())) {
          return living.get(at.getDatanodeUuid());
        }
      }
    }
    return data.get(0);
  }
}
