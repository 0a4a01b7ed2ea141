//! `SO_RCVLOWAT`, which no safe library offers.
//!
//! A slice arrives in many segments. Without this option a receiver wakes for the first of them, and again and again
//! until the slice is whole; with it, once. On a chain of ten hops the wake-ups are most of what a repair costs.

#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::{Error, ErrorKind};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Lets [`read`]s of `stream` wait until `bytes` bytes are there (or the stream ends). A kernel that refuses only wakes
/// us more often.
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

/// What came of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Come {
    /// So many bytes.
    Bytes(usize),
    /// The patience is over, and these bytes, fewer than the mark, are all that came.
    Late(usize),
    /// The stream has ended.
    End,
}

/// Waits for the low-water mark, at most `patience`, then takes what is there.
///
/// Not one blocking read: Linux copies what is there and then wakes the reader only for as many bytes as the mark says
/// *again*. The rest of a slice of which a part had come would be slept through until the next slice, or for ever.
pub(super) fn read(stream: &TcpStream, buffer: &mut [u8], patience: Duration) -> Result<Come, Error> {
    let patience = Timespec::try_from(patience).map_err(Error::other)?;
    let is_late = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&patience))? == 0;
    match recv(stream, buffer, RecvFlags::DONTWAIT).map_err(Error::from) {
        Err(error) if is_late && error.kind() == ErrorKind::WouldBlock => Ok(Come::Late(0)),
        Err(error) => Err(error),
        Ok((0, _)) => Ok(Come::End),
        Ok((bytes, _)) if is_late => Ok(Come::Late(bytes)),
        Ok((bytes, _)) => Ok(Come::Bytes(bytes)),
    }
}

/// Takes what is there, at once if anything is, else as [`read`] does: for a stream at its usual mark, of which an answer is
/// awaited that may have come while others were.
pub(super) fn read_at_once(stream: &TcpStream, buffer: &mut [u8], patience: Duration) -> Result<Come, Error> {
    match recv(stream, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Ok(Come::End),
        Ok((bytes, _)) => Ok(Come::Bytes(bytes)),
        Err(Errno::WOULDBLOCK) => read(stream, buffer, patience),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    #[test]
    fn the_rest_of_a_slice_wakes_a_reader_that_found_a_part_of_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let pause = Duration::from_millis(50);
        set(&receiver, 1000);
        sender.write_all(&[1; 600]).unwrap();
        std::thread::sleep(pause);
        let rest = std::thread::spawn(move || {
            std::thread::sleep(pause);
            sender.write_all(&[2; 400]).unwrap();
            sender
        });
        let patience = Duration::from_secs(10);
        let (started, mut buffer) = (Instant::now(), [0; 4096]);
        assert_eq!(read(&receiver, &mut buffer, patience).unwrap(), Come::Bytes(1000));
        assert!(started.elapsed() < patience / 2, "woken after {:?}", started.elapsed());

        // A sender that is slow is none that is silent.
        let mut sender = rest.join().unwrap();
        sender.write_all(&[3; 600]).unwrap();
        assert_eq!(read(&receiver, &mut buffer, pause).unwrap(), Come::Late(600));

        // Nothing comes, then the end does.
        assert_eq!(read(&receiver, &mut buffer, pause).unwrap(), Come::Late(0));
        drop(sender);
        assert_eq!(read(&receiver, &mut buffer, patience).unwrap(), Come::End);
    }
}
