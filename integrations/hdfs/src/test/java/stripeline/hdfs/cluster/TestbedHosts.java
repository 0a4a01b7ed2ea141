package stripeline.hdfs.cluster;

import java.util.List;

/**
 * Hosts of a testbed of {@code crates/lab}, which made it; this process is on the first. They are dealt out to racks in turn.
 *
 * @param prefix what namespaces are called, without their numbers
 * @param racks how many there are; 1 where all hosts are on one switch
 */
record TestbedHosts(String prefix, int racks) implements HdfsCluster.Hosts {

  @Override
  public String address(int machine) {
    return "10.77." + machine % racks + "." + (machine + 1);
  }

  @Override
  public List<String> at(int machine) {
    return machine == 0 ? List.of() : List.of("ip", "netns", "exec", prefix + machine);
  }
}
