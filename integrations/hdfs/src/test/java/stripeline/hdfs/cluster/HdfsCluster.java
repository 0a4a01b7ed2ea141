package stripeline.hdfs.cluster;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.tools.DFSck;
import org.apache.hadoop.util.ToolRunner;

/** Unmodified HDFS on the loopback, each daemon a process of its own, and Stripeline's beside it. */
final class HdfsCluster implements AutoCloseable {

  /** What machines are called, with their numbers behind it. */
  static final String NAME = "machine-";

  /** Whatever is waited for otherwise. */
  private static final Duration PATIENCE = Duration.ofSeconds(90);

  private static final String NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode";
  private static final String DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode";

  private final Path folder;
  private final Path stripeline;
  private final Daemons daemons;
  private final String classPath;
  private final int nameNodePort;
  private final int nameNodeHttpPort;
  private final Map<Integer, Machine> machines = new TreeMap<>();
  private String coordinatorAddress;
  private Daemons.Daemon coordinator;
  private String lastTrouble = "";
  private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final Map<String, String> settings;
  private final List<String> helperOptions;
  private final Hosts hosts;

  /** A DataNode and the helper beside it. */
  record Machine(int number, Daemons.Daemon datanode, Daemons.Daemon helper, String uuid, int httpPort, int gatewayPort) {}

  /**
   * Starts all of it.
   *
   * @param stripeline the program
   * @param settings further ones for {@code hdfs-site.xml}
   * @param helperOptions further ones of helpers
   * @param hosts where machines stand; 0 is that of the NameNode, the coordinator, and this process
   */
  HdfsCluster(Path folder, Path stripeline, int datanodes, Map<String, String> settings, List<String> helperOptions,
      Hosts hosts) throws Exception {
    this.folder = folder;
    this.stripeline = stripeline;
    this.settings = Map.copyOf(settings);
    this.helperOptions = List.copyOf(helperOptions);
    this.hosts = hosts;
    daemons = new Daemons(folder.resolve("logs"));
    try {
      nameNodePort = daemons.freePort();
      nameNodeHttpPort = daemons.freePort();
      // The jars have no web applications, and the daemons look for their folders.
      Path web = folder.resolve("web");
      Files.createDirectories(web.resolve("webapps/hdfs"));
      Files.createDirectories(web.resolve("webapps/datanode"));
      classPath = web + File.pathSeparator + System.getProperty("java.class.path");
      startNameNode();
      startCoordinator();
      for (int number = 1; number <= datanodes; number++) {
        start(number, Map.of());
      }
      for (int number = 1; number <= datanodes; number++) {
        awaitHelper(number);
      }
      await("all DataNodes", () -> fileSystem().getDataNodeStats().length == datanodes);
    } catch (Exception failed) {
      close();
      throw failed;
    }
  }

  /** Where the machines are. */
  interface Hosts {

    /** All of them this one. */
    Hosts LOOPBACK = new Hosts() { };

    /** A machine's address. */
    default String address(int machine) {
      return "127.0.0.1";
    }

    /** What a command has before it to run there. */
    default List<String> at(int machine) {
      return List.of();
    }
  }

  private void startNameNode() throws Exception {
    Map<String, String> own = new HashMap<>(Map.of(
        "dfs.namenode.name.dir", folder.resolve("nn/name").toUri().toString(),
        "dfs.namenode.rpc-address", hosts.address(0) + ":" + nameNodePort,
        "dfs.namenode.http-address", hosts.address(0) + ":" + nameNodeHttpPort));
    own.putAll(settings);
    Path home = configure("nn", own);
    daemons.run("nn-format", java(home, 512, NAMENODE, "-format", "-nonInteractive"), 60);
    daemons.start("nn", java(home, 512, NAMENODE));
    await("the NameNode", () -> {
      try (FileSystem fs = FileSystem.newInstance(clientConf())) {
        return fs.exists(new org.apache.hadoop.fs.Path("/"));
      } catch (IOException notYet) {
        lastTrouble = notYet.toString();
        return false;
      }
    });
  }

