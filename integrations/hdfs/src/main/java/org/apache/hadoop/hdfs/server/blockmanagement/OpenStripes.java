package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;
import stripeline.hdfs.KeptReplicas;

/** The stripes-to-be to which the next blocks of files belong. What is forgotten costs a file its optimum, and nothing else. */
final class OpenStripes {

  /** Files that are written at once by the largest clusters; some 2 KiB each for a stripe of ten blocks. */
  static final int MAX_FILES = 16 * 1024;

  /** Whoever writes a block takes no longer for it; a file of that name that is written later is another one. */
  static final long IDLE_MS = 3_600_000;

  /** A stripe-to-be of a file. Guarded by itself. */
  static final class Stripe {

    private final int width;
    private final IntSupplier perRack;
    private KeptReplicas kept;
    private String coreRack;
    private int blocks;
    private List<KeptReplicas.Place> last = List.of();
    private boolean isLastKept;
    private long usedMs;

    private Stripe(int width, IntSupplier perRack) {
      this.width = width;
      this.perRack = perRack;
    }

    /** Where each of its blocks has a replica; null while it has none. */
    String coreRack() {
      return coreRack;
    }

    /** Before another block: a full stripe is followed by a new one. */
    void next() {
      if (kept == null || blocks >= width) {
        begin();
      }
    }

    /** Whether the block is kept by the flow with these replicas; if so it belongs to the stripe. */
    boolean take(List<KeptReplicas.Place> replicas) {
      boolean isKept = kept.add(replicas);
      if (isKept) {
        note(replicas, true);
      }
      return isKept;
    }

    /** The block belongs to the stripe, though it will have to be moved when the stripe is encoded. */
    void takeAsItIs(List<KeptReplicas.Place> replicas) {
      note(replicas, false);
    }

    /** A writer that could not write to one of these gives the block up, and asks again with what it found in {@code excluded}. */
    boolean isLast(java.util.function.Predicate<String> excluded) {
      return last.stream().anyMatch(place -> excluded.test(place.node()));
    }

    /** The last block is placed anew. */
    void forgetLast() {
      KeptReplicas before = kept;
      blocks--;
      kept = new KeptReplicas(perRack.getAsInt());
      int count = before.size() - (isLastKept ? 1 : 0);
      for (int block = 0; block < count; block++) {
        kept.add(before.replicas(block));
      }
      coreRack = blocks == 0 ? null : coreRack;
      last = List.of();
    }

    private void begin() {
      kept = new KeptReplicas(perRack.getAsInt());
      coreRack = null;
      blocks = 0;
    }

    private void note(List<KeptReplicas.Place> replicas, boolean isKept) {
      if (coreRack == null && !replicas.isEmpty()) {
        coreRack = replicas.get(0).rack();
      }
      last = replicas;
      isLastKept = isKept;
      blocks++;
    }
  }

  private final int width;
  private final IntSupplier perRack;
  private final LongSupplier clockMs;
  private final Map<String, Stripe> byPath;

  /** Of stripes with so many data blocks, of which a rack may have so many when they are encoded. */
  OpenStripes(int width, IntSupplier perRack, int maxFiles, LongSupplier clockMs) {
    this.width = width;
    this.perRack = perRack;
    this.clockMs = clockMs;
    byPath = new LinkedHashMap<>(16, 0.75f, true) {
      private static final long serialVersionUID = 1L;

      @Override
      protected boolean removeEldestEntry(Map.Entry<String, Stripe> eldest) {
        return size() > maxFiles;
      }
    };
  }

  /** The stripe to which the next block of a file belongs, or its last one. */
  synchronized Stripe of(String path) {
    long now = clockMs.getAsLong();
    Stripe stripe = byPath.get(path);
    if (stripe == null || now - stripe.usedMs > IDLE_MS) {
      stripe = new Stripe(width, perRack);
      byPath.put(path, stripe);
    }
    stripe.usedMs = now;
    return stripe;
  }

  synchronized int size() {
    return byPath.size();
  }
}
