package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.AddBlockFlag;
import org.apache.hadoop.hdfs.protocol.BlockStoragePolicy;
import org.apache.hadoop.net.NetworkTopology;
import org.apache.hadoop.net.Node;
import org.apache.hadoop.util.Time;
import stripeline.hdfs.KeptReplicas;
import stripeline.hdfs.RackRule;
import stripeline.hdfs.StripeShape;

/**
 * Replicas of files that will be encoded, placed so that the encoding reads within a rack and moves no data block: encoding-aware
 * replication, section 3. Every k blocks of a file are a stripe-to-be. Each of them has a replica in the stripe's core rack, and one
 * of each can stay where it is when the stripe is encoded, one on a node and no more than so many in a rack.
 *
 * <pre>
 *   k = 3, c = 1      rack a (core)   rack b   rack c   rack d
 *     block 0             0*            0 0                         * stays, when the stripe is encoded
 *     block 1             1             1 1*              refused: both b and a are taken then, so another rack is drawn
 *     block 1             1                     1* 1
 *     block 2             2                               2 2*      parities go where no other block of the stripe is
 * </pre>
 *
 * <p>Layouts are drawn by HDFS's own policy, as if the writer stood in the core rack, until the maximum flow has grown by the block.
 * Files elsewhere, and blocks that are copied because a replica was lost, are HDFS's own policy's.
 */
public class EncodingAwarePlacement extends BlockPlacementPolicyDefault {

  /** The key for the folders whose files will be encoded, with commas between them. */
  public static final String PATHS = "stripeline.ear.paths";

  /** The key for the erasure coding policy that they will have. */
  public static final String POLICY = "stripeline.ear.policy";

  /** Layouts that are drawn for a block at most: half of them fit even where a stripe takes all racks but one. */
  static final int MAX_LAYOUTS = 32;

  private List<String> paths = List.of();
  private OpenStripes open;

  @Override
  public void initialize(
      Configuration conf, FSClusterStats stats, NetworkTopology clusterMap, Host2NodesMap host2datanodeMap) {
    super.initialize(conf, stats, clusterMap, host2datanodeMap);
    paths = Arrays.stream(conf.getTrimmedStrings(PATHS)).map(EncodingAwarePlacement::folder).toList();
    String policy = conf.getTrimmed(POLICY, "");
    if (paths.isEmpty()) {
      LOG.warn("{} names no folder: all replicas lie as HDFS has them", PATHS);
      return;
    }
    StripeShape shape = StripeShape.ofPolicy(policy).orElseThrow(() -> new IllegalArgumentException(
        POLICY + " is \"" + policy + "\", and no name of an erasure coding policy, such as RS-6-3-131072k"));
    open = new OpenStripes(shape.dataBlocks(), () -> RackRule.of(conf, shape, clusterMap.getNumOfNonEmptyRacks()).perRack(),
        OpenStripes.MAX_FILES, Time::monotonicNow);
  }

  private static String folder(String path) {
    if (!path.startsWith("/")) {
      throw new IllegalArgumentException(PATHS + ": " + path + " does not begin with /");
    }
    return path.endsWith("/") ? path : path + "/";
  }

  @Override
  public DatanodeStorageInfo[] chooseTarget(
      String path, int count, Node writer, List<DatanodeStorageInfo> chosen, boolean returnChosen, Set<Node> excluded,
      long blocksize, BlockStoragePolicy storagePolicy, EnumSet<AddBlockFlag> flags) {
    Layouts layouts = near -> super.chooseTarget(path, count, near, new ArrayList<>(chosen), returnChosen,
        excluded == null ? new HashSet<>() : new HashSet<>(excluded), blocksize, storagePolicy, flags);
    if (!chosen.isEmpty() || path == null || paths.stream().noneMatch(path::startsWith)) {
      return layouts.draw(writer);
    }
    Set<Node> without = excluded == null ? Set.of() : excluded;
    OpenStripes.Stripe stripe = open.of(path);
    // Whoever writes a file asks for one block after another.
    synchronized (stripe) {
      if (stripe.isLast(node -> without.stream().anyMatch(each -> each.getName().equals(node)))) {
        stripe.forgetLast();
      }
      stripe.next();
      return choose(path, count, writer, without, stripe, layouts);
    }
  }

  /** Draws a layout as HDFS's own policy does, for a writer there. */
  private interface Layouts {
    DatanodeStorageInfo[] draw(Node writer);
  }

  private DatanodeStorageInfo[] choose(
      String path, int count, Node writer, Set<Node> excluded, OpenStripes.Stripe stripe, Layouts layouts) {
    for (int layout = 0; layout < MAX_LAYOUTS; layout++) {
      Node near = inCoreRack(stripe.coreRack(), writer, excluded);
      if (near == null && stripe.coreRack() != null) {
        break;
      }
      DatanodeStorageInfo[] targets = layouts.draw(near);
      List<KeptReplicas.Place> places = places(targets);
      boolean isInCoreRack =
          stripe.coreRack() == null || places.stream().anyMatch(place -> place.rack().equals(stripe.coreRack()));
      if (targets.length >= count && isInCoreRack && stripe.take(places)) {
        return targets;
      }
    }
    DatanodeStorageInfo[] targets = layouts.draw(writer);
    stripe.takeAsItIs(places(targets));
    LOG.info("a block of {} lies as HDFS has it: no layout was found that can stay when it is encoded", path);
    return targets;
  }

  /** A machine for the first replica: the writer's, if it is there. Null if there is none, or no core rack yet and no writer. */
  private Node inCoreRack(String coreRack, Node writer, Set<Node> excluded) {
    if (coreRack == null || writer != null && coreRack.equals(writer.getNetworkLocation()) && clusterMap.contains(writer)) {
      return writer;
    }
    return clusterMap.chooseRandom(coreRack, excluded);
  }

  private static List<KeptReplicas.Place> places(DatanodeStorageInfo[] targets) {
    return Arrays.stream(targets).map(DatanodeStorageInfo::getDatanodeDescriptor)
        .map(node -> new KeptReplicas.Place(node.getName(), node.getNetworkLocation())).toList();
  }

  /** Files of which something is remembered. */
  int openFiles() {
    return open == null ? 0 : open.size();
  }
}
