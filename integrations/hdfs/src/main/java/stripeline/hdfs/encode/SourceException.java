package stripeline.hdfs.encode;

import java.io.IOException;
import org.apache.hadoop.ipc.RemoteException;

/** What was to be written did not come, or was wrong. Whoever was to take it is well. */
final class SourceException extends IOException {

  private static final long serialVersionUID = 1L;

  SourceException(IOException cause) {
    super(cause.getMessage(), cause);
  }

  /** With a sentence, as it comes from a DataNode. */
  public SourceException(String sentence) {
    super(sentence);
  }

  /** Such an exception as what it was, where a DataNode has sent it; any other as it came. */
  static IOException unwrap(IOException failed) {
    return failed instanceof RemoteException remote ? remote.unwrapRemoteException(SourceException.class) : failed;
  }
}
