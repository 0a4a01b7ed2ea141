package stripeline.hdfs;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/** Asks gateways of this machine. */
public final class Gateway {

  /** A few slices: fewer calls of the system than frames. */
  private static final int BUFFER_BYTES = 256 * 1024;

  private final Settings settings;

  public Gateway(Settings settings) {
    this.settings = settings;
  }

  /**
   * Sends a request to the first gateway that takes connections.
   *
   * @throws IOException if none does; what a gateway says comes with the answer
   */
  public Answer ask(Request request) throws IOException {
    byte[] bytes = request.toBytes();
    IOException none = new IOException("no gateway is configured: set " + Settings.GATEWAY_KEY);
    for (InetSocketAddress address : settings.gateways()) {
      Socket socket = new Socket();
      try {
        socket.setTcpNoDelay(true);
        socket.connect(address, settings.connectTimeoutMs());
        socket.setSoTimeout(settings.answerTimeoutMs());
        socket.getOutputStream().write(bytes);
        DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), BUFFER_BYTES));
        return new Answer(in, socket, request);
      } catch (IOException away) {
        socket.close();
        none = new IOException("no gateway answers at " + address + ": " + away.getMessage(), away);
      }
    }
    throw none;
  }

  public Settings settings() {
    return settings;
  }
}
