package org.apache.hadoop.hdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.net.URI;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.SystemErasureCodingPolicies;
import org.junit.jupiter.api.Test;

/** How files are opened. */
class StripelineClientTest {

  /** A client of a NameNode that has one empty file of a policy, or none, and counts how often it is asked for its blocks. */
  private static final class Client extends StripelineClient {

    private final LocatedBlocks blocks;
    private int asked;

    private Client(LocatedBlocks blocks) throws IOException {
      super(URI.create("hdfs://127.0.0.1:1"), new Configuration(), null);
      this.blocks = blocks;
    }

    @Override
    public LocatedBlocks getLocatedBlocks(String src, long start, long length) {
      asked++;
      return blocks;
    }
  }

  private static Client client(ErasureCodingPolicy policy) throws IOException {
    return new Client(new LocatedBlocks(0, false, List.of(), null, true, null, policy));
  }

  @Test
  void theNameNodeIsAskedOnceForAFileThatIsOpened() throws Exception {
    Client replicated = client(null);
    try (DFSInputStream in = replicated.open("/file", 4096, true)) {
      assertEquals(DFSInputStream.class, in.getClass());
      assertEquals(-1, in.read());
    }
    assertEquals(1, replicated.asked);
    Client coded = client(SystemErasureCodingPolicies.getByID((byte) 1));
    try (DFSInputStream in = coded.open("/file", 4096, true)) {
      assertEquals(StripelineInputStream.class, in.getClass());
    }
    assertEquals(1, coded.asked);
  }

  @Test
  void whatIsNotThereIsNotOpened() throws Exception {
    Client none = new Client(null);
    assertThrows(IOException.class, () -> none.open("/file", 4096, true));
    assertEquals(1, none.asked);
  }
}
