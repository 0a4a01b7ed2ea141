/**
 * Asking a Stripeline gateway for members of a block group: requests and frames (docs/formats.md), and what is set. And what the
 * NameNode's policies and encoders both go by: which replicas can stay, and how many blocks a rack may have.
 */
package stripeline.hdfs;
