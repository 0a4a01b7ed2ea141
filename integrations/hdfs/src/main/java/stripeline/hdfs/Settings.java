package stripeline.hdfs;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;

/** What an operator sets in {@code hdfs-site.xml}. */
public record Settings(List<InetSocketAddress> gateways, String scheme, int connectTimeoutMs, int answerTimeoutMs) {

  /** Gateways of this machine, {@code host:port}, tried in this order. */
  public static final String GATEWAY_KEY = "stripeline.gateway";
  public static final String GATEWAY_DEFAULT = "127.0.0.1:7450";

  /** By which scheme blocks are decoded; {@code auto}: the one that is predicted to be fastest. */
  public static final String SCHEME_KEY = "stripeline.scheme";
  public static final String SCHEME_DEFAULT = "auto";

  /** A gateway of this machine accepts within microseconds, or is not there. */
  public static final String CONNECT_TIMEOUT_KEY = "stripeline.connect.timeout.ms";
  public static final int CONNECT_TIMEOUT_DEFAULT = 1_000;

  /** Between two frames; a flow that goes around a helper that died takes ten seconds at most. */
  public static final String ANSWER_TIMEOUT_KEY = "stripeline.answer.timeout.ms";
  public static final int ANSWER_TIMEOUT_DEFAULT = 30_000;

  /**
   * Reads them.
   *
   * @throws IllegalArgumentException with a sentence that says which one is wrong
   */
  public static Settings of(Configuration conf) {
    List<InetSocketAddress> gateways = new ArrayList<>();
    for (String address : conf.getTrimmedStrings(GATEWAY_KEY, GATEWAY_DEFAULT)) {
      gateways.add(parse(address));
    }
    String scheme = conf.getTrimmed(SCHEME_KEY, SCHEME_DEFAULT);
    return new Settings(
        List.copyOf(gateways),
        scheme.equals("auto") ? "" : scheme,
        positive(conf, CONNECT_TIMEOUT_KEY, CONNECT_TIMEOUT_DEFAULT),
        positive(conf, ANSWER_TIMEOUT_KEY, ANSWER_TIMEOUT_DEFAULT));
  }

  private static InetSocketAddress parse(String address) {
    int colon = address.lastIndexOf(':');
    try {
      if (colon > 0) {
        return new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
      }
    } catch (IllegalArgumentException notANumber) {
      // Said below.
    }
    throw new IllegalArgumentException(GATEWAY_KEY + ": " + address + " is no host:port");
  }

  private static int positive(Configuration conf, String key, int otherwise) {
    int value = conf.getInt(key, otherwise);
    if (value <= 0) {
      throw new IllegalArgumentException(key + ": " + value + " is no number of milliseconds");
    }
    return value;
  }
}
