/**
 * Asking a Stripeline gateway for members of a block group: requests and frames (docs/formats.md), and what is set.
 * Nothing here needs more than the JDK and Hadoop's Configuration.
 */
package stripeline.hdfs;
