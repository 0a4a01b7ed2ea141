package stripeline.hdfs.encode;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.protocol.RecoveryInProgressException;
import org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.util.Time;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/**
 * Turns one replicated file into an erasure-coded one of the same name.
 *
 * <pre>
 *   f (replicated)          ._stripeline_ID.encoding            who else may write f
 *   ────────────────────────────────────────────────────────────────────────────────
 *   read                    created, its blocks written         everybody
 *   read                    complete, verified, attributes      everybody
 *   lease taken, unchanged?                                     nobody
 *   gone  ◀── rename ────── of this inode onto that inode       everybody
 * </pre>
 *
 * <p>Whatever fails, and wherever the encoder ends, {@code f} is there with all of its bytes, and beside it at most the other file,
 * which the next encoder removes. Files are named by their inodes, so that nothing else is ever replaced, or takes its place; but what
 * is removed is named by its path, for the inode may be {@code f} by then.
 */
final class FileEncoding {

  private static final Logger LOG = LoggerFactory.getLogger(FileEncoding.class);

  /** What programs that list a folder take for hidden. */
  private static final String PREFIX = "._stripeline_";
  private static final String SUFFIX = ".encoding";

  /** DataNodes report finished blocks at once, and the NameNode has them within this time. */
  private static final long REPORTED_WITHIN_MS = 60_000;
  private static final long POLL_MS = 50;

  private final Encoder encoder;
  private final ClientProtocol namenode;
  private final String holder;
  private final Original original;
  private final Tally tally;
  private final boolean byHelpers;

  /** One whose parities helpers make, if they can and may. */
  FileEncoding(Encoder encoder, Original original, Tally tally, boolean byHelpers) {
    this.encoder = encoder;
    this.original = original;
    this.tally = tally;
    this.byHelpers = byHelpers;
    namenode = encoder.fs().getClient().getNamenode();
    holder = encoder.lease().holder();
  }

  /** Whether a file is what an encoder writes until it takes the place of an original. */
  static boolean isTemporary(String name) {
    return name.startsWith(PREFIX) && name.endsWith(SUFFIX);
  }

  /** Removes what an encoder has written of a file that is no more: it can take nobody's place. */
  static void removeOrphan(DistributedFileSystem fs, Path left) throws IOException {
    String name = left.getName();
    try {
      long original = Long.parseLong(name.substring(PREFIX.length(), name.length() - SUFFIX.length()));
      if (fs.getClient().getFileInfo(Original.byInode(original)) != null) {
        return;
      }
    } catch (NumberFormatException foreign) {
      return;
    } catch (FileNotFoundException gone) {
      // So says the NameNode.
    }
    if (fs.delete(left, false)) {
      LOG.info("{} is of a file that is no more, and is removed", left);
    }
  }

  void run() throws IOException {
    HdfsFileStatus made = create();
    Temporary temporary = new Temporary(encoder.fs().getClient(), temporary(), made.getFileId());
    String path = Original.byInode(made.getFileId());
    boolean isLeft = true;
    try {
      Attributes.copyStoragePolicy(encoder.fs(), original.status(), made);
      List<int[]> parityCrcs = new ArrayList<>();
      ExtendedBlock last = writeGroups(path, made.getFileId(), parityCrcs);
      // Closed it has no lease that would keep other encoders from it; its last time is the original's.
      Lease.Sign lives = encoder.lease().sign(Leftovers.signs(temporary));
      try {
        complete(namenode, path, holder, last, made.getFileId());
        verify(made.getFileId(), parityCrcs);
      } finally {
        lives.close();
      }
      Attributes.copy(encoder.fs(), original.status(), made.getFileId());
      new Swap(encoder, original, temporary).run();
      isLeft = false;
    } catch (NotEncodedException not) {
      isLeft = not.reason() != Reason.UNKNOWN;
      throw not;
    } finally {
      if (isLeft) {
        remove(temporary);
      }
    }
  }

  private void verify(long inode, List<int[]> parityCrcs) throws IOException {
    original.checkUnchanged(encoder.fs());
    try {
      encoder.verification().check(original.status(), inode, parityCrcs);
    } catch (NotEncodedException differs) {
      // It may be the original that is another one now.
      original.checkUnchanged(encoder.fs());
      throw differs;
    }
  }

  private void remove(Temporary temporary) {
    try {
      temporary.remove();
    } catch (IOException left) {
      LOG.warn("{} is left beside {}, for the next encoder to remove: {}", temporary.path(), original.path(), left.toString());
    }
  }

  /** Where the encoded file is until it takes the place of the original. */
  private String temporary() {
    return new Path(new Path(original.path()).getParent(), PREFIX + original.status().getFileId() + SUFFIX).toUri().getPath();
  }

