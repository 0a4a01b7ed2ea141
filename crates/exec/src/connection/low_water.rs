//! `SO_RCVLOWAT`, which no safe library offers.
//!
//! A slice arrives in many segments. Without this option a receiver wakes for the first of them, and again and again
//! until the slice is whole; with it, once. On a chain of ten hops the wake-ups are most of what a repair costs.

#![allow(unsafe_code)]

use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Lets reads of `stream` wait until `bytes` bytes are there (or the read times out, or the stream ends). A kernel that
/// refuses only wakes us more often.
pub(super) fn set(stream: &TcpStream, bytes: usize) {
    let value = bytes as libc::c_int;
    // SAFETY: the descriptor is open as long as `stream` is borrowed; the option's value is one int, whose address and
    // size are given.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}
