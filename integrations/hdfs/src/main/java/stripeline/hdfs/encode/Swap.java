package stripeline.hdfs.encode;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.EnumSet;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.RecoveryInProgressException;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.util.Time;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stripeline.hdfs.encode.NotEncodedException.Reason;

/**
 * The encoded file takes the place of the original, if that is what it was. An answer that does not come says nothing: the NameNode
 * may have done it, may do it yet, or never hear of it. So it is asked what there is, and nothing goes on a guess.
 */
final class Swap {

  private static final Logger LOG = LoggerFactory.getLogger(Swap.class);

  /** A NameNode that was gone answers again, or another one does, within this time; or an operator has to look. */
  private static final long SETTLED_WITHIN_MS = 60_000;
  private static final long POLL_MS = 500;

  /** A time that is not to be set. */
  private static final long KEPT = -1;

  private final DistributedFileSystem fs;
  private final ClientProtocol namenode;
  private final Lease lease;
  private final Original original;
  private final Temporary made;

  /** The original by its inode. */
  private final String name;

  Swap(Encoder encoder, Original original, Temporary made) {
    fs = encoder.fs();
    namenode = fs.getClient().getNamenode();
    lease = encoder.lease();
    this.original = original;
    this.made = made;
    name = Original.byInode(original.status().getFileId());
  }

  /** Returns when it is done. After an exception it is not, but where the reason is {@link Reason#UNKNOWN}. */
  void run() throws IOException {
    try (Lease.Own own = lease.own()) {
      HdfsFileStatus now = take(own.holder());
      boolean isOurs = true;
      try {
        checkUnchanged(now);
        isOurs = !rename();
      } catch (NotEncodedException not) {
        // A rename that is done yet must not meet what others have written since.
        isOurs = not.reason() != Reason.UNKNOWN;
        throw not;
      } finally {
        if (isOurs) {
          letGo(own.holder());
        }
      }
    }
  }

  /** Nobody else can write the original any more. */
  private HdfsFileStatus take(String holder) throws IOException {
    try {
      return namenode.append(name, holder, new EnumSetWritable<>(EnumSet.of(CreateFlag.APPEND, CreateFlag.NEW_BLOCK)))
          .getFileStatus();
    } catch (RemoteException refused) {
      IOException cause = refused.unwrapRemoteException();
      if (cause instanceof AlreadyBeingCreatedException || cause instanceof RecoveryInProgressException
          || cause instanceof FileNotFoundException) {
        throw new NotEncodedException(Reason.CHANGED, "it was opened for writing, or deleted, while it was encoded", cause);
      }
      throw cause;
    } catch (IOException lost) {
      // It may be open all the same.
      letGo(holder);
      throw lost;
    }
  }

  private void checkUnchanged(HdfsFileStatus now) throws IOException {
    if (!original.is(now)) {
      throw new NotEncodedException(Reason.CHANGED, "it was changed while it was encoded");
    }
    // The lease keeps writers away, and nobody else.
    if (!Attributes.areSame(fs, now.getFileId(), made.inode())) {
      throw new NotEncodedException(Reason.CHANGED,
          "its permissions, ACL, extended attributes, storage policy or time were changed while it was encoded");
    }
  }

  /** What is replaced is this inode, wherever it is, or nothing. True, or an exception. */
  private boolean rename() throws IOException {
    try {
      namenode.rename2(Original.byInode(made.inode()), name, Options.Rename.OVERWRITE);
    } catch (IOException trouble) {
      if (!isDone(trouble)) {
        throw trouble;
      }
      LOG.info("{} is encoded, though the NameNode did not say so: {}", original.path(), trouble.toString());
    }
    return true;
  }

  /** Whether the rename was done. If not, the encoded file is removed, and so it never will be. */
  private boolean isDone(IOException trouble) throws IOException {
    long deadline = Time.monotonicNow() + SETTLED_WITHIN_MS;
    while (true) {
      try {
        if (made.remove()) {
          return false;
        }
        boolean isMadeThere = made.is(Original.byInode(made.inode()), made.inode());
        boolean isOriginalThere = made.is(name, original.status().getFileId());
        if (isMadeThere != isOriginalThere) {
          return isMadeThere;
        }
        // Both: the other one was moved, and may be renamed yet. None: whoever deleted them knows more.
        break;
      } catch (IOException away) {
        LOG.warn("whether {} is encoded is asked again: {}", original.path(), away.toString());
        if (Time.monotonicNow() > deadline) {
          break;
        }
      }
      Pause.ms(POLL_MS);
    }
    throw new NotEncodedException(Reason.UNKNOWN, "the NameNode did not say whether the encoded file, inode " + made.inode()
        + ", took its place; nothing was deleted, and either file has all of its bytes", trouble);
  }

  /** Closes the original as it was, if this holder has it. */
  private void letGo(String holder) {
    try {
      // Taking it has changed nothing, and closing it changes the time.
      HdfsFileStatus was = fs.getClient().getFileInfo(name);
      FileEncoding.complete(namenode, name, holder, null, was.getFileId());
      HdfsFileStatus closed = fs.getClient().getFileInfo(name);
      if (closed.getFileId() == was.getFileId() && closed.getLen() == was.getLen()) {
        namenode.setTimes(name, was.getModificationTime(), KEPT);
      }
    } catch (IOException open) {
      LOG.warn("{} was not closed by the encoder; if it is open the NameNode closes it in a while: {}", original.path(), open.toString());
    }
  }
}
