package stripeline.hdfs.cluster;

import static stripeline.hdfs.cluster.Links.ip;
import static stripeline.hdfs.cluster.Links.limit;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * A network namespace for each machine, a bridge for each rack, and one between racks. Links of machines and of racks have a rate
 * each way, and those of racks count. This process must itself be in a namespace of its own: {@code unshare --net}. Needs root.
 *
 * <pre>
 *   machine ── rack's bridge ── machine
 *                    │ uplink
 *              core bridge ── NameNode, coordinator, this process
 * </pre>
 */
final class RackHosts implements HdfsCluster.Hosts, AutoCloseable {

  private static final String CORE = "sl-core";

  private final String name = "sl-rack-" + ProcessHandle.current().pid() + "-";
  private final int racks;
  private final int each;
  private final List<Integer> made = new ArrayList<>();

  RackHosts(int racks, int each, int machineMegabits, int rackMegabits) throws Exception {
    this.racks = racks;
    this.each = each;
    try {
      ip("link", "set", "lo", "up");
      ip("link", "add", CORE, "type", "bridge");
      ip("addr", "add", address(0) + "/24", "dev", CORE);
      ip("link", "set", CORE, "up");
      for (int rack = 0; rack < racks; rack++) {
        ip("link", "add", "rack" + rack, "type", "bridge");
        ip("link", "set", "rack" + rack, "up");
        ip("link", "add", "up" + rack, "type", "veth", "peer", "name", "down" + rack);
        ip("link", "set", "up" + rack, "master", "rack" + rack, "up");
        ip("link", "set", "down" + rack, "master", CORE, "up");
        limit(List.of("tc", "qdisc", "add", "dev", "up" + rack), rackMegabits);
        limit(List.of("tc", "qdisc", "add", "dev", "down" + rack), rackMegabits);
        for (int machine = rack * each + 1; machine <= (rack + 1) * each; machine++) {
          add(machine, rack, machineMegabits);
        }
      }
    } catch (Exception failed) {
      close();
      throw failed;
    }
  }

  private void add(int machine, int rack, int megabits) throws Exception {
    String space = name + machine;
    String outside = "sl" + machine;
    ip("netns", "add", space);
    made.add(machine);
    ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space);
    ip("link", "set", outside, "master", "rack" + rack, "up");
    ip("-n", space, "link", "set", "lo", "up");
    ip("-n", space, "link", "set", "eth0", "up");
    ip("-n", space, "addr", "add", address(machine) + "/24", "dev", "eth0");
    limit(List.of("tc", "qdisc", "add", "dev", outside), megabits);
    limit(List.of("tc", "-n", space, "qdisc", "add", "dev", "eth0"), megabits);
  }

  /** Machines of all racks. */
  int machines() {
    return racks * each;
  }

  /** Bytes that racks have sent to others, packets' heads too. */
  long betweenRacks() throws Exception {
    long sum = 0;
    for (int rack = 0; rack < racks; rack++) {
      sum += Links.sent(List.of("ip"), "up" + rack);
    }
    return sum;
  }

  @Override
  public String address(int machine) {
    return "10.78.0." + (machine + 1);
  }

  @Override
  public List<String> at(int machine) {
    return machine == 0 ? List.of() : List.of("ip", "netns", "exec", name + machine);
  }

  /** Bridges go with this process's own namespace. */
  @Override
  public void close() throws IOException {
    for (int machine : made) {
      try {
        ip("netns", "del", name + machine);
      } catch (Exception left) {
        System.err.println(left.getMessage());
      }
    }
    made.clear();
  }
}
