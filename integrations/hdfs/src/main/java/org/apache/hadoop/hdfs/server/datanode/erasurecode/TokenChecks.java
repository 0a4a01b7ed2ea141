package org.apache.hadoop.hdfs.server.datanode.erasurecode;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockPoolTokenSecretManager;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier.AccessMode;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/**
 * Whether the helper beside this DataNode may read a block for a flow: as this DataNode itself would decide, with its own keys. Whoever
 * announces a flow shows a token's identifier, and a proof that he knows its password.
 */
final class TokenChecks {

  /** Before the flow's id (crates/client/src/permits.rs). */
  private static final byte[] PURPOSE = "stripeline block permit 1".getBytes(StandardCharsets.US_ASCII);

  private static final String PROOF_ALGORITHM = "HmacSHA256";

  private static final int MAX_POOL_BYTES = 1 << 10;

  private static final int FLOW_BYTES = 16;

  private final DataNode datanode;
  private final Internals internals;

  /** Whether the NameNode uses block tokens; null until the DataNode has spoken with it. It never changes after that. */
  private volatile Boolean isEnabled;

  TokenChecks(DataNode datanode, Internals internals) {
    this.datanode = datanode;
    this.internals = internals;
  }

  /** What a helper asks. */
  record Question(String pool, long block, byte[] flow, byte[] identifier, byte[] proof) {

    /** Reads one; whatever is wrong with it is an exception. */
    static Question read(DataInputStream in) throws IOException {
      int length = Short.toUnsignedInt(in.readShort());
      if (length > MAX_POOL_BYTES) {
        throw new IOException("a block pool whose name has " + length + " bytes");
      }
      String pool = new String(bytes(in, length), StandardCharsets.UTF_8);
      long block = in.readLong();
      byte[] flow = bytes(in, FLOW_BYTES);
      byte[] identifier = bytes(in, Short.toUnsignedInt(in.readShort()));
      return new Question(pool, block, flow, identifier, bytes(in, Short.toUnsignedInt(in.readShort())));
    }

    private static byte[] bytes(DataInputStream in, int length) throws IOException {
      byte[] bytes = new byte[length];
      in.readFully(bytes);
      return bytes;
    }
  }

  /** Why the block may not be read; null if it may. */
  String refusal(Question question) {
    try {
      if (isEnabled == null) {
        isEnabled = internals.blockTokensEnabled(datanode);
      }
      if (isEnabled == null) {
        return "the DataNode has not spoken with its NameNode yet";
      }
      return isEnabled ? refusal(internals.tokens(datanode), question) : null;
    } catch (ReflectiveOperationException missing) {
      return "the DataNode does not say whether it uses block tokens: " + missing;
    }
  }

  /** The same with these keys. */
  static String refusal(BlockPoolTokenSecretManager tokens, Question question) {
    if (question.identifier().length == 0) {
      return "no block token came with the request";
    }
    try {
      LegacyIdentifier.check(question.identifier());
      BlockTokenIdentifier identifier = new BlockTokenIdentifier();
      identifier.readFields(new DataInputStream(new ByteArrayInputStream(question.identifier())));
      byte[] password = tokens.retrievePassword(identifier);
      if (!MessageDigest.isEqual(proof(password, question.flow()), question.proof())) {
        return "the block token is not genuine, or was given for another flow";
      }
      tokens.checkAccess(identifier, null, new ExtendedBlock(question.pool(), question.block()), AccessMode.READ);
      return null;
    } catch (IOException | RuntimeException | GeneralSecurityException no) {
      return no.getMessage() == null ? no.toString() : no.getMessage();
    }
  }

  /** That whoever announces the flow knows the password. */
  static byte[] proof(byte[] password, byte[] flow) throws GeneralSecurityException {
    Mac mac = Mac.getInstance(PROOF_ALGORITHM);
    mac.init(new SecretKeySpec(password, PROOF_ALGORITHM));
    mac.update(PURPOSE);
    return mac.doFinal(flow);
  }
}
