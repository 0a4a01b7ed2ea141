package stripeline.hdfs;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;

class VersionsTest {

  @Test
  void onlyVersionsThatWereTriedAreTouched() {
    assertNull(Versions.trouble(), "the one that this is built with");
    assertNull(Versions.trouble("3.4.1-vendor-7"));
    assertNull(Versions.trouble("3.4.1.7.2.0-99"));
    for (String other : new String[] {"3.3.6", "3.4.0", "3.4.10", "3.5.1", "4.0.0"}) {
      assertNotNull(Versions.trouble(other), other);
    }
  }
}
