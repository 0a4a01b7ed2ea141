package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import jdk.net.ExtendedSocketOptions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.StorageLocation;
import org.apache.hadoop.util.Time;

/**
 * Where the helper beside this DataNode asks whether it may read a block: a socket in each of the DataNode's data folders, which are the
 * DataNode's alone. Nothing secret goes over it. The questions and answers are those of crates/node/src/hdfs/tokens.rs.
 */
final class TokenSockets implements Closeable {

  /** In a data folder. */
  static final String NAME = "stripeline.sock";

  /** Another place, for data folders whose paths are too long for sockets: the path of one. */
  static final String SOCKET_KEY = "stripeline.tokens.socket";

  private static final byte[] MAGIC = {'S', 'L', 'T', 'K'};
  private static final int VERSION = 1;
  private static final int PERMITTED = 1;
  private static final int REFUSED = 2;

  /** A helper cuts it there. */
  private static final int MAX_SENTENCE_BYTES = 512;

  /** An identifier has at most 64 KiB. */
  private static final int MAX_QUESTION_BYTES = 128 * 1024;

  /** An answer takes microseconds. */
  private static final int MAX_THREADS = 8;
  private static final int MAX_WAITING = 256;
  private static final long IDLE_S = 60;

  /** After a connection could not be taken, for want of descriptors or threads. It still waits, so that without a pause this would spin. */
  private static final long PAUSE_MS = 100;

  /** What lasts is told so often. */
  private static final long TELL_MS = 10_000;

  private final Function<TokenChecks.Question, String> refusal;
  private final Selector selector;
  private final List<Path> bound = new ArrayList<>();
  private final ThreadPoolExecutor threads;
  private final Accepting accepting;

  /** What went wrong last; of the thread that takes connections alone. */
  private Throwable trouble;
  private long toldMs = Time.monotonicNow() - TELL_MS;

  /** How a connection is taken; null if there is none. */
  interface Accepting {
    SocketChannel from(ServerSocketChannel server) throws IOException;
  }

  private TokenSockets(Function<TokenChecks.Question, String> refusal, ThreadFactory factory, Accepting accepting) throws IOException {
    this.refusal = refusal;
    this.accepting = accepting;
    selector = Selector.open();
    threads = new ThreadPoolExecutor(
        MAX_THREADS, MAX_THREADS, IDLE_S, TimeUnit.SECONDS, new ArrayBlockingQueue<>(MAX_WAITING), factory);
    threads.allowCoreThreadTimeOut(true);
  }

  private static Thread thread(Runnable task) {
    Thread thread = new Thread(task, "stripeline-tokens");
    thread.setDaemon(true);
    return thread;
  }

  /** Where a DataNode has them. */
  static List<Path> places(Configuration conf) {
    String set = conf.getTrimmed(SOCKET_KEY, "");
    if (!set.isEmpty()) {
      return List.of(Path.of(set));
    }
    List<Path> places = new ArrayList<>();
    for (StorageLocation location : DataNode.getStorageLocations(conf)) {
      if ("file".equals(location.getUri().getScheme())) {
        places.add(Path.of(location.getUri()).resolve(NAME));
      }
    }
    return places;
  }

  /**
   * Listens at as many of these places as it can.
   *
   * @param refusal why a block may not be read; null if it may
   * @throws IOException if it can at none
   */
  static TokenSockets start(List<Path> places, Function<TokenChecks.Question, String> refusal) throws IOException {
    return start(places, refusal, TokenSockets::thread, ServerSocketChannel::accept);
  }

  static TokenSockets start(
      List<Path> places, Function<TokenChecks.Question, String> refusal, ThreadFactory factory, Accepting accepting) throws IOException {
    TokenSockets sockets = new TokenSockets(refusal, factory, accepting);
    IOException none = new IOException("no data folder is known");
    for (Path place : places) {
      try {
        sockets.bind(place);
      } catch (IOException | RuntimeException trouble) {
        none = new IOException(place + ": " + trouble.getMessage(), trouble);
        StripelinePlugin.LOG.warn("helpers cannot ask at {}: {}", place, trouble.toString());
      }
    }
    if (sockets.bound.isEmpty()) {
      sockets.close();
      throw none;
    }
    thread(sockets::accept).start();
    return sockets;
  }

