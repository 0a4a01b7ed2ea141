package stripeline.hdfs;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Which replica of each block of a stripe can stay when the stripe is encoded: one of each block, no two on a node, and no more
 * than so many in a rack. It is the maximum flow of encoding-aware replication (section 3.2), which grows by a path for each block.
 *
 * <pre>
 *   source ──1──▶ block ──1──▶ node that has a replica ──1──▶ its rack ──c──▶ sink
 * </pre>
 */
public final class KeptReplicas {

  /** Where a replica is. */
  public record Place(String node, String rack) {}

  private final int perRack;
  private final List<List<Place>> replicas = new ArrayList<>();
  private final Map<Integer, Place> kept = new HashMap<>();
  private final Map<String, Integer> blockOnNode = new HashMap<>();
  private final Map<String, Integer> inRack = new HashMap<>();

  /** With no more than so many blocks of the stripe in a rack. */
  public KeptReplicas(int perRack) {
    this.perRack = perRack;
  }

  /** The next block, with these replicas; false, and nothing has changed, if none of them could stay beside those of the others. */
  public boolean add(List<Place> places) {
    replicas.add(places);
    if (augment(replicas.size() - 1, new HashSet<>(), new HashSet<>())) {
      return true;
    }
    replicas.remove(replicas.size() - 1);
    return false;
  }

  /** Blocks that were added. */
  public int size() {
    return replicas.size();
  }

  /** The replicas of a block, as they were added. */
  public List<Place> replicas(int block) {
    return replicas.get(block);
  }

  /** The replica of a block that can stay. It may be another one when further blocks were added. */
  public Place kept(int block) {
    return kept.get(block);
  }

  /** How many stay in a rack. */
  public int keptIn(String rack) {
    return inRack.getOrDefault(rack, 0);
  }

  /** Looks for a replica that can stay, while others move to another of theirs; nothing has changed if there is none. */
  private boolean augment(int block, Set<String> nodes, Set<String> racks) {
    for (Place place : replicas.get(block)) {
      if (!nodes.add(place.node())) {
        continue;
      }
      Integer other = blockOnNode.get(place.node());
      boolean isFree = other == null ? hasRoom(place.rack(), nodes, racks) : augment(other, nodes, racks);
      if (isFree) {
        keep(block, place);
        return true;
      }
    }
    return false;
  }

  private boolean hasRoom(String rack, Set<String> nodes, Set<String> racks) {
    if (keptIn(rack) < perRack) {
      return true;
    }
    if (!racks.add(rack)) {
      return false;
    }
    List<Integer> there = kept.keySet().stream().filter(block -> kept.get(block).rack().equals(rack)).toList();
    return there.stream().anyMatch(block -> nodes.add(kept.get(block).node()) && augment(block, nodes, racks));
  }

  private void keep(int block, Place place) {
    Place before = kept.put(block, place);
    if (before != null) {
      blockOnNode.remove(before.node(), block);
      inRack.merge(before.rack(), -1, Integer::sum);
    }
    blockOnNode.put(place.node(), block);
    inRack.merge(place.rack(), 1, Integer::sum);
  }
}
