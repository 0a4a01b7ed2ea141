package stripeline.hdfs.cluster;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;

/** Copies files into a folder when its input ends, one after another. */
public final class Copier {

  private Copier() {}

  /** The file system, the folder, and the files. */
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.defaultFS", arguments[0]);
    try (FileSystem fs = FileSystem.newInstance(URI.create(arguments[0]), conf)) {
      fs.getFileStatus(new Path(arguments[1]));
      System.out.println("ready");
      System.in.read();
      for (int i = 2; i < arguments.length; i++) {
        Path file = new Path(arguments[i]);
        if (!FileUtil.copy(fs, file, fs, new Path(arguments[1], file.getName()), false, conf)) {
          throw new IOException(file + " was not copied");
        }
      }
    }
  }
}
