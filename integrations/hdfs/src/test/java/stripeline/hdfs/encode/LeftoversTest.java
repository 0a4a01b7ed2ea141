package stripeline.hdfs.encode;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class LeftoversTest {

  private static final long LATER = Leftovers.SILENT_MS;

  @Test
  void aFileIsAbandonedWhenItStaysAsItWasForAMinute() {
    Leftovers leftovers = new Leftovers();
    assertFalse(leftovers.isAbandoned(1, 77, 0));
    assertFalse(leftovers.isAbandoned(1, 77, LATER - 1));
    assertTrue(leftovers.isAbandoned(1, 77, LATER));
    // Another inode of the same name is another encoder's.
    assertFalse(leftovers.isAbandoned(2, 77, LATER));
    // A sign of life counts from when it was seen, whatever the time that it has.
    assertFalse(leftovers.isAbandoned(1, 3, LATER));
    assertFalse(leftovers.isAbandoned(1, 3, 2 * LATER - 1));
    assertTrue(leftovers.isAbandoned(1, 3, 2 * LATER));
  }

  @Test
  void whatIsRememberedIsBoundedAndAFileWithoutALookIsLeft() {
    Leftovers leftovers = new Leftovers();
    for (long inode = 0; inode <= Leftovers.MAX; inode++) {
      assertFalse(leftovers.isAbandoned(inode, 77, 0));
    }
    assertTrue(leftovers.isAbandoned(Leftovers.MAX - 1, 77, LATER));
    assertFalse(leftovers.isAbandoned(Leftovers.MAX, 77, LATER));
  }
}
