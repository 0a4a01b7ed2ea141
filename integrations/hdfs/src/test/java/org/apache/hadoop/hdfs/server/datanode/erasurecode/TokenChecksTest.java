package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockPoolTokenSecretManager;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier.AccessMode;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenSecretManager;
import org.apache.hadoop.security.token.Token;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tokens that Hadoop's own classes make, with its keys, in both of its formats. */
class TokenChecksTest {

  private static final String POOL = "BP-1-127.0.0.1-2";
  private static final long BLOCK = -9_223_372_036_854_775_784L;

  /** What the helper's own test makes. */
  private static final Path SAMPLE = Path.of("../../crates/node/tests/token-question.hex");

  private static byte[] flow(int number) {
    byte[] flow = new byte[16];
    flow[15] = (byte) number;
    return flow;
  }

  private static BlockPoolTokenSecretManager keys(boolean protobuf, long lifetimeMs) {
    BlockPoolTokenSecretManager keys = new BlockPoolTokenSecretManager();
    keys.addBlockPool(POOL, new BlockTokenSecretManager(600_000, lifetimeMs, 0, 1, POOL, null, protobuf));
    return keys;
  }

  private static Token<BlockTokenIdentifier> token(BlockPoolTokenSecretManager keys, long block, AccessMode mode) throws IOException {
    StorageType[] types = {StorageType.DISK, StorageType.SSD};
    return keys.generateToken(new ExtendedBlock(POOL, block), EnumSet.of(mode), types, new String[] {"DS-1", "DS-2"});
  }

  private static TokenChecks.Question question(Token<?> token, byte[] shown, byte[] asked) throws Exception {
    return new TokenChecks.Question(
        POOL, BLOCK, asked, token.getIdentifier(), TokenChecks.proof(token.getPassword(), shown));
  }

  /** As {@code a_proof_is_what_java_makes} of crates/client, and Python's {@code hmac}. */
  @Test
  void aProofIsWhatTheGatewayMakes() throws Exception {
    byte[] proof = TokenChecks.proof("secret".getBytes(StandardCharsets.US_ASCII), flow(7));
    assertEquals("e13dd3f632a890c608fb83f8b95e71cd05f9404ae54b562d3ae94aec23b2cd67", HexFormat.of().formatHex(proof));
  }

  @Test
  void whoeverHasATokenMayReadItsBlockForOneFlow() throws Exception {
    for (boolean protobuf : new boolean[] {false, true}) {
      BlockPoolTokenSecretManager keys = keys(protobuf, 600_000);
      Token<BlockTokenIdentifier> token = token(keys, BLOCK, AccessMode.READ);
      assertNull(TokenChecks.refusal(keys, question(token, flow(7), flow(7))));
      assertNotNull(TokenChecks.refusal(keys, question(token, flow(7), flow(8))), "another flow");
    }
  }

  @Test
  void everyOtherTokenIsRefused() throws Exception {
    for (boolean protobuf : new boolean[] {false, true}) {
      BlockPoolTokenSecretManager keys = keys(protobuf, 600_000);
      Token<BlockTokenIdentifier> right = token(keys, BLOCK, AccessMode.READ);
      Token<BlockTokenIdentifier> another = token(keys, BLOCK + 1, AccessMode.READ);
      BlockPoolTokenSecretManager brief = keys(protobuf, 1);
      Token<BlockTokenIdentifier> expired = token(brief, BLOCK, AccessMode.READ);
      Thread.sleep(20);
      assertTrue(TokenChecks.refusal(brief, question(expired, flow(7), flow(7))).contains("expired"));
      List<String> refusals = new ArrayList<>(List.of(
          TokenChecks.refusal(keys, question(another, flow(7), flow(7))),
          TokenChecks.refusal(keys, question(token(keys, BLOCK, AccessMode.WRITE), flow(7), flow(7))),
          TokenChecks.refusal(keys(protobuf, 600_000), question(right, flow(7), flow(7))),
          TokenChecks.refusal(keys, new TokenChecks.Question(POOL, BLOCK, flow(7), new byte[0], new byte[0]))));
      // The identifier of one with the password of another.
      Token<?> forged = new Token<>(right.getIdentifier(), another.getPassword(), right.getKind(), right.getService());
      refusals.add(TokenChecks.refusal(keys, question(forged, flow(7), flow(7))));
      TokenChecks.Question elsewhere = question(right, flow(7), flow(7));
      refusals.add(TokenChecks.refusal(keys, new TokenChecks.Question(
          "BP-2", BLOCK, elsewhere.flow(), elsewhere.identifier(), elsewhere.proof())));
      refusals.add(TokenChecks.refusal(keys, new TokenChecks.Question(
          POOL, BLOCK, elsewhere.flow(), elsewhere.identifier(), new byte[0])));
      assertFalse(refusals.contains(null), refusals::toString);
    }
  }