  /** Starts the coordinator, again on the port that it had. */
  void startCoordinator() throws Exception {
    if (coordinatorAddress == null) {
      coordinatorAddress = hosts.address(0) + ":" + daemons.freePort();
    }
    coordinator = daemons.start("coordinator", List.of(
        stripeline.toString(), "--dir", folder.resolve("coordinator").toString(), "coordinator",
        "--listen", coordinatorAddress, "--found"));
  }

  /** Ends it as a machine that loses power would. */
  void killCoordinator() {
    coordinator.kill();
    daemons.forget(coordinator);
  }

  private void start(int number, Map<String, String> further) throws Exception {
    String name = "dn" + number;
    int httpPort = daemons.freePort();
    int gatewayPort = daemons.freePort();
    Map<String, String> own = new HashMap<>(Map.of(
        "dfs.datanode.data.dir", folder.resolve(name + "/data").toUri().toString(),
        "dfs.datanode.address", hosts.address(number) + ":" + daemons.freePort(),
        "dfs.datanode.ipc.address", hosts.address(number) + ":" + daemons.freePort(),
        "dfs.datanode.http.address", hosts.address(number) + ":" + httpPort,
        "dfs.datanode.hostname", NAME + number,
        "dfs.datanode.plugins", "org.apache.hadoop.hdfs.server.datanode.erasurecode.StripelinePlugin",
        "stripeline.gateway", "127.0.0.1:" + gatewayPort));
    own.putAll(settings);
    own.putAll(further);
    Path home = configure(name, own);
    Daemons.Daemon datanode = daemons.start(name, at(number, java(home, 192, DATANODE)));
    machines.put(number, new Machine(number, datanode, null, null, httpPort, gatewayPort));
  }

  /** One machine more, which has nothing yet, with settings of its own beside those of all. */
  void add(int number, Map<String, String> own) throws Exception {
    int before = fileSystem().getDataNodeStats().length;
    start(number, own);
    awaitHelper(number);
    await("DataNode " + number, () -> fileSystem().getDataNodeStats().length > before);
  }

  /** The command of a program of this class path on a machine. */
  List<String> program(int machine, Class<?> main, String... arguments) throws IOException {
    return at(machine, java(folder.resolve("nn"), 256, main.getName(), arguments));
  }

  /** The DataNode names itself when it has spoken with the NameNode; from then on there is something to lend. */
  private void awaitHelper(int number) throws Exception {
    Machine machine = machines.get(number);
    Path data = folder.resolve("dn" + number + "/data");
    Path version = data.resolve("current/VERSION");
    await("DataNode " + number, () -> Files.exists(version) && Files.readString(version).contains("datanodeUuid"));
    Matcher uuid = Pattern.compile("datanodeUuid=(\\S+)").matcher(Files.readString(version));
    if (!uuid.find()) {
      throw new IOException("no uuid in " + version);
    }
    machines.put(number, new Machine(number, machine.datanode(), startHelper(machine, data), uuid.group(1),
        machine.httpPort(), machine.gatewayPort()));
  }

  private Daemons.Daemon startHelper(Machine machine, Path data) throws IOException {
    List<String> command = new ArrayList<>(List.of(
        stripeline.toString(), "--coordinator", coordinatorAddress, "node", "--store", "hdfs",
        "--data-dir", data.toString(), "--gateway", "127.0.0.1:" + machine.gatewayPort(),
        "--listen-control", hosts.address(machine.number()) + ":0",
        "--listen-data", hosts.address(machine.number()) + ":0"));
    command.addAll(helperOptions);
    return daemons.start("helper" + machine.number(), at(machine.number(), command));
  }