  private void bind(Path place) throws IOException {
    // What a DataNode that was killed has left.
    Files.deleteIfExists(place);
    ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    try {
      server.bind(UnixDomainSocketAddress.of(place));
      bound.add(place);
      Files.setPosixFilePermissions(place, PosixFilePermissions.fromString("rw-------"));
      server.configureBlocking(false);
      server.register(selector, SelectionKey.OP_ACCEPT, Files.getOwner(place));
    } catch (IOException | RuntimeException trouble) {
      server.close();
      throw trouble;
    }
  }

  List<Path> bound() {
    return List.copyOf(bound);
  }

  /** Goes on whatever happens, as long as the sockets are open: descriptors, threads and memory come back. */
  private void accept() {
    while (selector.isOpen()) {
      try {
        if (trouble != null) {
          Thread.sleep(PAUSE_MS);
          tell();
        }
        selector.select(this::take);
      } catch (ClosedSelectorException closed) {
        return;
      } catch (InterruptedException ended) {
        StripelinePlugin.LOG.error("helpers cannot ask any more: blocks of this DataNode are not read through helpers", ended);
        return;
      } catch (Throwable any) {
        trouble = any;
      }
    }
  }

  private void tell() {
    if (selector.isOpen() && Time.monotonicNow() - toldMs >= TELL_MS) {
      toldMs = Time.monotonicNow();
      StripelinePlugin.LOG.error("a helper that asks what it may read is not heard; it is tried again each {} ms", PAUSE_MS, trouble);
    }
    trouble = null;
  }

  private void take(SelectionKey key) {
    SocketChannel channel = null;
    try {
      channel = accepting.from((ServerSocketChannel) key.channel());
      if (channel != null) {
        SocketChannel taken = channel;
        threads.execute(() -> answer(taken, (UserPrincipal) key.attachment()));
      }
    } catch (ClosedChannelException | RejectedExecutionException ending) {
      // It ends, or more are asking than are answered: whoever hears nothing asks again.
      org.apache.hadoop.io.IOUtils.closeStream(channel);
    } catch (Throwable any) {
      org.apache.hadoop.io.IOUtils.closeStream(channel);
      trouble = any;
    }
  }

  private void answer(SocketChannel channel, UserPrincipal owner) {
    try (channel) {
      UserPrincipal peer = channel.getOption(ExtendedSocketOptions.SO_PEERCRED).user();
      if (!peer.equals(owner) && !peer.getName().equals("root")) {
        return;
      }
      DataInputStream in = new DataInputStream(Channels.newInputStream(channel));
      byte[] magic = new byte[MAGIC.length];
      in.readFully(magic);
      int version = in.readShort();
      int length = in.readInt();
      if (!Arrays.equals(magic, MAGIC) || length < 0 || length > MAX_QUESTION_BYTES) {
        return;
      }
      byte[] body = new byte[length];
      in.readFully(body);
      if (version != VERSION) {
        say(channel, "a question of version " + version + "; this plugin answers version " + VERSION);
        return;
      }
      say(channel, refusal.apply(TokenChecks.Question.read(new DataInputStream(new ByteArrayInputStream(body)))));
    } catch (ClosedChannelException | EOFException gone) {
      // Whoever asked does not wait for it.
    } catch (IOException | RuntimeException trouble) {
      StripelinePlugin.LOG.warn("a helper's question is not answered: {}", trouble.toString());
    }
  }

  private static void say(SocketChannel to, String why) throws IOException {
    byte[] sentence = why == null ? new byte[0] : why.getBytes(StandardCharsets.UTF_8);
    int length = Math.min(sentence.length, MAX_SENTENCE_BYTES);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeByte(why == null ? PERMITTED : REFUSED);
    out.writeShort(length);
    out.write(sentence, 0, length);
    Channels.newOutputStream(to).write(bytes.toByteArray());
  }

  @Override
  public void close() throws IOException {
    for (SelectionKey key : List.copyOf(selector.keys())) {
      key.channel().close();
    }
    selector.close();
    threads.shutdown();
    for (Path place : bound) {
      Files.deleteIfExists(place);
    }
  }
}
