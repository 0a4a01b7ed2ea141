package stripeline.hdfs;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.blockmanagement.PackedRacksPlacement;

/**
 * How blocks of an erasure-coded group lie in racks, by the NameNode's policy for them.
 *
 * @param perRack blocks of a group that a rack may have
 * @param isPacked whether a group takes as few racks as that allows, or as many as there are
 */
public record RackRule(int perRack, boolean isPacked) {

  private static final String EC_PLACEMENT = "dfs.block.placement.ec.classname";

  /** With so many racks. */
  public static RackRule of(Configuration conf, StripeShape shape, int racks) {
    // Where racks are few, blocks have to share them.
    int evenly = (shape.total() - 1) / Math.max(1, racks) + 1;
    boolean isPacked = PackedRacksPlacement.class.getName().equals(conf.getTrimmed(EC_PLACEMENT));
    int allowed = isPacked ? PackedRacksPlacement.blocksPerRack(conf, shape.total()) : 1;
    return new RackRule(Math.max(evenly, allowed), isPacked);
  }
}
