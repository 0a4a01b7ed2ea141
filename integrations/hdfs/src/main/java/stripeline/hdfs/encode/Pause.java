package stripeline.hdfs.encode;

import java.io.InterruptedIOException;

/** Waits between two questions. */
final class Pause {

  private Pause() {}

  static void ms(long milliseconds) throws InterruptedIOException {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted");
    }
  }
}