  /** The encoded file, new and empty. What an encoder has left that ended is removed; one that lives is let alone. */
  private HdfsFileStatus create() throws IOException {
    try {
      return createNew();
    } catch (RecoveryInProgressException left) {
      // Its writer has lost the lease: he has ended, or is about to find that the file is gone. HDFS cannot close a group of fewer
      // than k blocks, and would try for ever.
      namenode.delete(temporary(), false);
    } catch (FileAlreadyExistsException closed) {
      removeAbandoned(closed);
    }
    LOG.info("{} was left by an encoder that ended, and is removed", temporary());
    return createNew();
  }

  /** It is closed, so no lease says whether its encoder verifies it, or has ended. */
  private void removeAbandoned(FileAlreadyExistsException closed) throws IOException {
    HdfsFileStatus there = namenode.getFileInfo(temporary());
    if (there == null) {
      return;
    }
    if (!encoder.leftovers().isAbandoned(there)) {
      throw new SecondLookException(closed);
    }
    new Temporary(encoder.fs().getClient(), temporary(), there.getFileId()).remove();
  }

  private HdfsFileStatus createNew() throws IOException {
    try {
      // Only the owner may see it before it has the original's permissions.
      return namenode.create(temporary(), new FsPermission((short) 0600), holder,
          new EnumSetWritable<>(EnumSet.of(CreateFlag.CREATE)), false, (short) 1, original.status().getBlockSize(),
          CryptoProtocolVersion.supported(), encoder.policy().getName(), null);
    } catch (RemoteException refused) {
      IOException cause = refused.unwrapRemoteException();
      if (cause instanceof AlreadyBeingCreatedException) {
        throw new NotEncodedException(Reason.IN_PROGRESS, "it is being encoded by another encoder, or was until less than a minute ago", cause);
      }
      throw cause;
    }
  }

  /** All groups; the last one, with its bytes. */
  private ExtendedBlock writeGroups(String path, long inode, List<int[]> parityCrcs) throws IOException {
    int k = encoder.policy().getNumDataUnits();
    ExtendedBlock previous = null;
    for (int first = 0; first < original.blocks().size(); first += k) {
      List<LocatedBlock> data = original.blocks().subList(first, Math.min(first + k, original.blocks().size()));
      GroupLayout layout = encoder.layout(data);
      LocatedStripedBlock group = addBlock(path, inode, previous, layout);
      parityCrcs.add(write(data, layout, new GroupTargets(group, encoder.policy(), layout)));
      previous = group.getBlock();
      previous.setNumBytes(data.stream().mapToLong(LocatedBlock::getBlockSize).sum());
      tally.groups.increment();
    }
    return previous;
  }

  private LocatedStripedBlock addBlock(String path, long inode, ExtendedBlock previous, GroupLayout layout)
      throws IOException {
    String[] favored = layout.all().stream().map(DatanodeInfo::getXferAddr).toArray(String[]::new);
    long deadline = Time.monotonicNow() + REPORTED_WITHIN_MS;
    while (true) {
      try {
        return (LocatedStripedBlock) namenode.addBlock(path, holder, previous, null, inode, favored, null);
      } catch (RemoteException refused) {
        IOException cause = refused.unwrapRemoteException(NotReplicatedYetException.class);
        if (refused.getClassName().equals(NoSuchElementException.class.getName()) && favored != null) {
          // Where one that was asked for is not taken HDFS's policy for groups fails over the others: it may choose all of them.
          LOG.info("a group of {} goes where HDFS has it: the NameNode does not take {}", original.path(), layout.all());
          favored = null;
          continue;
        }
        if (!(cause instanceof NotReplicatedYetException) || Time.monotonicNow() > deadline) {
          throw refused.unwrapRemoteException();
        }
      }
      Pause.ms(POLL_MS);
    }
  }

