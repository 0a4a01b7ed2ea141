package stripeline.hdfs.encode;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.util.DataChecksum;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.Gateway;

/**
 * Does a {@link Work}: in a DataNode, so that a copy stays on its machine and parities are made in the core rack, or in the encoder
 * itself. Reads and writes are those of any client of HDFS, with the tokens that came with the work.
 */
final class Worker {

  private static final Logger LOG = LoggerFactory.getLogger(Worker.class);

  /** What is read and written at once, of each block: a few packets. */
  static final int PIECE_BYTES = 256 * 1024;

  /** Parities have the checksums that HDFS gives to files unless it is told otherwise. */
  private static final int PARITY_BYTES_PER_CHECKSUM = 512;

  private final Peers peers;
  private final Configuration conf;
  private final String name;

  /** Null where there is none. */
  private final Gateway gateway;

  /** One whose reads and writes carry this name. */
  Worker(Peers peers, Configuration conf, String name, Gateway gateway) {
    this.peers = peers;
    this.conf = conf;
    this.name = name;
    this.gateway = gateway;
  }

  /** All of it; an exception may leave some of a target behind, which is nobody's yet. */
  WorkDone run(Work work) throws IOException {
    return work.isCopy() ? copy(work) : parities(work);
  }

  private WorkDone copy(Work work) throws IOException {
    byte[] piece = new byte[PIECE_BYTES];
    try (BlockInput from = open(work.sources().get(0));
        BlockOutput to = new BlockOutput(peers, work.targets().get(0), checksum(from), name)) {
      for (long left = work.dataBytes(); left > 0; ) {
        int length = (int) Math.min(piece.length, left);
        read(from, piece, length);
        to.write(ByteBuffer.wrap(piece, 0, length));
        left -= length;
      }
      return new WorkDone(new int[] {to.finish()}, false, "");
    }
  }

  private static DataChecksum checksum(BlockInput from) throws SourceException {
    try {
      return from.checksum();
    } catch (IOException nowhere) {
      throw new SourceException(nowhere);
    }
  }

  private static void read(BlockInput from, byte[] piece, int length) throws SourceException {
    try {
      from.readFully(piece, length);
    } catch (IOException broken) {
      throw new SourceException(broken);
    }
  }

  private WorkDone parities(Work work) throws IOException {
    if (!work.byHelpers()) {
      return coded(work, "helpers were not to be asked");
    }
    String why;
    try (Parities piped = new PipedParities(gateway, work)) {
      // The first bytes are there before any DataNode hears of it.
      return new WorkDone(write(work, piped), true, piped.note());
    } catch (PipedParities.NothingCameException nothing) {
      why = nothing.getMessage();
      LOG.warn("parities of {} are made from blocks that are read here: {}", work.targets().get(0).getBlock(), why);
    }
    return coded(work, why);
  }

  private WorkDone coded(Work work, String why) throws IOException {
    List<BlockInput> sources = work.sources().stream().map(this::open).toList();
    try (Parities coded = new CodedParities(work, sources, conf)) {
      return new WorkDone(write(work, coded), false, why);
    }
  }

  private BlockInput open(LocatedBlock block) {
    return new BlockInput(peers, block, name, conf);
  }

  /** Writes all parities abreast; their CRCs. */
  private int[] write(Work work, Parities from) throws IOException {
    List<BlockOutput> outputs = new ArrayList<>();
    try {
      for (LocatedBlock target : work.targets()) {
        outputs.add(new BlockOutput(peers, target,
            DataChecksum.newDataChecksum(DataChecksum.Type.CRC32C, PARITY_BYTES_PER_CHECKSUM), name));
      }
      ByteBuffer[] pieces = new ByteBuffer[outputs.size()];
      for (int i = 0; i < pieces.length; i++) {
        pieces[i] = ByteBuffer.allocate(PIECE_BYTES);
      }
      for (long left = work.targetBytes(); left > 0; ) {
        int length = (int) Math.min(PIECE_BYTES, left);
        for (ByteBuffer piece : pieces) {
          piece.clear();
        }
        next(from, pieces, length);
        for (int i = 0; i < pieces.length; i++) {
          outputs.get(i).write(pieces[i].flip());
        }
        left -= length;
      }
      end(from);
      int[] crcs = new int[outputs.size()];
      for (int i = 0; i < crcs.length; i++) {
        crcs[i] = outputs.get(i).finish();
      }
      return crcs;
    } finally {
      outputs.forEach(BlockOutput::close);
    }
  }

  private static void next(Parities from, ByteBuffer[] into, int length) throws SourceException {
    try {
      from.next(into, length);
    } catch (IOException broken) {
      throw new SourceException(broken);
    }
  }

  private static void end(Parities from) throws SourceException {
    try {
      from.end();
    } catch (IOException wrong) {
      throw new SourceException(wrong);
    }
  }
}