  /** Kills a DataNode and the helper beside it: a machine is gone. */
  void killMachine(int number) {
    Machine machine = machines.remove(number);
    for (Daemons.Daemon daemon : List.of(machine.datanode(), machine.helper())) {
      daemon.kill();
      daemons.forget(daemon);
    }
  }

  /** Kills only the DataNode. */
  void killDatanode(int number) {
    Machine machine = machines.get(number);
    machine.datanode().kill();
    daemons.forget(machine.datanode());
  }

  /** Starts it again, where it was. */
  void restartDatanode(int number) throws IOException {
    Machine old = machines.get(number);
    Daemons.Daemon datanode = daemons.start("dn" + number, at(number, java(folder.resolve("dn" + number), 192, DATANODE)));
    machines.put(number,
        new Machine(number, datanode, old.helper(), old.uuid(), old.httpPort(), old.gatewayPort()));
  }

  /** Kills only the helper. */
  void killHelper(int number) {
    Machine machine = machines.get(number);
    machine.helper().kill();
    daemons.forget(machine.helper());
  }

  /** Starts it again. */
  void restartHelper(int number) throws IOException {
    Machine old = machines.get(number);
    Daemons.Daemon helper = startHelper(old, folder.resolve("dn" + number + "/data"));
    machines.put(number,
        new Machine(number, old.datanode(), helper, old.uuid(), old.httpPort(), old.gatewayPort()));
  }

  /** Those that live. */
  Map<Integer, Machine> machines() {
    return machines;
  }

  Machine machineOf(DatanodeInfo datanode) {
    return machines.values().stream().filter(m -> datanode.getDatanodeUuid().equals(m.uuid())).findFirst().orElse(null);
  }

  /** The data folder of a machine. */
  Path dataOf(int number) {
    return folder.resolve("dn" + number + "/data");
  }

  /** The files of a member of a group that machines have, by their numbers. */
  Map<Integer, Path> filesOf(LocatedStripedBlock group, int member) {
    return filesOf(group.getBlock().getBlockPoolId(), group.getBlock().getBlockId() + member);
  }

  /** The files of a block that machines have, by their numbers. */
  Map<Integer, Path> filesOf(String pool, long id) {
    Map<Integer, Path> files = new TreeMap<>();
    for (int number : machines.keySet()) {
      Path finalized = dataOf(number).resolve("current").resolve(pool)
          .resolve("current/finalized/subdir" + (id >> 16 & 31) + "/subdir" + (id >> 8 & 31));
      Path file = finalized.resolve("blk_" + id);
      if (Files.exists(file)) {
        files.put(number, file);
      }
    }
    return files;
  }

  /** The bytes of each copy of a member of a group, by machine; HDFS may remove a copy between its listing and its reading. */
  Map<Integer, byte[]> copiesOf(LocatedStripedBlock group, int member) throws IOException {
    Map<Integer, byte[]> copies = new TreeMap<>();
    for (Map.Entry<Integer, Path> file : filesOf(group, member).entrySet()) {
      try {
        copies.put(file.getKey(), Files.readAllBytes(file.getValue()));
      } catch (NoSuchFileException gone) {
        // It is no copy any more.
      }
    }
    return copies;
  }

  /** Numbers of machines that have a part of a member of a group, and not yet all of it. */
  List<Integer> unfinished(LocatedStripedBlock group, int member) {
    Path file = Path.of("current", group.getBlock().getBlockPoolId(), "tmp", "blk_" + (group.getBlock().getBlockId() + member));
    return machines.keySet().stream().filter(number -> Files.exists(dataOf(number).resolve(file))).toList();
  }

  Configuration clientConf() {
    Configuration conf = new Configuration(false);
    conf.addResource("core-default.xml");
    conf.addResource("hdfs-default.xml");
    conf.set("fs.defaultFS", "hdfs://" + hosts.address(0) + ":" + nameNodePort);
    conf.set("dfs.namenode.http-address", hosts.address(0) + ":" + nameNodeHttpPort);
    conf.setInt("ipc.client.connect.max.retries", 2);
    return conf;
  }

