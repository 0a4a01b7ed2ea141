//! Codes by their names, what they survive, and what their repairs read.

mod hdfs;
mod names;
mod repair;
mod survival;
