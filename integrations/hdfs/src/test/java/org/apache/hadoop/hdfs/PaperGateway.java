package org.apache.hadoop.hdfs;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.CRC32C;

/** A gateway that has one member of a group, answers in the frames of docs/formats.md, and breaks off after so many bytes of an answer. */
final class PaperGateway implements Closeable {

  private static final int FRAME_BYTES = 32 * 1024;

  private final ServerSocket server = new ServerSocket(0, 16, InetAddress.getLoopbackAddress());
  private final AtomicInteger requests = new AtomicInteger();
  private final byte[] member;
  private final long breaksOffAfter;

  PaperGateway(byte[] member, long breaksOffAfter) throws IOException {
    this.member = member;
    this.breaksOffAfter = breaksOffAfter;
    Thread thread = new Thread(this::serve, "paper-gateway");
    thread.setDaemon(true);
    thread.start();
  }

  String address() {
    return "127.0.0.1:" + server.getLocalPort();
  }

  /** How many came. */
  int requests() {
    return requests.get();
  }

  /** A stream has one lost member, and asks for its portions one after the other. */
  private void serve() {
    while (!server.isClosed()) {
      try (Socket socket = server.accept()) {
        requests.incrementAndGet();
        answer(socket);
      } catch (IOException gone) {
        // Whoever asked has enough, or the test is over.
      }
    }
  }

  private void answer(Socket socket) throws IOException {
    DataInputStream in = new DataInputStream(socket.getInputStream());
    in.skipNBytes(8);
    byte[] bytes = new byte[in.readInt()];
    in.skipNBytes(4);
    in.readFully(bytes);
    ByteBuffer body = ByteBuffer.wrap(bytes);
    body.get();
    passText(body);
    body.getLong();
    body.getLong();
    passText(body);
    body.position(body.position() + 2 + 2 + 4 + 8);
    long offset = body.getLong();
    long end = offset + body.getLong();
    DataOutputStream out = new DataOutputStream(socket.getOutputStream());
    long left = breaksOffAfter;
    while (offset < end) {
      int count = (int) Math.min(Math.min(FRAME_BYTES, left), end - offset);
      if (count == 0) {
        return;
      }
      frame(out, 1, ByteBuffer.allocate(12 + count).putLong(offset).putInt(count).put(member, (int) offset, count));
      offset += count;
      left -= count;
    }
    frame(out, 2, ByteBuffer.allocate(10).putLong(end).putShort((short) 0));
  }

  private static void passText(ByteBuffer body) {
    int length = body.getShort();
    body.position(body.position() + length);
  }

  private static void frame(DataOutputStream out, int kind, ByteBuffer payload) throws IOException {
    CRC32C sum = new CRC32C();
    sum.update(payload.array());
    out.writeByte(kind);
    out.writeByte(0);
    out.writeShort(1);
    out.writeInt(payload.capacity());
    out.writeInt((int) sum.getValue());
    out.write(payload.array());
  }

  @Override
  public void close() throws IOException {
    server.close();
  }
}
