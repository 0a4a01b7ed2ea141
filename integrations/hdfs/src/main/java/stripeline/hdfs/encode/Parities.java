package stripeline.hdfs.encode;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;

/** The bytes of a group's parities, abreast. */
interface Parities extends Closeable {

  /** Puts the next bytes of each into its buffer. */
  void next(ByteBuffer[] into, int length) throws IOException;

  /** All came, and were right. */
  void end() throws IOException;

  /** How they came, for people. */
  String note();
}