  DistributedFileSystem fileSystem() throws IOException {
    return (DistributedFileSystem) FileSystem.get(clientConf());
  }

  /** A client that reads through helpers, with the gateways of all machines; not the one that others get. */
  DistributedFileSystem readingFileSystem() throws IOException {
    Configuration conf = clientConf();
    conf.set("fs.hdfs.impl", "org.apache.hadoop.hdfs.StripelineFileSystem");
    List<String> gateways = machines.values().stream().map(m -> "127.0.0.1:" + m.gatewayPort()).toList();
    conf.set("stripeline.gateway", String.join(",", gateways));
    return (DistributedFileSystem) FileSystem.newInstance(conf);
  }

  /** The block groups of a file. */
  List<LocatedStripedBlock> groups(String file) throws IOException {
    List<LocatedStripedBlock> groups = new ArrayList<>();
    long length = fileSystem().getFileStatus(new org.apache.hadoop.fs.Path(file)).getLen();
    for (LocatedBlock block : fileSystem().getClient().getLocatedBlocks(file, 0, length).getLocatedBlocks()) {
      groups.add((LocatedStripedBlock) block);
    }
    return groups;
  }

  /** Whether every block of these files is on a DataNode that lives. */
  boolean isWhole(List<String> files) throws IOException {
    Set<String> living = new HashSet<>();
    machines.values().forEach(machine -> living.add(machine.uuid()));
    for (String file : files) {
      ErasureCodingPolicy policy = fileSystem().getErasureCodingPolicy(new org.apache.hadoop.fs.Path(file));
      for (LocatedStripedBlock group : groups(file)) {
        long data = group.getBlockSize();
        int cells = (int) Math.min(policy.getNumDataUnits(), (data - 1) / policy.getCellSize() + 1);
        Set<Byte> there = new HashSet<>();
        for (int i = 0; i < group.getLocations().length; i++) {
          if (living.contains(group.getLocations()[i].getDatanodeUuid())) {
            there.add(group.getBlockIndices()[i]);
          }
        }
        if (there.size() < cells + policy.getNumParityUnits()) {
          return false;
        }
      }
    }
    return true;
  }

  /** What {@code hdfs fsck PATH} says, and whether all is well. */
  String fsck(String path) throws Exception {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    PrintStream out = new PrintStream(said, true, StandardCharsets.UTF_8);
    ToolRunner.run(new DFSck(clientConf(), out), new String[] {path});
    return said.toString(StandardCharsets.UTF_8);
  }

  /** A counter of the plugin, over all DataNodes that live. */
  long counter(String name) throws Exception {
    long sum = 0;
    for (Machine machine : machines.values()) {
      URI at = URI.create(
          "http://" + hosts.address(machine.number()) + ":" + machine.httpPort() + "/jmx?qry=Hadoop:service=DataNode,name=Stripeline");
      HttpRequest request = HttpRequest.newBuilder(at).timeout(Duration.ofSeconds(10)).build();
      String bean = http.send(request, HttpResponse.BodyHandlers.ofString()).body();
      Matcher value = Pattern.compile('"' + name + "\" : (\\d+)").matcher(bean);
      if (!value.find()) {
        throw new IOException("DataNode " + machine.number() + " has no " + name + ": " + bean);
      }
      sum += Long.parseLong(value.group(1));
    }
    return sum;
  }

  /** Lines of the DataNodes' logs that have these words, those of dead ones too. */
  List<String> logged(String words) throws IOException {
    return logged("dn", words);
  }

  /** The same of all daemons whose names begin so. */
  List<String> logged(String daemons, String words) throws IOException {
    List<String> found = new ArrayList<>();
    try (Stream<Path> logs = Files.list(folder.resolve("logs"))) {
      for (Path log : logs.sorted().toList()) {
        if (log.getFileName().toString().startsWith(daemons)) {
          Files.readAllLines(log).stream().filter(line -> line.contains(words)).forEach(found::add);
        }
      }
    }
    return found;
  }

