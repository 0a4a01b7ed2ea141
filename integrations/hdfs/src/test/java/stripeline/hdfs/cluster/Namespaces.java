package stripeline.hdfs.cluster;

import static stripeline.hdfs.cluster.Links.ip;
import static stripeline.hdfs.cluster.Links.limit;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * A network namespace for each machine, with a link of one rate each way to a bridge. This process must itself be in a namespace of
 * its own, where the bridge is made: {@code unshare --net}. Needs root.
 */
final class Namespaces implements HdfsCluster.Hosts, AutoCloseable {

  private static final String BRIDGE = "sl-hdfs";

  private final String name = "sl-hdfs-" + ProcessHandle.current().pid() + "-";
  private final List<Integer> made = new ArrayList<>();

  Namespaces(int machines, int megabits) throws Exception {
    try {
      ip("link", "set", "lo", "up");
      ip("link", "add", BRIDGE, "type", "bridge");
      ip("addr", "add", address(0) + "/24", "dev", BRIDGE);
      ip("link", "set", BRIDGE, "up");
      for (int machine = 1; machine <= machines; machine++) {
        add(machine, megabits);
      }
    } catch (Exception failed) {
      close();
      throw failed;
    }
  }

  private void add(int machine, int megabits) throws Exception {
    String space = name + machine;
    String outside = "sl" + machine;
    ip("netns", "add", space);
    made.add(machine);
    ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space);
    ip("link", "set", outside, "master", BRIDGE, "up");
    ip("-n", space, "link", "set", "lo", "up");
    ip("-n", space, "link", "set", "eth0", "up");
    ip("-n", space, "addr", "add", address(machine) + "/24", "dev", "eth0");
    limit(List.of("tc", "qdisc", "add", "dev", outside), megabits);
    limit(List.of("tc", "-n", space, "qdisc", "add", "dev", "eth0"), megabits);
  }

  @Override
  public String address(int machine) {
    return "10.77.0." + (machine + 1);
  }

  @Override
  public List<String> at(int machine) {
    return machine == 0 ? List.of() : List.of("ip", "netns", "exec", name + machine);
  }

  /** Bytes that a machine has sent. */
  long sent(int machine) throws IOException, InterruptedException {
    return Links.sent(List.of("ip", "-n", name + machine), "eth0");
  }

  /** The bridge goes with this process's own namespace. */
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
