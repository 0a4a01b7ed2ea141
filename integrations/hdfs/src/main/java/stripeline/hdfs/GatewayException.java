package stripeline.hdfs;

import java.io.IOException;

/** What a gateway answered instead of bytes. */
public final class GatewayException extends IOException {

  private static final long serialVersionUID = 1L;

  /** Why: the numbers of docs/formats.md. */
  private final int code;

  GatewayException(int code, String sentence) {
    super(sentence + " (" + code + ")");
    this.code = code;
  }

  /** Why: the numbers of docs/formats.md. */
  public int code() {
    return code;
  }
}