  void await(String what, Callable<Boolean> isThere) throws Exception {
    await(what, PATIENCE, isThere);
  }

  /** Waits until that is so; a daemon that ended meanwhile is an error. */
  void await(String what, Duration patience, Callable<Boolean> isThere) throws Exception {
    long deadline = System.nanoTime() + patience.toNanos();
    while (!isThere.call()) {
      for (Daemons.Daemon dead : daemons.dead()) {
        throw new IOException(dead.name() + " ended while " + what + " was waited for:\n" + dead.tail());
      }
      if (System.nanoTime() > deadline) {
        throw new IOException(what + ": not within " + patience.toSeconds() + " s; logs are in " + folder.resolve("logs")
            + (lastTrouble.isEmpty() ? "" : "; " + lastTrouble));
      }
      Thread.sleep(200);
    }
  }

  private List<String> at(int machine, List<String> command) {
    List<String> there = new ArrayList<>(hosts.at(machine));
    there.addAll(command);
    return there;
  }

  private List<String> java(Path home, int heapMiB, String main, String... arguments) {
    List<String> command = new ArrayList<>(List.of(
        Path.of(System.getProperty("java.home"), "bin/java").toString(), "-XX:+UseSerialGC", "-Xmx" + heapMiB + "m",
        "-XX:TieredStopAtLevel=1", "-Dhadoop.root.logger=INFO,console",
        "-cp", home.resolve("conf") + File.pathSeparator + classPath, main));
    command.addAll(List.of(arguments));
    return command;
  }

  /** A folder with the configuration of a daemon. */
  private Path configure(String name, Map<String, String> own) throws IOException {
    Path home = folder.resolve(name);
    Path conf = Files.createDirectories(home.resolve("conf"));
    Map<String, String> all = new TreeMap<>(Map.of(
        "dfs.namenode.datanode.registration.ip-hostname-check", "false",
        // Dead DataNodes are found within a quarter of a minute, not of an hour.
        "dfs.heartbeat.interval", "1",
        "dfs.namenode.heartbeat.recheck-interval", "1000",
        "dfs.namenode.redundancy.interval.seconds", "1s",
        "dfs.namenode.reconstruction.pending.timeout-sec", "60",
        // Whoever has just been written to is not busy.
        "dfs.namenode.redundancy.considerLoad", "false",
        "dfs.replication", "1",
        "dfs.permissions.enabled", "false"));
    all.putAll(own);
    write(conf.resolve("core-site.xml"), Map.of("fs.defaultFS", "hdfs://" + hosts.address(0) + ":" + nameNodePort));
    write(conf.resolve("hdfs-site.xml"), all);
    Files.writeString(conf.resolve("log4j.properties"), """
        log4j.rootLogger=INFO,console
        log4j.appender.console=org.apache.log4j.ConsoleAppender
        log4j.appender.console.layout=org.apache.log4j.PatternLayout
        log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
        """);
    return home;
  }

  private static void write(Path file, Map<String, String> settings) throws IOException {
    StringBuilder text = new StringBuilder("<?xml version=\"1.0\"?>\n<configuration>\n");
    settings.forEach((name, value) -> text.append("<property><name>").append(name).append("</name><value>")
        .append(value).append("</value></property>\n"));
    Files.writeString(file, text.append("</configuration>\n"));
  }

  @Override
  public void close() {
    try {
      FileSystem.closeAll();
    } catch (IOException ignored) {
      // The NameNode may be gone already.
    }
    daemons.close();
  }

  /** Removes a folder with all that is in it. */
  static void remove(Path folder) throws IOException {
    if (!Files.exists(folder)) {
      return;
    }
    try (Stream<Path> all = Files.walk(folder)) {
      all.sorted(Comparator.reverseOrder()).forEach(path -> {
        try {
          Files.delete(path);
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      });
    }
  }
}
