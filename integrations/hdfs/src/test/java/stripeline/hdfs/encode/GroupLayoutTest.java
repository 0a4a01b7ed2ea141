package stripeline.hdfs.encode;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo.DatanodeInfoBuilder;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.io.erasurecode.ECSchema;
import org.apache.hadoop.security.token.Token;
import org.junit.jupiter.api.Test;
import stripeline.hdfs.RackRule;

class GroupLayoutTest {

  static final int BLOCK = 1 << 20;
  static final ErasureCodingPolicy POLICY = new ErasureCodingPolicy(new ECSchema("rs", 3, 2), BLOCK);

  private final Random random = new Random(9);

  static DatanodeInfo machine(int number, int rack, long remaining) {
    return new DatanodeInfoBuilder().setIpAddr("10.0.0." + number).setHostName("m" + number)
        .setDatanodeUuid("uuid-" + number).setXferPort(1).setInfoPort(2).setIpcPort(3).setNetworkLocation("/r" + rack)
        .setRemaining(remaining).build();
  }

  /** So many in each rack. */
  private static List<DatanodeInfo> machines(int racks, int each) {
    List<DatanodeInfo> all = new ArrayList<>();
    for (int i = 0; i < racks * each; i++) {
      all.add(machine(i, i / each, 10L * BLOCK));
    }
    return all;
  }

  static LocatedBlock block(int number, long length, DatanodeInfo... at) {
    return new LocatedBlock(new ExtendedBlock("BP-1", 1_000 + number, length, 77), at);
  }

  private static Map<String, Long> racks(GroupLayout layout) {
    return layout.all().stream().collect(Collectors.groupingBy(DatanodeInfo::getNetworkLocation, Collectors.counting()));
  }

  @Test
  void dataBlocksStayAndParitiesGoToOtherRacks() throws NotEncodedException {
    List<DatanodeInfo> all = machines(5, 2);
    // Rack 0 has one of each, and all three can be kept in three racks.
    List<LocatedBlock> blocks = List.of(block(0, BLOCK, all.get(0), all.get(2), all.get(3)),
        block(1, BLOCK, all.get(1), all.get(2), all.get(3)), block(2, BLOCK, all.get(0), all.get(6), all.get(7)));
    for (int round = 0; round < 50; round++) {
      GroupLayout layout = GroupLayout.of(blocks, 2, all, new RackRule(1, false), random);
      assertEquals(0, layout.moved());
      assertEquals("/r0", layout.core());
      for (int i = 0; i < 3; i++) {
        assertTrue(Arrays.asList(blocks.get(i).getLocations()).contains(layout.data().get(i)));
      }
      assertEquals(5, racks(layout).size());
      assertEquals("/r0", layout.requestor().getNetworkLocation());
      assertEquals("/r0", layout.inOrder(blocks.get(1), layout.parities().get(0))[0].getNetworkLocation());
      assertEquals(all.get(3), layout.inOrder(blocks.get(1), all.get(3))[0]);
    }
  }

  @Test
  void machinesThatAreLeftOutNeitherKeepABlockNorMakeParities() throws NotEncodedException {
    List<DatanodeInfo> all = machines(7, 2);
    List<LocatedBlock> blocks = List.of(block(0, BLOCK, all.get(0), all.get(2)), block(1, BLOCK, all.get(0), all.get(4)),
        block(2, BLOCK, all.get(1), all.get(6)));
    List<DatanodeInfo> without = all.subList(1, all.size());
    for (int round = 0; round < 50; round++) {
      GroupLayout layout = GroupLayout.of(blocks, 2, without, new RackRule(1, false), random);
      assertTrue(without.containsAll(layout.all()) && without.contains(layout.requestor()));
      assertEquals("/r0", layout.requestor().getNetworkLocation());
    }
  }

  @Test
  void whatTheRackLimitHasNoRoomForMovesAndNothingElse() throws NotEncodedException {
    List<DatanodeInfo> all = machines(6, 3);
    List<LocatedBlock> blocks = List.of(block(0, BLOCK, all.get(0), all.get(3)), block(1, BLOCK, all.get(1), all.get(4)),
        block(2, BLOCK, all.get(2), all.get(5)));
    GroupLayout layout = GroupLayout.of(blocks, 2, all, new RackRule(1, false), random);
    assertEquals(1, layout.moved());
    assertEquals(5, racks(layout).size());
    // Packed, all of them stay, and the parities fill up the racks that were begun.
    GroupLayout packed = GroupLayout.of(blocks, 2, all, new RackRule(3, true), random);
    assertEquals(0, packed.moved());
    assertTrue(racks(packed).size() <= 2 && Collections.max(racks(packed).values()) <= 3, racks(packed).toString());
  }

