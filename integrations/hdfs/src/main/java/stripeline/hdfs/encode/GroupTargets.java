package stripeline.hdfs.encode;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/**
 * Which DataNode that the NameNode has given to a group takes which of its members. HDFS's own policies give the DataNodes that were
 * asked for, and in an order of their own; a member's token is good at each of them, so they are dealt out here.
 */
final class GroupTargets {

  private final LocatedStripedBlock group;

  /** Where each member goes: a place in the group's locations. */
  private final Map<Integer, Integer> places = new HashMap<>();
  private final Map<Integer, Integer> tokens = new HashMap<>();

  GroupTargets(LocatedStripedBlock group, ErasureCodingPolicy policy, GroupLayout layout) throws NotEncodedException {
    this.group = group;
    Map<String, Integer> free = new HashMap<>();
    for (int place = 0; place < group.getLocations().length; place++) {
      free.put(group.getLocations()[place].getDatanodeUuid(), place);
      tokens.put((int) group.getBlockIndices()[place], place);
    }
    List<Integer> without = new ArrayList<>();
    for (int i = 0; i < layout.all().size(); i++) {
      int member = i < layout.data().size() ? i : policy.getNumDataUnits() + i - layout.data().size();
      Integer place = free.remove(layout.all().get(i).getDatanodeUuid());
      if (place != null) {
        places.put(member, place);
      } else {
        without.add(member);
      }
    }
    // The NameNode found some of those that were asked for too full, too busy, or gone.
    for (int member : without) {
      if (free.isEmpty()) {
        throw new NotEncodedException(Reason.MACHINES, "the NameNode gives a group " + group.getLocations().length + " DataNodes");
      }
      String other = free.keySet().iterator().next();
      places.put(member, free.remove(other));
    }
    for (int member : places.keySet()) {
      if (!tokens.containsKey(member)) {
        throw new NotEncodedException(Reason.MACHINES, "the NameNode gives a group " + group.getLocations().length + " DataNodes");
      }
    }
  }

  /** A member of the group, with so many bytes, at its DataNode. */
  LocatedBlock member(int member, long bytes) {
    int place = places.get(member);
    ExtendedBlock id = group.getBlock();
    ExtendedBlock block =
        new ExtendedBlock(id.getBlockPoolId(), id.getBlockId() + member, bytes, id.getGenerationStamp());
    LocatedBlock target = new LocatedBlock(block, new DatanodeInfo[] {group.getLocations()[place]},
        new String[] {group.getStorageIDs()[place]}, new StorageType[] {group.getStorageTypes()[place]});
    target.setBlockToken(group.getBlockTokens()[tokens.get(member)]);
    return target;
  }
}