  @Test
  void whateverAnIdentifierIsItIsRefusedAndNothingElseHappens() throws Exception {
    Random random = new Random(3);
    for (boolean protobuf : new boolean[] {false, true}) {
      BlockPoolTokenSecretManager keys = keys(protobuf, 600_000);
      Token<BlockTokenIdentifier> right = token(keys, BLOCK, AccessMode.READ);
      byte[] identifier = right.getIdentifier();
      for (int cut = 1; cut < identifier.length; cut++) {
        byte[] part = Arrays.copyOf(identifier, cut);
        assertRefused(keys, new Token<>(part, right.getPassword(), right.getKind(), right.getService()), "cut at " + cut);
        byte[] flipped = identifier.clone();
        flipped[cut] ^= (byte) (1 << random.nextInt(8));
        assertRefused(keys, new Token<>(flipped, right.getPassword(), right.getKind(), right.getService()), "byte " + cut);
      }
      for (int i = 0; i < 1_000; i++) {
        byte[] noise = new byte[random.nextInt(200)];
        random.nextBytes(noise);
        assertRefused(keys, new Token<>(noise, right.getPassword(), right.getKind(), right.getService()), "noise " + i);
      }
    }
  }

  private static void assertRefused(BlockPoolTokenSecretManager keys, Token<?> token, String what) throws Exception {
    // Nobody who does not know a key knows the password of such an identifier.
    assertNotNull(TokenChecks.refusal(keys, question(token, flow(7), flow(7))), what);
  }

  private static ByteBuffer ask(Path socket, byte[] question) throws IOException {
    try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
      channel.connect(UnixDomainSocketAddress.of(socket));
      channel.write(ByteBuffer.wrap(question));
      channel.shutdownOutput();
      ByteBuffer answer = ByteBuffer.allocate(1 << 12);
      while (channel.read(answer) >= 0) {
        // Until it is closed.
      }
      return answer.flip();
    }
  }

  @Test
  void aHelpersQuestionIsReadAndAnsweredInAFolderOfTheDataNode(@TempDir Path folder) throws Exception {
    byte[] question = sample();
    AtomicReference<TokenChecks.Question> asked = new AtomicReference<>();
    Path socket = folder.resolve(TokenSockets.NAME);
    // What a DataNode that was killed has left.
    Files.createFile(socket);
    List<Path> places = List.of(folder.resolve("none").resolve(TokenSockets.NAME), socket);
    try (TokenSockets sockets = TokenSockets.start(places, of -> {
      TokenChecks.Question before = asked.getAndSet(of);
      return before == null ? null : "no";
    })) {
      assertEquals(List.of(socket), sockets.bound());
      assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(socket)));
      assertEquals(ByteBuffer.wrap(new byte[] {1, 0, 0}), ask(socket, question));
      assertEquals(POOL, asked.get().pool());
      assertEquals(BLOCK, asked.get().block());
      assertEquals(List.of(16, 3, 32), List.of(asked.get().flow().length, asked.get().identifier().length, asked.get().proof().length));
      assertEquals(7, asked.get().flow()[15]);
      assertEquals(ByteBuffer.wrap(new byte[] {2, 0, 2, 'n', 'o'}), ask(socket, question));
      for (int cut = 0; cut < question.length; cut++) {
        assertEquals(0, ask(socket, Arrays.copyOf(question, cut)).remaining(), "cut at " + cut);
      }
      byte[] newer = question.clone();
      newer[5] = 9;
      assertEquals(2, ask(socket, newer).get(), "another version");
    }
    assertFalse(Files.exists(socket));
    assertThrows(IOException.class, () -> TokenSockets.start(places.subList(0, 1), of -> null));
  }

  private static byte[] sample() throws IOException {
    return HexFormat.of().parseHex(Files.readString(SAMPLE).replaceAll("\\s", ""));
  }

  private static boolean isAnswered(Path socket) {
    return assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
      try {
        return ask(socket, sample()).hasRemaining();
      } catch (IOException closed) {
        // Before the question was read.
        return false;
      }
    });
  }

  @Test
  void withoutAThreadAQuestionIsNotAnsweredAndLaterOnesAre(@TempDir Path folder) throws Exception {
    Path socket = folder.resolve(TokenSockets.NAME);
    AtomicInteger wanted = new AtomicInteger();
    ThreadFactory factory = task -> {
      if (wanted.getAndIncrement() < 2) {
        throw new OutOfMemoryError("unable to create native thread");
      }
      return new Thread(task);
    };
    try (TokenSockets sockets = TokenSockets.start(List.of(socket), of -> null, factory, ServerSocketChannel::accept)) {
      for (boolean expected : new boolean[] {false, false, true, true}) {
        assertEquals(expected, isAnswered(socket));
      }
    }
  }

  @Test
  void withoutADescriptorItWaitsAWhileAndTriesAgain(@TempDir Path folder) throws Exception {
    Path socket = folder.resolve(TokenSockets.NAME);
    AtomicInteger tried = new AtomicInteger();
    TokenSockets.Accepting none = server -> {
      if (tried.incrementAndGet() <= 5) {
        throw new IOException("Too many open files");
      }
      return server.accept();
    };
    try (TokenSockets sockets = TokenSockets.start(List.of(socket), of -> null, Thread::new, none)) {
      long start = System.nanoTime();
      assertTrue(isAnswered(socket));
      assertTrue(System.nanoTime() - start >= 500_000_000L, "it did not spin");
    }
  }
}
