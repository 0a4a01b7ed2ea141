package stripeline.hdfs.encode;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import stripeline.hdfs.Answer;
import stripeline.hdfs.Gateway;
import stripeline.hdfs.Request;

/** Parities that helpers make, in one pass along the machines of the data blocks. */
final class PipedParities implements Parities {

  /** Nothing came through helpers, so that another way can be taken. */
  static final class NothingCameException extends IOException {

    private static final long serialVersionUID = 1L;

    NothingCameException(String why, Throwable cause) {
      super("nothing came through helpers: " + why, cause);
    }
  }

  private final Answer answer;
  private final ByteBuffer[] first;

  /** Asks for them, and waits for the first bytes. */
  PipedParities(Gateway gateway, Work work) throws NothingCameException {
    if (gateway == null) {
      throw new NothingCameException("no gateway is known here", null);
    }
    Answer asked = null;
    try {
      asked = gateway.ask(request(work, gateway.settings().scheme()));
      int length = (int) Math.min(Worker.PIECE_BYTES, work.targetBytes());
      first = new ByteBuffer[work.targets().size()];
      for (int i = 0; i < first.length; i++) {
        first[i] = ByteBuffer.allocate(length);
      }
      asked.read(first, length);
      for (ByteBuffer each : first) {
        each.flip();
      }
      answer = asked;
    } catch (IOException nothing) {
      org.apache.hadoop.io.IOUtils.closeStream(asked);
      throw new NothingCameException(nothing.getMessage(), nothing);
    }
  }

  private static Request request(Work work, String scheme) throws IOException {
    ErasureCodingPolicy policy = work.policy();
    int k = policy.getNumDataUnits();
    List<Integer> wanted = new ArrayList<>();
    for (int parity = 0; parity < policy.getNumParityUnits(); parity++) {
      wanted.add(k + parity);
    }
    List<Request.Member> living = new ArrayList<>();
    for (int member = 0; member < work.sources().size(); member++) {
      LocatedBlock source = work.sources().get(member);
      DatanodeInfo at = source.getLocations()[0];
      try {
        living.add(new Request.Member(member, UUID.fromString(at.getDatanodeUuid()), at.getNetworkLocation(),
            new Request.Replica(source.getBlock().getBlockId(), source.getBlock().getGenerationStamp()), source.getBlockToken()));
      } catch (IllegalArgumentException none) {
        throw new IOException("the uuid of " + at + " is none, so it has no helper");
      }
    }
    ExtendedBlock parity = work.targets().get(0).getBlock();
    return new Request(parity.getBlockPoolId(), parity.getBlockId() - k, parity.getGenerationStamp(), policy.getCodecName(),
        k, policy.getNumParityUnits(), policy.getCellSize(), work.dataBytes(), 0, work.targetBytes(), Request.Purpose.ENCODE, scheme, wanted, living);
  }

  @Override
  public void next(ByteBuffer[] into, int length) throws IOException {
    if (!first[0].hasRemaining()) {
      answer.read(into, length);
      return;
    }
    // The first piece is as long as any.
    for (int i = 0; i < into.length; i++) {
      into[i].put(first[i]);
    }
  }

  @Override
  public void end() throws IOException {
    answer.finish();
  }

  @Override
  public String note() {
    return answer.note();
  }

  @Override
  public void close() throws IOException {
    answer.close();
  }
}
