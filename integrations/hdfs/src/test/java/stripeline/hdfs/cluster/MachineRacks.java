package stripeline.hdfs.cluster;

import java.util.List;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.net.DNSToSwitchMapping;

/** Machines in racks by their numbers, for the NameNode of a test: all of them share an address, so their names tell. */
public final class MachineRacks extends Configured implements DNSToSwitchMapping {

  /** The key for how many stand in each. */
  static final String PER_RACK = "test.machines.per.rack";

  /** The key for how many racks there are, if machines are dealt out to them in turn. */
  static final String DEALT = "test.racks";

  @Override
  public List<String> resolve(List<String> names) {
    return names.stream().map(this::rack).toList();
  }

  private String rack(String name) {
    if (!name.startsWith(HdfsCluster.NAME)) {
      // A client on no machine of the cluster.
      return "/outside";
    }
    int number = Integer.parseInt(name.substring(HdfsCluster.NAME.length()));
    int racks = getConf().getInt(DEALT, 0);
    return "/r" + (racks > 0 ? number % racks : (number - 1) / getConf().getInt(PER_RACK, 1));
  }

  @Override
  public void reloadCachedMappings() {}

  @Override
  public void reloadCachedMappings(List<String> names) {}
}
