package stripeline.hdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The frames are those that the gateway's own test makes ({@code frames_are_as_java_reads_them}). */
class AnswerTest {

  private static final String DATA = "01000001000000106609501500000000000000400000000261624344";
  private static final String END = "020000010000001523724f2400000000000003a8000b627920706970656c696e65";
  private static final String CORRUPT = "040000010000000608906963000200010008";
  private static final String ERROR = "030000010000000b02cdf4b000030007746f6f20666577";

  /** Of {@code length} bytes from byte 64 on of two members. */
  private static Answer answer(int length, String... frames) {
    byte[] bytes = HexFormat.of().parseHex(String.join("", frames));
    Request request = new Request("BP-1", 0, 0, "rs", 6, 3, 1, 1, 64, length, Request.Purpose.READ, "", List.of(2, 7), List.of());
    return new Answer(new DataInputStream(new ByteArrayInputStream(bytes)), () -> { }, request);
  }

  private static ByteBuffer[] two(int length) {
    return new ByteBuffer[] {ByteBuffer.allocate(length), ByteBuffer.allocate(length)};
  }

  @Test
  void bytesOfEachMemberComeInAnyPortions() throws IOException {
    Answer answer = answer(2, DATA, END);
    ByteBuffer[] into = two(2);
    answer.read(into, 1);
    assertEquals(1, into[1].position());
    answer.read(into, 1);
    assertArrayEquals("ab".getBytes(), into[0].array());
    assertArrayEquals("CD".getBytes(), into[1].array());
    answer.finish();
    assertEquals("by pipeline", answer.note());

    ByteBuffer[] onlyOne = {null, ByteBuffer.allocate(2)};
    answer(2, DATA).read(onlyOne, 2);
    assertArrayEquals("CD".getBytes(), onlyOne[1].array());
  }

  @Test
  void corruptMembersAreHeardOfWithTheEndOrAnError() throws IOException {
    Answer answer = answer(2, DATA, CORRUPT, END);
    answer.read(two(2), 2);
    assertTrue(answer.corrupt().isEmpty());
    answer.finish();
    assertEquals(List.of(1, 8), List.copyOf(answer.corrupt()));
    Answer failed = answer(3, DATA, CORRUPT, ERROR);
    assertThrows(GatewayException.class, () -> failed.read(two(3), 3));
    assertEquals(List.of(1, 8), List.copyOf(failed.corrupt()));
    assertThrows(IOException.class, () -> answer(2, DATA, CORRUPT).read(two(3), 3));
    String broken = "0400000100000002105a07250002";
    assertThrows(IOException.class, () -> answer(2, broken).read(two(2), 2), "two members are said to be there");
  }

  @Test
  void whateverElseComesIsAnException() {
    GatewayException refused = assertThrows(GatewayException.class, () -> answer(2, ERROR).read(two(2), 2));
    assertEquals(3, refused.code());
    assertTrue(refused.getMessage().startsWith("too few"));
    assertThrows(IOException.class, () -> answer(2, DATA, DATA).read(two(4), 4), "bytes that came already");
    assertThrows(IOException.class, () -> answer(1, DATA).read(two(1), 1), "more than was wanted");
    assertThrows(IOException.class, () -> answer(2, END).read(two(2), 2), "an end before the end");
    assertThrows(IOException.class, () -> answer(3, DATA, END).finish(), "too few bytes");
    for (int cut = 0; cut < DATA.length(); cut += 2) {
      String part = DATA.substring(0, cut);
      assertThrows(IOException.class, () -> answer(2, part).read(two(2), 2), "cut at " + cut);
    }
    for (int at = 0; at < DATA.length(); at += 2) {
      if (at == 2) {
        continue; // Nobody looks at the unused byte.
      }
      int flipped = Integer.parseInt(DATA.substring(at, at + 2), 16) ^ 0x41;
      String other = DATA.substring(0, at) + String.format("%02x", flipped) + DATA.substring(at + 2);
      assertThrows(IOException.class, () -> answer(2, other).read(two(2), 2), "byte " + at / 2);
    }
  }
}
