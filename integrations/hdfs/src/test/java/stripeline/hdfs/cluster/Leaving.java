package stripeline.hdfs.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;

/** A machine that is decommissioned, and what it has of a file. The cluster has the settings that are given here. */
final class Leaving {

  private static final Duration PATIENCE = Duration.ofMinutes(5);

  private final HdfsCluster cluster;
  private final Path exclude;
  private final HdfsCluster.Machine machine;
  private final DatanodeInfo datanode;
  private final List<Stored> stored = new ArrayList<>();

  /** A block of a group, in its file. */
  private record Stored(LocatedStripedBlock group, int member, Path file) {}

  /** A machine that has the first block of a file. */
  Leaving(HdfsCluster cluster, Path exclude, String file) throws IOException {
    this.cluster = cluster;
    this.exclude = exclude;
    List<LocatedStripedBlock> groups = cluster.groups(file);
    datanode = groups.get(0).getLocations()[0];
    machine = cluster.machineOf(datanode);
    for (LocatedStripedBlock group : groups) {
      for (int member = 0; member < group.getLocations().length; member++) {
        Path here = cluster.filesOf(group, member).get(machine.number());
        if (here != null) {
          stored.add(new Stored(group, member, here));
        }
      }
    }
  }

  /** A NameNode that has no DataNodes excluded yet, and looks each second whether one has left, where it is shipped with 30. */
  static Map<String, String> settings(Path exclude) throws IOException {
    Files.createDirectories(exclude.getParent());
    Files.writeString(exclude, "");
    return Map.of("dfs.hosts.exclude", exclude.toString(), "dfs.namenode.decommission.interval", "1s");
  }

  int machine() {
    return machine.number();
  }

  int blocks() {
    return stored.size();
  }

  /** As an operator orders it. */
  void start() throws IOException {
    Files.writeString(exclude, datanode.getXferAddr() + "\n");
    cluster.fileSystem().refreshNodes();
  }

  /** Waits until the NameNode says that it has left. */
  void await() throws Exception {
    cluster.await("decommissioning", PATIENCE, () -> Arrays
        .stream(cluster.fileSystem().getDataNodeStats(DatanodeReportType.ALL))
        .anyMatch(each -> each.getDatanodeUuid().equals(machine.uuid()) && each.isDecommissioned()));
  }

  /** Every block that it has is on another machine as well, the same byte for byte. */
  void check() throws IOException {
    for (Stored each : stored) {
      Map<Integer, byte[]> copies = cluster.copiesOf(each.group(), each.member());
      byte[] here = copies.remove(machine.number());
      if (here == null) {
        throw new IOException(each.file() + " is gone, and what it held cannot be compared");
      }
      if (copies.isEmpty()) {
        throw new IOException(each.file() + " is nowhere else");
      }
      for (Map.Entry<Integer, byte[]> copy : copies.entrySet()) {
        if (!Arrays.equals(here, copy.getValue())) {
          throw new IOException("what machine " + copy.getKey() + " has is not " + each.file());
        }
      }
    }
  }
}
