//! Messages with descriptors.

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Descriptors of a message, at most.
const MOST: usize = 2;

/// Sends a few bytes and descriptors.
pub(super) fn send(socket: BorrowedFd, bytes: &[u8], descriptors: &[BorrowedFd]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut more = SendAncillaryBuffer::new(&mut space);
    if !more.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(bytes)], &mut more, SendFlags::NOSIGNAL)
    })?;
    if sent == bytes.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
}

/// Receives as many bytes as fit, and descriptors. No bytes: the other end is closed.
pub(super) fn receive(socket: BorrowedFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut more = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut more, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors = more.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((got.bytes, descriptors.flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_arrive_with_their_bytes() {
        let ((here, there), (mut read, write)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        send(here.as_fd(), b"abc", &[write.as_fd()]).unwrap();
        drop((here, write));
        let mut bytes = [0; 8];
        let (length, descriptors) = receive(there.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..length], descriptors.len()), (b"abc".as_slice(), 1));
        assert_eq!(rustix::io::write(&descriptors[0], b"d").unwrap(), 1);
        drop(descriptors);
        let mut all = Vec::new();
        read.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"d");
        assert_eq!(receive(there.as_fd(), &mut bytes).unwrap().0, 0);
    }
}
