package stripeline.hdfs.cluster;

import java.io.IOException;
import java.net.URI;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A client that reads cells by their position, of a member that is lost and of one that is not, as HDFS does it and through helpers. */
public final class CellReads {

  private static final int WARM_UP = 3;

  private CellReads() {}

  /** The file system, a gateway, a file, its first group's lost member, bytes of a block, and how many reads of each kind. */
  public static void main(String[] arguments) throws Exception {
    String name = arguments[2];
    int lost = Integer.parseInt(arguments[3]);
    int reads = Integer.parseInt(arguments[5]);
    for (String scheme : new String[] {Recovery.ORIGINAL, "conventional", "ppr", "pipeline"}) {
      Configuration conf = new Configuration();
      conf.set("fs.defaultFS", arguments[0]);
      if (!scheme.equals(Recovery.ORIGINAL)) {
        conf.set("fs.hdfs.impl", "org.apache.hadoop.hdfs.StripelineFileSystem");
        conf.set("stripeline.gateway", arguments[1]);
        conf.set("stripeline.scheme", scheme);
      }
      try (FileSystem fs = FileSystem.newInstance(URI.create(arguments[0]), conf); FSDataInputStream in = fs.open(new Path(name))) {
        int healthy = lost == 0 ? 1 : 0;
        for (int i = 0; i < WARM_UP + reads; i++) {
          double[] took = {seconds(in, healthy), seconds(in, lost)};
          if (i >= WARM_UP) {
            System.out.printf(Locale.ROOT, "read %s healthy %.6f%nread %s lost %.6f%n", scheme, took[0], scheme, took[1]);
          }
        }
      }
    }
  }

  private static double seconds(FSDataInputStream in, int member) throws IOException {
    byte[] cell = new byte[Recovery.CELL];
    long start = System.nanoTime();
    in.readFully((long) member * Recovery.CELL, cell);
    return (System.nanoTime() - start) / 1e9;
  }
}
