package stripeline.hdfs;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** How many blocks a stripe has. */
public record StripeShape(int dataBlocks, int parityBlocks) {

  /** Codec, data blocks, parities, KiB of a cell: as HDFS composes the names of its policies, and of those that operators add. */
  private static final Pattern POLICY = Pattern.compile("[A-Za-z-]+-([1-9]\\d{0,2})-([1-9]\\d{0,2})-[1-9]\\d*k");

  /** That of an erasure coding policy of HDFS, by its name; empty for what is no such name. */
  public static Optional<StripeShape> ofPolicy(String name) {
    Matcher parts = POLICY.matcher(name);
    return parts.matches()
        ? Optional.of(new StripeShape(Integer.parseInt(parts.group(1)), Integer.parseInt(parts.group(2))))
        : Optional.empty();
  }

  /** Blocks of a stripe. */
  public int total() {
    return dataBlocks + parityBlocks;
  }
}
