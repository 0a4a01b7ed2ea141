package stripeline.hdfs.encode;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.io.erasurecode.CodecUtil;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;

/** Parities that HDFS's own coder makes here, of data blocks that are read here. */
final class CodedParities implements Parities {

  private final Work work;
  private final List<BlockInput> sources;
  private final RawErasureEncoder encoder;
  private final byte[][] data;
  private long position;

  /** Of these sources, which are closed with it. */
  CodedParities(Work work, List<BlockInput> sources, Configuration conf) {
    this.work = work;
    this.sources = sources;
    encoder = encoder(work.policy(), conf);
    data = new byte[work.policy().getNumDataUnits()][Worker.PIECE_BYTES];
  }

  static RawErasureEncoder encoder(ErasureCodingPolicy policy, Configuration conf) {
    ErasureCoderOptions options = new ErasureCoderOptions(policy.getNumDataUnits(), policy.getNumParityUnits());
    return CodecUtil.createRawEncoder(conf, policy.getCodecName(), options);
  }

  @Override
  public void next(ByteBuffer[] into, int length) throws IOException {
    for (int member = 0; member < data.length; member++) {
      int there = member < sources.size() ? (int) Math.max(0, Math.min(length, work.sourceBytes(member) - position)) : 0;
      if (there > 0) {
        sources.get(member).readFully(data[member], there);
      }
      // What a short block lacks is zero.
      Arrays.fill(data[member], there, length, (byte) 0);
    }
    encode(encoder, data, into, length);
    position += length;
  }

  /** Encodes so many bytes of each. */
  static void encode(RawErasureEncoder encoder, byte[][] data, ByteBuffer[] into, int length) throws IOException {
    ByteBuffer[] inputs = new ByteBuffer[data.length];
    for (int i = 0; i < data.length; i++) {
      inputs[i] = ByteBuffer.wrap(data[i], 0, length);
    }
    ByteBuffer[] outputs = new ByteBuffer[into.length];
    for (int i = 0; i < into.length; i++) {
      outputs[i] = into[i].slice(into[i].position(), length);
      into[i].position(into[i].position() + length);
    }
    encoder.encode(inputs, outputs);
  }

  @Override
  public void end() {
    // Each piece was checked as it was read.
  }

  @Override
  public String note() {
    return "by HDFS's own coder";
  }

  @Override
  public void close() {
    sources.forEach(BlockInput::close);
    encoder.release();
  }
}
