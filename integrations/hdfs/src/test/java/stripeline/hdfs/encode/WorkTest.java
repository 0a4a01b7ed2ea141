package stripeline.hdfs.encode;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo.DatanodeInfoBuilder;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.proto.ClientDatanodeProtocolProtos.ClientDatanodeProtocolService;
import org.apache.hadoop.hdfs.protocolPB.ClientDatanodeProtocolPB;
import org.apache.hadoop.hdfs.protocolPB.PBHelperClient;
import org.apache.hadoop.ipc.ProtobufRpcEngine2;
import org.apache.hadoop.ipc.RPC;
import org.apache.hadoop.ipc.RemoteException;
import org.junit.jupiter.api.Test;

class WorkTest {

  private static final int BLOCK = GroupLayoutTest.BLOCK;

  private final DatanodeInfo machine = GroupLayoutTest.machine(1, 0, 0);

  private LocatedBlock target(int number) {
    return new LocatedBlock(GroupLayoutTest.block(number, 0).getBlock(), new DatanodeInfo[] {machine}, new String[] {"s"},
        new org.apache.hadoop.fs.StorageType[] {org.apache.hadoop.fs.StorageType.DISK});
  }

  private Work parities(long dataBytes) {
    List<LocatedBlock> sources = new ArrayList<>();
    for (long left = dataBytes; left > 0; left -= BLOCK) {
      sources.add(GroupLayoutTest.block(sources.size(), Math.min(left, BLOCK), machine));
    }
    return new Work(GroupLayoutTest.POLICY, dataBytes, sources, List.of(target(8), target(9)), true);
  }

  private static LocatedBlocks sent(LocatedBlocks message) {
    return PBHelperClient.convert(PBHelperClient.convert(message));
  }

  @Test
  void worksAndWhatBecameOfThemComeBackAsTheyWere() throws IOException {
    for (long dataBytes : List.of(1L, (long) BLOCK, 2L * BLOCK + 5, 3L * BLOCK)) {
      Work work = parities(dataBytes);
      Work back = Work.of(sent(work.toMessage()));
      assertEquals(work.sources().size(), back.sources().size());
      assertEquals(List.of(8L + 1_000, 9L + 1_000), back.targets().stream().map(each -> each.getBlock().getBlockId()).toList());
      assertEquals(Math.min(BLOCK, dataBytes), back.targetBytes());
      assertEquals(GroupLayoutTest.POLICY.getSchema(), back.policy().getSchema());
      assertTrue(back.byHelpers());
      assertFalse(Work.of(sent(new Work(work.policy(), dataBytes, work.sources(), work.targets(), false).toMessage())).byHelpers());
    }
    Work copy = Work.of(sent(Work.copy(GroupLayoutTest.block(3, 77, machine), target(1)).toMessage()));
    assertTrue(copy.isCopy() && copy.targetBytes() == 77);
    WorkDone done = WorkDone.of(new WorkDone(new int[] {-1, 5}, true, "x".repeat(3_000)).toBytes());
    assertArrayEquals(new int[] {-1, 5}, done.crcs());
    assertTrue(done.byHelpers() && done.note().length() == 1_000);
  }

  @Test
  void nonsenseIsRefusedWithASentence() {
    Work work = parities(2L * BLOCK);
    List<LocatedBlock> all = work.toMessage().getLocatedBlocks();
    LocatedBlock nowhere = GroupLayoutTest.block(1, BLOCK);
    LocatedBlock shortOne = GroupLayoutTest.block(1, BLOCK - 1, machine);
    for (Work wrong : List.of(
        new Work(work.policy(), 0, work.sources(), work.targets(), true),
        new Work(work.policy(), 4L * BLOCK, work.sources(), work.targets(), true),
        new Work(work.policy(), 3L * BLOCK, work.sources(), work.targets(), true),
        new Work(work.policy(), 2L * BLOCK, work.sources(), List.of(target(8)), true),
        new Work(work.policy(), 2L * BLOCK, List.of(all.get(0), nowhere), work.targets(), true),
        new Work(work.policy(), 2L * BLOCK, List.of(all.get(0), shortOne), work.targets(), true),
        new Work(work.policy(), 2L * BLOCK, work.sources(), List.of(target(8), nowhere), true),
        new Work(null, BLOCK, work.sources(), List.of(target(8)), true))) {
      IllegalArgumentException refused = assertThrows(IllegalArgumentException.class, () -> Work.of(sent(wrong.toMessage())));
      assertTrue(refused.getMessage().startsWith("a "), refused.getMessage());
    }
  }

  /** Nobody is to blame for what another DataNode did not send. */
  @Test
  void whatFailedByItsSourcesSaysSoFromADataNodeToo() {
    IOException source = SourceException.unwrap(new RemoteException(SourceException.class.getName(), "wrong bytes"));
    assertTrue(source instanceof SourceException && source.getMessage().equals("wrong bytes"), source.toString());
    RemoteException other = new RemoteException(IOException.class.getName(), "full");
    assertSame(other, SourceException.unwrap(other));
  }

  /** A DataNode's calls without ours. */
  @Test
  void whereThePluginIsAwayTheEncoderDoesTheWork() throws Exception {
    Configuration conf = new Configuration();
    RPC.setProtocolEngine(conf, ClientDatanodeProtocolPB.class, ProtobufRpcEngine2.class);
    ClientDatanodeProtocolPB nothing = (ClientDatanodeProtocolPB) Proxy.newProxyInstance(getClass().getClassLoader(),
        new Class<?>[] {ClientDatanodeProtocolPB.class}, (proxy, method, arguments) -> null);
    RPC.Server server = new RPC.Builder(conf).setProtocol(ClientDatanodeProtocolPB.class)
        .setInstance(ClientDatanodeProtocolService.newReflectiveBlockingService(nothing))
        .setBindAddress("127.0.0.1").setPort(0).setNumHandlers(1).build();
    server.start();
    try {
      DatanodeInfo without = new DatanodeInfoBuilder().setIpAddr("127.0.0.1").setHostName("localhost").setDatanodeUuid("u")
          .setIpcPort(server.getListenerAddress().getPort()).build();
      Peers here = (to, block, token) -> {
        throw new IOException("here");
      };
      Workplaces workplaces = new Workplaces(conf, new Worker(here, conf, "test", null));
      Work work = Work.copy(GroupLayoutTest.block(3, 77, machine), target(1));
      for (int round = 0; round < 2; round++) {
        IOException done = assertThrows(SourceException.class, () -> workplaces.run(work, without));
        assertEquals("here", done.getCause().getCause().getMessage());
      }
    } finally {
      server.stop();
    }
  }
}