  @Test
  void machinesWithoutRoomTakeNothingAndTooFewAreTold() {
    List<DatanodeInfo> all = new ArrayList<>(machines(4, 1));
    List<LocatedBlock> blocks = List.of(block(0, BLOCK, all.get(0)), block(1, BLOCK, all.get(1)), block(2, BLOCK, all.get(2)));
    all.add(machine(100, 4, BLOCK - 1));
    NotEncodedException few = assertThrows(NotEncodedException.class,
        () -> GroupLayout.of(blocks, 2, all, new RackRule(1, false), random));
    assertEquals(NotEncodedException.Reason.MACHINES, few.reason());
  }

  /** A group of these machines, as the NameNode gives it. */
  static LocatedStripedBlock group(List<DatanodeInfo> given) {
    int count = given.size();
    byte[] indices = new byte[count];
    for (int i = 0; i < count; i++) {
      indices[i] = (byte) i;
    }
    LocatedStripedBlock group = new LocatedStripedBlock(new ExtendedBlock("BP-1", -1600, 0, 5),
        given.toArray(new DatanodeInfo[0]), given.stream().map(each -> "on-" + each.getDatanodeUuid()).toArray(String[]::new),
        given.stream().map(each -> StorageType.DISK).toArray(StorageType[]::new), indices, 0, false, null);
    @SuppressWarnings({"unchecked", "rawtypes"})
    Token<BlockTokenIdentifier>[] tokens = new Token[count];
    for (int i = 0; i < count; i++) {
      tokens[i] = new Token<>(new byte[] {(byte) i}, new byte[0], new org.apache.hadoop.io.Text("t"),
          new org.apache.hadoop.io.Text("s"));
    }
    group.setBlockTokens(tokens);
    return group;
  }

  @Test
  void membersAreDealtOutToWhomTheNameNodeGaveWhateverTheirOrder() throws NotEncodedException {
    List<DatanodeInfo> all = machines(6, 1);
    List<DatanodeInfo> wanted = all.subList(0, 5);
    GroupLayout layout = new GroupLayout(wanted.subList(0, 3), wanted.subList(3, 5), "/r0", wanted.get(0), 0);
    for (int round = 0; round < 20; round++) {
      List<DatanodeInfo> given = new ArrayList<>(wanted);
      Collections.shuffle(given, random);
      GroupTargets targets = new GroupTargets(group(given), POLICY, layout);
      for (int member = 0; member < 5; member++) {
        LocatedBlock target = targets.member(member, 99);
        assertEquals(wanted.get(member), target.getLocations()[0]);
        assertEquals("on-uuid-" + member, target.getStorageIDs()[0]);
        assertEquals(new ExtendedBlock("BP-1", -1600 + member, 99, 5), target.getBlock());
        // The token is the member's, not that of the place.
        assertEquals(member, target.getBlockToken().getIdentifier()[0]);
      }
    }
    // One was not to be had.
    GroupTargets other = new GroupTargets(group(List.of(all.get(4), all.get(5), all.get(1), all.get(0), all.get(3))), POLICY, layout);
    Function<Integer, DatanodeInfo> at = member -> other.member(member, 1).getLocations()[0];
    assertEquals(List.of(all.get(0), all.get(1), all.get(5), all.get(3), all.get(4)),
        List.of(at.apply(0), at.apply(1), at.apply(2), at.apply(3), at.apply(4)));
    assertThrows(NotEncodedException.class, () -> new GroupTargets(group(all.subList(0, 4)), POLICY, layout));
    // A short group has the parities behind members that nobody has.
    GroupLayout small = new GroupLayout(wanted.subList(0, 1), wanted.subList(3, 5), "/r0", wanted.get(0), 0);
    GroupTargets ofShort = new GroupTargets(group(wanted), POLICY, small);
    assertEquals(all.get(3), ofShort.member(3, 1).getLocations()[0]);
    assertEquals(3, new HashSet<>(List.of(ofShort.member(0, 1).getLocations()[0], ofShort.member(3, 1).getLocations()[0],
        ofShort.member(4, 1).getLocations()[0])).size());
  }
}
