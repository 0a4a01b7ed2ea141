package stripeline.hdfs.encode;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.junit.jupiter.api.Test;

class LeaseTest {

  private final BlockingQueue<String> renewed = new LinkedBlockingQueue<>();
  private final ClientProtocol namenode = (ClientProtocol) Proxy.newProxyInstance(getClass().getClassLoader(),
      new Class<?>[] {ClientProtocol.class}, (proxy, method, arguments) -> {
        assertTrue(method.getName().equals("renewLease") && arguments[1].equals(List.of()));
        renewed.add((String) arguments[0]);
        return null;
      });

  /** Whether this holder is renewed before the encoder itself has been so thrice. */
  private boolean isRenewed(String holder, String encoder) throws InterruptedException {
    for (int rounds = 0; rounds < 3; ) {
      String next = renewed.poll(30, TimeUnit.SECONDS);
      assertNotEquals(null, next);
      if (next.equals(holder)) {
        return true;
      }
      rounds += next.equals(encoder) ? 1 : 0;
    }
    return false;
  }

  /** What could not be closed would be open for as long as the encoder works on other files. */
  @Test
  void aHolderByItselfIsRenewedUntilItIsClosedAndTheEncoderLonger() throws Exception {
    try (Lease lease = new Lease(namenode, 5)) {
      Lease.Own own = lease.own();
      assertNotEquals(lease.holder(), own.holder());
      // The encoder was renewed before there was this one.
      renewed.clear();
      assertTrue(isRenewed(own.holder(), lease.holder()));
      own.close();
      renewed.clear();
      assertFalse(isRenewed(own.holder(), lease.holder()));
    }
  }
}
