package stripeline.hdfs;

import java.util.List;
import org.apache.hadoop.util.VersionInfo;

/** Versions of Hadoop that were run. Others are left alone: they may have the same members and mean something else. */
public final class Versions {

  private static final List<String> TRIED = List.of("3.4.1", "3.4.2", "3.4.3", "3.5.0");

  private Versions() {}

  /** Why nothing is done with this version of Hadoop; null if it was tried. */
  public static String trouble() {
    return trouble(VersionInfo.getVersion());
  }

  static String trouble(String version) {
    // Distributors append what is theirs.
    boolean isTried = TRIED.stream().anyMatch(
        tried -> version.equals(tried) || version.startsWith(tried + "-") || version.startsWith(tried + "."));
    return isTried ? null : "Stripeline is not tried with Hadoop " + version + ", but with " + String.join(", ", TRIED);
  }
}
