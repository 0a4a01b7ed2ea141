package stripeline.hdfs.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.permission.AclEntry;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.io.erasurecode.ECSchema;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import stripeline.hdfs.encode.EncodeCommand;

/** Replicated files become erasure-coded ones. */
@Tag("cluster")
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class EncodeTest extends EncodingCluster {

  @Test
  @Order(1)
  void filesOfAllLengthsBecomeErasureCodedOnesWhereTheirReplicasAre() throws Exception {
    fs.mkdirs(path("/cold/deeper"));
    Map<String, List<Set<String>>> before = new HashMap<>();
    for (long length : List.of(1L, BLOCK - 1L, (long) BLOCK, BLOCK + 1L, (long) K * BLOCK, K * BLOCK + 1L, 7L * BLOCK + 12_345)) {
      String file = "/cold/" + (length % 2 == 0 ? "" : "deeper/") + length;
      write(file, length, BLOCK);
      // On a busy machine a writer may lose one, and HDFS makes it anew.
      cluster.await("all replicas of " + file, WITHIN, () -> replicas(file).stream().allMatch(block -> block.size() == 3));
      before.put(file, replicas(file));
    }
    List<String> files = List.copyOf(before.keySet());
    Map<String, String> digests = Demo.digests(cluster, files);
    String said = encode("-all", "-verify", "all", "/cold");
    assertTrue(said.startsWith("0\n"), said);
    assertTrue(said.contains("7 files encoded, 0 left as they are, 0 failed"), said);
    // 1 + 1 + 1 + 2 + 3 + 4 + 8 data blocks in 1 + 1 + 1 + 1 + 1 + 2 + 3 groups.
    assertTrue(said.contains("10 groups, 20 data blocks, of which 20 stayed on their machine, 20 parities; "
        + "parities of 10 groups by helpers, of 0 by HDFS's coder; 0 data blocks were read in another rack"), said);
    assertEquals(digests, Demo.digests(cluster, files));
    for (String file : files) {
      assertEquals(POLICY, fs.getErasureCodingPolicy(path(file)).getName());
      assertLies(file, before.get(file));
    }
    assertTrue(hidden("/cold").isEmpty() && hidden("/cold/deeper").isEmpty());
    String fsck = cluster.fsck("/cold");
    assertTrue(fsck.contains("HEALTHY") && fsck.matches("(?s).*(Unsatisfactory placement|Mis-replicated)[^\n]*\\s0 .*"), fsck);
    // Of a file that is no more.
    write("/cold/._stripeline_999999.encoding", 1, BLOCK);
    String again = encode("-all", "/cold");
    assertTrue(hidden("/cold").isEmpty());
    assertTrue(again.startsWith("0\n") && again.contains("0 files encoded, 7 left as they are, 0 failed"), again);
  }

  @Test
  @Order(2)
  void whatAFileHasBesideItsBytesIsCarriedOver() throws Exception {
    String file = "/cold/attributes";
    write(file, 5L * BLOCK, BLOCK);
    fs.setXAttr(path(file), "user.origin", new byte[] {1, 2, 3});
    fs.setOwner(path(file), "somebody", "people");
    fs.setPermission(path(file), new FsPermission((short) 0640));
    fs.modifyAclEntries(path(file), AclEntry.parseAclSpec("user:other:r--", true));
    fs.setStoragePolicy(path(file), "HOT");
    fs.setTimes(path(file), 1_600_000_000_000L, 1_600_000_100_000L);
    FileStatus before = fs.getFileStatus(path(file));
    String digest = Demo.digests(cluster, List.of(file)).get(file);
    fs.setTimes(path(file), 1_600_000_000_000L, 1_600_000_100_000L);
    String said = encode(file);
    assertTrue(said.startsWith("0\n"), said);
    FileStatus after = fs.getFileStatus(path(file));
    assertEquals(List.of(before.getOwner(), before.getGroup(), before.getPermission(), before.getModificationTime()),
        List.of(after.getOwner(), after.getGroup(), after.getPermission(), after.getModificationTime()));
    assertEquals(1_600_000_100_000L, after.getAccessTime());
    assertEquals(List.of("user:other:r--"), fs.getAclStatus(path(file)).getEntries().stream()
        .filter(entry -> entry.getName() != null).map(AclEntry::toString).toList());
    // Its own, where a file without one has 0.
    assertEquals(fs.getClient().getStoragePolicy(file).getId(), fs.getClient().getFileInfo(file).getStoragePolicy());
    assertEquals(3, fs.getXAttr(path(file), "user.origin")[2]);
    assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
  }

  @Test
  @Order(3)
  void whatCannotBeEncodedStaysAndHasItsReason() throws Exception {
    write("/cold/other-blocks", 7L * BLOCK, 2 * BLOCK);
    write("/cold/small", BLOCK, BLOCK);
    write("/cold/appended", 4L * BLOCK + 7, BLOCK);
    try (FSDataOutputStream out = fs.append(path("/cold/appended"),
        java.util.EnumSet.of(org.apache.hadoop.fs.CreateFlag.APPEND, org.apache.hadoop.fs.CreateFlag.NEW_BLOCK), 4096, null)) {
      out.write(new byte[BLOCK]);
    }
    fs.mkdirs(path("/cold/snapshots"));
    write("/cold/snapshots/file", 4L * BLOCK, BLOCK);
    fs.allowSnapshot(path("/cold/snapshots"));
    fs.createSnapshot(path("/cold/snapshots"), "s1");
    write("/cold/snapshots/later", 4L * BLOCK, BLOCK);
    try (FSDataOutputStream open = fs.create(path("/cold/open"), true, 4096, (short) 3, BLOCK)) {
      open.write(new byte[2 * BLOCK]);
      open.hsync();
      String said = encode("/cold/other-blocks", "/cold/small", "/cold/appended", "/cold/snapshots", "/cold/open", "/cold/none",
          "hdfs://other:1/f", "/.reserved/raw/cold/snapshots", "/.reserved/.inodes/16385");
      assertTrue(said.startsWith("1\n"), said);
      for (String reason : List.of("/cold/other-blocks: BLOCK_SIZE: it has blocks of 2097152 bytes", "/cold/small: LARGER: ",
          "/cold/appended: SHORT_BLOCK: ", "/cold/snapshots/file: SNAPSHOT: ", "/cold/open: OPEN: ",
          "/cold/none: there is no such file", "other:1/f: there is no such file",
          "failed   /.reserved/raw/cold/snapshots: RESERVED: ", "failed   /.reserved/.inodes/16385: RESERVED: ")) {
        assertTrue(said.contains(reason), reason + " in " + said);
      }
      assertTrue(said.contains("1 files encoded, 1 left as they are, 8 failed"), said);
    }
    assertNull(fs.getErasureCodingPolicy(path("/cold/snapshots/file")));
    assertTrue(encode("-policy", "RS-10-4-1024k", "/cold").contains("RS-10-4-1024k is not enabled"));
    assertTrue(encode("-policy", "RS-6-3-77k", "/cold").contains("knows no policy RS-6-3-77k"));
    for (String[] wrong : new String[][] {{}, {"-files", "0", "/cold"}, {"-files", "x", "/cold"}, {"-what", "/cold"}, {"-policy"}}) {
      assertTrue(encode(wrong).startsWith("2\n"), Arrays.toString(wrong));
    }
  }

  @Test
  @Order(4)
  void aFileThatIsWrittenToMeanwhileStaysAsItWasWritten() throws Exception {
    String file = "/cold/meanwhile";
    write(file, 40L * BLOCK, BLOCK);
    CompletableFuture<String> encoding = CompletableFuture.supplyAsync(() -> {
      try {
        return encode(file);
      } catch (Exception failed) {
        throw new IllegalStateException(failed);
      }
    });
    cluster.await("the encoder to begin", WITHIN, () -> !hidden("/cold").isEmpty());
    try (FSDataOutputStream out = fs.append(path(file))) {
      out.write(new byte[] {1, 2, 3});
    }
    String digest = Demo.digests(cluster, List.of(file)).get(file);
    String said = encoding.get();
    assertTrue(said.startsWith("1\n") && said.contains("CHANGED"), said);
    assertNull(fs.getErasureCodingPolicy(path(file)));
    assertEquals(40L * BLOCK + 3, fs.getFileStatus(path(file)).getLen());
    assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
    assertTrue(hidden("/cold").isEmpty() && fs.isFileClosed(path(file)));
  }

  @Test
  @Order(5)
  void anEncoderThatIsKilledLeavesTheOriginalAndTheNextOneEncodesIt() throws Exception {
    String file = "/cold/killed";
    write(file, 60L * BLOCK, BLOCK);
    FileStatus before = fs.getFileStatus(path(file));
    String digest = Demo.digests(cluster, List.of(file)).get(file);
    Path log = folder.resolve("logs/killed.log");
    Process encoder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin/java").toString(), "-Xmx128m",
        "-XX:TieredStopAtLevel=1", "-cp", folder.resolve("nn/conf") + File.pathSeparator + System.getProperty("java.class.path"),
        EncodeCommand.class.getName(), "encode", "-policy", POLICY, file)
        .redirectErrorStream(true).redirectOutput(log.toFile()).start();
    try {
      cluster.await("the encoder to write", WITHIN, () -> {
        assertTrue(encoder.isAlive(), () -> "it ended: " + tail(log));
        List<FileStatus> begun = hidden("/cold");
        return !begun.isEmpty() && fs.getClient().getLocatedBlocks(begun.get(0).getPath().toUri().getPath(), 0, Long.MAX_VALUE)
            .locatedBlockCount() > 1;
      });
    } finally {
      encoder.destroyForcibly().waitFor();
    }
    assertEquals(1, hidden("/cold").size());
    FileStatus after = fs.getFileStatus(path(file));
    assertEquals(List.of(before.getLen(), before.getModificationTime()), List.of(after.getLen(), after.getModificationTime()));
    assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
    String first = encode(file);
    assertTrue(first.startsWith("1\n") && first.contains("IN_PROGRESS"), first);
    // A minute later the next encoder would have it so.
    fs.recoverLease(hidden("/cold").get(0).getPath());
    String next = encode(file);
    assertTrue(next.startsWith("0\n"), next);
    assertEquals(POLICY, fs.getErasureCodingPolicy(path(file)).getName());
    assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
    assertTrue(hidden("/cold").isEmpty());
  }

  private static String tail(Path log) {
    try {
      return Files.readString(log);
    } catch (IOException none) {
      return none.toString();
    }
  }

  /** Cells beyond HDFS's own limit for policies that are added; files that were not placed for it; no coordinator. */
  @Test
  @Order(6)
  void otherPoliciesOtherFilesAndNoHelpersWorkToo() throws Exception {
    int block = 6 << 20;
    ErasureCodingPolicy added = fs.addErasureCodingPolicies(
        new ErasureCodingPolicy[] {new ErasureCodingPolicy(new ECSchema("rs", K, M), block)})[0].getPolicy();
    fs.enableErasureCodingPolicy(added.getName());
    fs.mkdirs(path("/elsewhere"));
    write("/elsewhere/file", 4L * block + 99, block);
    cluster.killCoordinator();
    String digest = Demo.digests(cluster, List.of("/elsewhere/file")).get("/elsewhere/file");
    String said = encode("-policy", added.getName(), "-verify", "all", "/elsewhere");
    assertTrue(said.startsWith("0\n") && said.contains("parities of 0 groups by helpers, of 2 by HDFS's coder"), said);
    assertEquals("RS-3-2-6144k", fs.getErasureCodingPolicy(path("/elsewhere/file")).getName());
    assertEquals(digest, Demo.digests(cluster, List.of("/elsewhere/file")).get("/elsewhere/file"));
    cluster.startCoordinator();
    // A stripe of these cells is more than our stream keeps in memory.
    byte[] whole = new byte[4 * block + 99];
    try (FSDataInputStream in = cluster.readingFileSystem().open(path("/elsewhere/file"))) {
      in.readFully(whole);
      assertEquals(-1, in.read());
      for (int at : new int[] {0, block - 1, 3 * block + 17, 4 * block + 98}) {
        in.seek(at);
        assertEquals(whole[at] & 0xff, in.read());
        assertEquals(at + 1, in.getPos());
      }
    }
    assertEquals(digest, HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(whole)));
  }

  /** Executed, not executed, refused, late by a little and by a lot, and nobody can say. */
  @Test
  @Order(7)
  void whereTheAnswerToTheSwapIsLostTheFileIsThereAndWhatIsSaidIsTrue() throws Exception {
    fs.mkdirs(path("/cold/lost"));
    String done = assertLost("/cold/lost/executed", true, rename -> rename.call());
    assertTrue(done.startsWith("0\n") && done.contains("1 files encoded"), done);
    String never = assertLost("/cold/lost/never", false, rename -> { });
    assertTrue(never.startsWith("1\n") && never.contains("failed   /cold/lost/never: java.net.SocketTimeoutException"), never);
    // The NameNode gets to it when the encoder has ended.
    AtomicReference<Callable<Object>> late = new AtomicReference<>();
    String ended = assertLost("/cold/lost/late", false, late::set);
    assertTrue(ended.startsWith("1\n"), ended);
    IOException nothing = assertThrows(IOException.class, () -> late.get().call());
    assertTrue(nothing.toString().contains("FileNotFoundException"), nothing.toString());
    assertNull(fs.getErasureCodingPolicy(path("/cold/lost/late")));
    // It gets to it when the encoder has asked, and is about to remove what it wrote.
    String file = "/cold/lost/between";
    write(file, 3L * BLOCK, BLOCK);
    String digest = Demo.digests(cluster, List.of(file)).get(file);
    String between = encode((method, arguments, toNameNode) -> {
      if (method.getName().equals("rename2")) {
        late.set(toNameNode);
        throw new java.net.SocketTimeoutException("lost");
      }
      Callable<Object> waiting = method.getName().equals("delete") ? late.getAndSet(null) : null;
      if (waiting != null) {
        waiting.call();
      }
      return toNameNode.call();
    }, file);
    assertTrue(between.startsWith("0\n"), between);
    assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
    assertEquals(POLICY, fs.getErasureCodingPolicy(path(file)).getName());
    assertTrue(hidden("/cold/lost").isEmpty());
    // Somebody has moved what was written, so that a late rename cannot be made to fail.
    String unknown = assertLost("/cold/lost/unknown", false,
        rename -> fs.rename(hidden("/cold/lost").get(0).getPath(), path("/cold/lost/moved")));
    assertTrue(unknown.startsWith("1\n") && unknown.contains("/cold/lost/unknown: UNKNOWN: "), unknown);
    assertEquals(Demo.digests(cluster, List.of("/cold/lost/unknown")).values().toString(),
        Demo.digests(cluster, List.of("/cold/lost/moved")).values().toString());
  }

  private interface WithRename {
    void accept(Callable<Object> rename) throws Exception;
  }

  /** Encodes a file whose swap is answered by nobody; what was said. The file has its bytes, and nothing hidden is beside it. */
  private static String assertLost(String file, boolean isEncoded, WithRename instead) throws Exception {
    write(file, 3L * BLOCK, BLOCK);
    FileStatus before = fs.getFileStatus(path(file));
    String digest = Demo.digests(cluster, List.of(file)).get(file);
    String said = encode((method, arguments, toNameNode) -> {
      if (method.getName().equals("rename2")) {
        instead.accept(toNameNode);
        throw new java.net.SocketTimeoutException("lost");
      }
      return toNameNode.call();
    }, file);
    assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file), said);
    assertEquals(isEncoded, fs.getErasureCodingPolicy(path(file)) != null, said);
    assertEquals(before.getModificationTime(), fs.getFileStatus(path(file)).getModificationTime());
    assertTrue(hidden("/cold/lost").isEmpty(), said);
    return said;
  }

  /** What a lease keeps nobody from. */
  @Test
  @Order(8)
  void whatIsChangedBesideTheBytesMeanwhileIsNotUndone() throws Exception {
    fs.mkdirs(path("/cold/beside"));
    Map<String, Change> changes = Map.of(
        "acl", file -> fs.modifyAclEntries(file, AclEntry.parseAclSpec("user:banned:---", true)),
        "acl-of-some", file -> fs.modifyAclEntries(file, AclEntry.parseAclSpec("user:first:---", true)),
        "added", file -> fs.setXAttr(file, "user.secret", new byte[] {1}),
        "replaced", file -> fs.setXAttr(file, "user.kind", new byte[] {9}),
        "removed", file -> fs.removeXAttr(file, "user.kind"),
        "policy", file -> fs.setStoragePolicy(file, "HOT"),
        "owner", file -> fs.setOwner(file, "another", null),
        "permission", file -> fs.setPermission(file, new FsPermission((short) 0600)));
    for (Map.Entry<String, Change> change : changes.entrySet()) {
      String file = "/cold/beside/" + change.getKey();
      write(file, 3L * BLOCK, BLOCK);
      fs.setXAttr(path(file), "user.kind", new byte[] {1});
      fs.modifyAclEntries(path(file), AclEntry.parseAclSpec("user:first:r--", true));
      String digest = Demo.digests(cluster, List.of(file)).get(file);
      AtomicReference<String> changed = new AtomicReference<>();
      String said = encode((method, arguments, toNameNode) -> {
        if (method.getName().equals("append")) {
          change.getValue().to(path(file));
          changed.set(beside(file));
        }
        return toNameNode.call();
      }, file);
      assertTrue(said.startsWith("1\n") && said.contains(file + ": CHANGED: "), said);
      assertEquals(changed.get(), beside(file));
      assertNull(fs.getErasureCodingPolicy(path(file)));
      assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
      assertTrue(hidden("/cold/beside").isEmpty() && fs.isFileClosed(path(file)));
      // It is encoded as it is now.
      String again = encode(file);
      assertTrue(again.startsWith("0\n") && again.contains("1 files encoded"), again);
      assertEquals(changed.get(), beside(file));
      assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
    }
  }

  private interface Change {
    void to(org.apache.hadoop.fs.Path file) throws IOException;
  }

  /** Helpers read one replica of each block, and this one's first bytes are right. */
  @Test
  @Order(9)
  void aReplicaWithWrongBytesIsGoneAround() throws Exception {
    String file = "/cold/wrong";
    write(file, 3L * BLOCK, BLOCK);
    cluster.await("all replicas", WITHIN, () -> replicas(file).stream().allMatch(block -> block.size() == 3));
    String digest = Demo.digests(cluster, List.of(file)).get(file);
    List<LocatedBlock> blocks = fs.getClient().getLocatedBlocks(file, 0, 3L * BLOCK).getLocatedBlocks();
    // The core rack, where parities are made, has all of them.
    Set<String> racks = new HashSet<>(racks(blocks.get(0)));
    blocks.forEach(block -> racks.retainAll(racks(block)));
    LocatedBlock second = blocks.get(1);
    DatanodeInfo read = Arrays.stream(second.getLocations()).filter(each -> racks.contains(each.getNetworkLocation())).findFirst().get();
    Path replica = cluster.filesOf(second.getBlock().getBlockPoolId(), second.getBlock().getBlockId())
        .get(cluster.machineOf(read).number());
    try (RandomAccessFile bytes = new RandomAccessFile(replica.toFile(), "rw")) {
      bytes.seek(BLOCK / 2);
      int was = bytes.read();
      bytes.seek(BLOCK / 2);
      bytes.write(was ^ 0x55);
    }
    String said = encode("-verify", "all", file);
    assertTrue(said.startsWith("0\n") && said.contains("parities of 0 groups by helpers, of 1 by HDFS's coder"), said);
    assertEquals(digest, Demo.digests(cluster, List.of(file)).get(file));
    assertEquals(POLICY, fs.getErasureCodingPolicy(path(file)).getName());
  }

  @Test
  @Order(10)
  void theOriginalIsClosedWhereItsOpeningIsNotAnsweredAndItsTimeIsThatOfItsLastWriter() throws Exception {
    String opened = "/cold/opened";
    write(opened, 3L * BLOCK, BLOCK);
    fs.setTimes(path(opened), 1_600_000_000_000L, -1);
    String digest = Demo.digests(cluster, List.of(opened)).get(opened);
    Set<String> holders = new HashSet<>();
    String said = encode((method, arguments, toNameNode) -> {
      Object answer = toNameNode.call();
      if (method.getName().equals("create")) {
        holders.add((String) arguments[2]);
      }
      if (method.getName().equals("append")) {
        // The encoder's own name is renewed for as long as it works, whatever becomes of this file.
        assertTrue(holders.add((String) arguments[1]));
        throw new java.net.SocketTimeoutException("lost");
      }
      return answer;
    }, opened);
    assertTrue(said.startsWith("1\n") && said.contains("SocketTimeoutException"), said);
    // One for the files that it writes, and one for each of its attempts.
    assertEquals(3, holders.size());
    assertTrue(fs.isFileClosed(path(opened)) && hidden("/cold").isEmpty());
    assertEquals(1_600_000_000_000L, fs.getFileStatus(path(opened)).getModificationTime());
    assertEquals(digest, Demo.digests(cluster, List.of(opened)).get(opened));
    // Somebody else writes it as soon as it is closed.
    String file = "/cold/written";
    write(file, 3L * BLOCK, BLOCK);
    fs.setTimes(path(file), 1_600_000_000_000L, -1);
    String own = "/.reserved/.inodes/" + fs.getClient().getFileInfo(file).getFileId();
    AtomicReference<FileStatus> written = new AtomicReference<>();
    String again = encode((method, arguments, toNameNode) -> {
      if (method.getName().equals("rename2")) {
        throw new java.net.SocketTimeoutException("lost");
      }
      Object answer = toNameNode.call();
      if (method.getName().equals("complete") && arguments[0].equals(own) && written.get() == null) {
        try (FSDataOutputStream out = fs.append(path(file))) {
          out.write(new byte[] {1, 2, 3});
        }
        written.set(fs.getFileStatus(path(file)));
      }
      return answer;
    }, file);
    assertTrue(again.startsWith("1\n"), again);
    assertNotEquals(1_600_000_000_000L, written.get().getModificationTime());
    assertEquals(written.get().getModificationTime(), fs.getFileStatus(path(file)).getModificationTime());
    assertEquals(3L * BLOCK + 3, fs.getFileStatus(path(file)).getLen());
    assertTrue(fs.isFileClosed(path(file)) && hidden("/cold").isEmpty());
  }

  /** Neither file has a lease: one encoder verifies, and the other has ended. */
  @Test
  @Order(11)
  void whatAnEncoderVerifiesIsLeftToItAndWhatOneHasLeftIsRemoved() throws Exception {
    fs.mkdirs(path("/cold/two"));
    String living = "/cold/two/living";
    String ended = "/cold/two/ended";
    write(living, 3L * BLOCK, BLOCK);
    write(ended, 3L * BLOCK, BLOCK);
    Map<String, String> digests = Demo.digests(cluster, List.of(living, ended));
    write("/cold/two/._stripeline_" + fs.getClient().getFileInfo(ended).getFileId() + ".encoding", BLOCK, BLOCK);
    String original = "/.reserved/.inodes/" + fs.getClient().getFileInfo(living).getFileId();
    CountDownLatch isVerifying = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    CompletableFuture<String> first = CompletableFuture.supplyAsync(() -> {
      try {
        return encode((method, arguments, toNameNode) -> {
          // Nothing asks for blocks by an inode but the verification.
          if (method.getName().equals("getBlockLocations") && arguments[0].toString().startsWith("/.reserved/.inodes/")
              && !arguments[0].equals(original)) {
            isVerifying.countDown();
            goOn.await();
          }
          return toNameNode.call();
        }, living);
      } catch (Exception failed) {
        throw new IllegalStateException(failed);
      }
    });
    try {
      assertTrue(isVerifying.await(WITHIN.toSeconds(), TimeUnit.SECONDS));
      String second = encode("/cold/two");
      assertTrue(second.startsWith("1\n") && second.contains("waiting a minute: 2 files"), second);
      assertTrue(second.contains("failed   " + living + ": IN_PROGRESS: ") && second.contains("encoded  " + ended), second);
      assertTrue(second.contains("1 files encoded, 0 left as they are, 1 failed"), second);
    } finally {
      goOn.countDown();
    }
    String said = first.get();
    assertTrue(said.startsWith("0\n") && said.contains("1 files encoded"), said);
    assertEquals(digests, Demo.digests(cluster, List.of(living, ended)));
    for (String file : List.of(living, ended)) {
      assertEquals(POLICY, fs.getErasureCodingPolicy(path(file)).getName());
    }
    assertTrue(hidden("/cold/two").isEmpty());
  }

  @Test
  @Order(12)
  void aMachineIsLostAndItsBlocksAreReadAndMadeAnew() throws Exception {
    write("/cold/last", 30L * BLOCK, BLOCK);
    List<String> files = List.of(
        "/cold/" + K * BLOCK, "/cold/deeper/" + (7 * BLOCK + 12_345), "/cold/attributes", "/cold/last");
    Map<String, String> digests = Demo.digests(cluster, files);
    DatanodeInfo victim = cluster.groups(files.get(0)).get(0).getLocations()[0];
    cluster.killMachine(cluster.machineOf(victim).number());
    // The NameNode does not know of it yet, and half of the groups want it.
    String said = encode("/cold/last");
    assertTrue(said.startsWith("0\n") && said.contains("1 files encoded"), said);
    assertEquals(digests, Demo.digests(cluster, files));
    cluster.await("recovery", Duration.ofMinutes(2), () -> cluster.isWhole(files));
    assertEquals(digests, Demo.digests(cluster, files));
    assertNotEquals(Map.of(), digests);
    assertFalse(cluster.fsck("/cold").contains("CORRUPT"));
  }
}
