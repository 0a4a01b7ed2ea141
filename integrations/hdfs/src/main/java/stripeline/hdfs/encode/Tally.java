package stripeline.hdfs.encode;

import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;

/**
 * What encodings did, for the operator: counted from who had what, and where it was written, as if each block were sent once. A chain
 * of helpers sends as many partial sums from each to the next as there are parities, which is more where it goes between racks.
 */
final class Tally {

  final LongAdder groups = new LongAdder();
  final LongAdder dataBlocks = new LongAdder();
  final LongAdder parityBlocks = new LongAdder();
  final LongAdder inPlace = new LongAdder();
  final LongAdder betweenMachines = new LongAdder();
  final LongAdder betweenRacks = new LongAdder();
  final LongAdder byHelpers = new LongAdder();
  final LongAdder byCoder = new LongAdder();
  final LongAdder sourcesElsewhere = new LongAdder();

  /** Bytes went from one to another; null is the encoder's own machine. */
  void sent(DatanodeInfo from, DatanodeInfo to, long bytes) {
    if (from == null || to == null || !from.getDatanodeUuid().equals(to.getDatanodeUuid())) {
      betweenMachines.add(bytes);
    }
    if (from == null || to == null || !from.getNetworkLocation().equals(to.getNetworkLocation())) {
      betweenRacks.add(bytes);
    }
  }

  /** A line for people. */
  String line() {
    return groups + " groups, " + dataBlocks + " data blocks, of which " + inPlace + " stayed on their machine, "
        + parityBlocks + " parities; parities of " + byHelpers + " groups by helpers, of " + byCoder + " by HDFS's coder; "
        + sourcesElsewhere + " data blocks were read in another rack for them; at least "
        + betweenMachines + " bytes between machines, " + betweenRacks + " between racks";
  }
}
