package stripeline.hdfs.encode;

/** Another encoder has closed its file, and perhaps ended: a look a minute later will show whether it lives. */
final class SecondLookException extends NotEncodedException {

  private static final long serialVersionUID = 1L;

  SecondLookException(Throwable cause) {
    super(Reason.IN_PROGRESS, "it is being encoded by another encoder, which has written it, or was until less than a minute ago", cause);
  }
}
