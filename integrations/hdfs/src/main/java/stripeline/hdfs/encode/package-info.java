/**
 * Replicated files become erasure-coded ones of the same name. {@link stripeline.hdfs.encode.EncodeCommand} is what operators start,
 * {@code FileEncoding} what happens to a file, {@code Worker} what happens to the blocks of a group, in DataNodes
 * ({@link stripeline.hdfs.encode.EncodeService}) or in the encoder, and {@code Verification} what has to hold before the original goes.
 */
package stripeline.hdfs.encode;