  /** Writes the blocks of a group, all at once; the CRCs of its parities. */
  private int[] write(List<LocatedBlock> data, GroupLayout layout, GroupTargets targets) throws IOException {
    long dataBytes = data.stream().mapToLong(LocatedBlock::getBlockSize).sum();
    List<Future<Workplaces.Outcome>> copies = new ArrayList<>();
    List<LocatedBlock> sources = new ArrayList<>();
    DatanodeInfo requestor = layout.requestor();
    for (int member = 0; member < data.size(); member++) {
      LocatedBlock source = data.get(member);
      LocatedBlock target = targets.member(member, source.getBlockSize());
      DatanodeInfo at = target.getLocations()[0];
      LocatedBlock ordered = withLocations(source, layout.inOrder(source, at));
      copies.add(encoder.submit(Work.copy(ordered, target), at));
      sources.add(withLocations(source, layout.inOrder(source, requestor)));
    }
    List<LocatedBlock> parities = new ArrayList<>();
    for (int parity = 0; parity < encoder.policy().getNumParityUnits(); parity++) {
      parities.add(targets.member(encoder.policy().getNumDataUnits() + parity, data.get(0).getBlockSize()));
    }
    Work work = new Work(encoder.policy(), dataBytes, sources, parities, byHelpers);
    Future<Workplaces.Outcome> coded = encoder.submit(work, requestor);
    IOException trouble = null;
    for (int member = 0; member < data.size(); member++) {
      try {
        count(data.get(member), targets.member(member, 0).getLocations()[0], await(copies.get(member)));
      } catch (IOException failed) {
        trouble = blame(failed, List.of(targets.member(member, 0).getLocations()[0]));
      }
    }
    try {
      Workplaces.Outcome outcome = await(coded);
      count(work, requestor, outcome);
      if (trouble == null) {
        return outcome.done().crcs();
      }
    } catch (IOException failed) {
      // Where it could not be asked for, or one of those that it writes to.
      boolean isAsked = failed instanceof RemoteException;
      List<DatanodeInfo> written = parities.stream().map(each -> (DatanodeInfo) each.getLocations()[0]).toList();
      trouble = blame(failed, isAsked ? written : List.of(requestor));
    }
    throw trouble;
  }

  /** A work failed: at one of these, if it was not for what it reads. */
  private IOException blame(IOException failed, List<DatanodeInfo> machines) {
    IOException what = SourceException.unwrap(failed);
    if (!(what instanceof SourceException)) {
      encoder.avoid(machines);
    }
    return what;
  }

  private static LocatedBlock withLocations(LocatedBlock block, DatanodeInfo[] locations) {
    LocatedBlock same = new LocatedBlock(block.getBlock(), locations);
    same.setBlockToken(block.getBlockToken());
    return same;
  }

  private static Workplaces.Outcome await(Future<Workplaces.Outcome> work) throws IOException {
    try {
      return work.get();
    } catch (ExecutionException failed) {
      throw failed.getCause() instanceof IOException cause ? cause : new IOException(failed.getCause());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new java.io.InterruptedIOException("interrupted");
    }
  }

  /** A data block was copied. */
  private void count(LocatedBlock source, DatanodeInfo to, Workplaces.Outcome outcome) {
    tally.dataBlocks.increment();
    DatanodeInfo[] all = source.getLocations();
    DatanodeInfo from = Arrays.stream(all).filter(each -> each.getDatanodeUuid().equals(to.getDatanodeUuid())).findFirst()
        .or(() -> Arrays.stream(all).filter(each -> each.getNetworkLocation().equals(to.getNetworkLocation())).findFirst())
        .orElse(all[0]);
    if (!outcome.isAtDatanode()) {
      tally.sent(from, null, source.getBlockSize());
      tally.sent(null, to, source.getBlockSize());
      return;
    }
    tally.sent(from, to, source.getBlockSize());
    if (from.getDatanodeUuid().equals(to.getDatanodeUuid())) {
      tally.inPlace.increment();
    }
  }

  /** Parities were made, of sources that came once each. */
  private void count(Work work, DatanodeInfo requestor, Workplaces.Outcome outcome) {
    DatanodeInfo at = outcome.isAtDatanode() ? requestor : null;
    for (LocatedBlock source : work.sources()) {
      tally.sent(source.getLocations()[0], at, source.getBlockSize());
      if (!source.getLocations()[0].getNetworkLocation().equals(requestor.getNetworkLocation())) {
        tally.sourcesElsewhere.increment();
      }
    }
    for (LocatedBlock target : work.targets()) {
      tally.sent(at, target.getLocations()[0], work.targetBytes());
      tally.parityBlocks.increment();
    }
    (outcome.done().byHelpers() ? tally.byHelpers : tally.byCoder).increment();
  }

  /** Closes a file that this holder writes, when DataNodes have reported its last block. */
  static void complete(ClientProtocol namenode, String path, String holder, ExtendedBlock last, long inode) throws IOException {
    long deadline = Time.monotonicNow() + REPORTED_WITHIN_MS;
    while (!namenode.complete(path, holder, last, inode)) {
      if (Time.monotonicNow() > deadline) {
        throw new IOException("DataNodes have not reported " + last + " within " + REPORTED_WITHIN_MS + " ms");
      }
      Pause.ms(POLL_MS);
    }
  }
}
