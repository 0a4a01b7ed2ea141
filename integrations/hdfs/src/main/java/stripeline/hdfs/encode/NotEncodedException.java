package stripeline.hdfs.encode;

import java.io.IOException;

/** Why a file was not encoded. It is as it was, unless that is not known. */
public class NotEncodedException extends IOException {

  private static final long serialVersionUID = 1L;

  /** Why. */
  public enum Reason {
    /** It is erasure-coded already. */
    ENCODED(true),
    /** It has no bytes. */
    EMPTY(true),
    /** Its stripe would take more room than its replicas do. */
    LARGER(true),
    /** Somebody writes it. */
    OPEN(false),
    /** A snapshot has it too. */
    SNAPSHOT(false),
    /** It is in an encryption zone. */
    ENCRYPTED(false),
    /** It is named by a path below {@code /.reserved}. */
    RESERVED(false),
    /** Its blocks are of another size than the cells of the policy. */
    BLOCK_SIZE(false),
    /** A block before its last one is short. */
    SHORT_BLOCK(false),
    /** Blocks so large that HDFS's own streams could not read the stripe. */
    TOO_LARGE(false),
    /** A block of it is on no DataNode that lives. */
    LOST_BLOCK(false),
    /** The policy is none that can be used. */
    POLICY(false),
    /** Too few DataNodes have room. */
    MACHINES(false),
    /** Another encoder is at work on it, or was a minute ago. */
    IN_PROGRESS(false),
    /** It was written to, moved or deleted meanwhile. */
    CHANGED(false),
    /** What was written differs from it. */
    DIFFERS(false),
    /** The NameNode did not say whether the encoded file took its place. */
    UNKNOWN(false);

    private final boolean isFine;

    Reason(boolean isFine) {
      this.isFine = isFine;
    }

    /** Whether nothing is amiss: there is nothing to be done. */
    public boolean isFine() {
      return isFine;
    }
  }

  private final Reason reason;

  NotEncodedException(Reason reason, String sentence) {
    super(sentence);
    this.reason = reason;
  }

  NotEncodedException(Reason reason, String sentence, Throwable cause) {
    super(sentence, cause);
    this.reason = reason;
  }

  public Reason reason() {
    return reason;
  }
}
