package stripeline.hdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.token.Token;
import org.junit.jupiter.api.Test;

class RequestTest {

  /** What the gateway's own tests read, made apart from both programs. */
  private static final Path SAMPLE = Path.of("../../crates/gateway/tests/request.hex");
  private static final Path ENCODE_SAMPLE = Path.of("../../crates/gateway/tests/encode.hex");

  private static final Token<?> TOKEN =
      new Token<>(new byte[] {1, 2, 3}, new byte[] {(byte) 0xaa, (byte) 0xbb}, new Text("HDFS_BLOCK_TOKEN"), new Text(""));

  @Test
  void aRequestIsWhatTheGatewayReads() throws IOException {
    Request.Member first = new Request.Member(0, UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"), "", null);
    Request.Member last = new Request.Member(8, UUID.fromString("01234567-89ab-cdef-0123-456789abcdef"), "/rack-a", TOKEN);
    Request request = new Request(
        "BP-1-127.0.0.1-2", -9_223_372_036_854_775_776L, 1_001, "rs", 6, 3, 1 << 20, 700_001, 64, 936, Request.Purpose.READ, "pipeline",
        List.of(2, 7), List.of(first, last));
    String expected = Files.readString(SAMPLE).replaceAll("\\s", "");
    assertEquals(expected, HexFormat.of().formatHex(request.toBytes()));
  }

  @Test
  void aRequestToEncodeNamesReplicas() throws IOException {
    UUID first = UUID.fromString("00112233-4455-6677-8899-aabbccddeeff");
    UUID second = UUID.fromString("01234567-89ab-cdef-0123-456789abcdef");
    Request request = new Request(
        "BP-1-127.0.0.1-2", -9_223_372_036_854_775_776L, 1_003, "rs", 6, 3, 1 << 20, (2 << 20) + 1, 0, 1 << 20, Request.Purpose.ENCODE, "",
        List.of(6, 7, 8), List.of(
            new Request.Member(0, first, "/rack-a", new Request.Replica(1_073_741_825, 1_001), TOKEN),
            new Request.Member(1, second, "/rack-a", new Request.Replica(1_073_741_826, 1_002), null),
            new Request.Member(2, first, "", new Request.Replica(1_073_741_827, 1_003), new Token<>())));
    String expected = Files.readString(ENCODE_SAMPLE).replaceAll("\\s", "");
    assertEquals(expected, HexFormat.of().formatHex(request.toBytes()));
  }

  @Test
  void whatTheGatewayWouldNotTakeIsNotSent() {
    String longName = "r".repeat(66_000);
    Request request = new Request(longName, 0, 0, "rs", 1, 1, 1, 1, 0, 1, Request.Purpose.REBUILD, "", List.of(0), List.of());
    assertThrows(IOException.class, request::toBytes);
  }
}
