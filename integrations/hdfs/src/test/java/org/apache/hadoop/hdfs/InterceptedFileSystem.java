package org.apache.hadoop.hdfs;

import java.io.Closeable;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.util.concurrent.Callable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;

/** HDFS's own client, with a test between it and the NameNode: {@code fs.hdfs.impl} names this class. */
public final class InterceptedFileSystem extends DistributedFileSystem {

  /** Sees each call to the NameNode of clients that are made from now on. */
  @FunctionalInterface
  public interface Interceptor {
    Object call(Method method, Object[] arguments, Callable<Object> toNameNode) throws Exception;
  }

  private static volatile Interceptor interceptor;

  /** The one of all clients that are made from now on. */
  public static void use(Interceptor next) {
    interceptor = next;
  }

  @Override
  void initDFSClient(URI uri, Configuration conf) throws IOException {
    super.initDFSClient(uri, conf);
    ClientProtocol namenode = dfs.getNamenode();
    Interceptor between = interceptor;
    dfs = new DFSClient(null, (ClientProtocol) Proxy.newProxyInstance(getClass().getClassLoader(),
        new Class<?>[] {ClientProtocol.class, Closeable.class}, (proxy, method, arguments) -> {
          // The connection stays, for calls that a test has kept.
          return method.getDeclaringClass() == ClientProtocol.class ? between.call(method, arguments, () -> real(namenode, method, arguments)) : null;
        }), conf, statistics);
  }

  private static Object real(ClientProtocol namenode, Method method, Object[] arguments) throws Exception {
    try {
      return method.invoke(namenode, arguments);
    } catch (InvocationTargetException failed) {
      throw failed.getCause() instanceof Exception cause ? cause : failed;
    }
  }
}
