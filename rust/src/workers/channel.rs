//! One packet a message, with at most one descriptor beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

use super::message::LONGEST;

/// The two ends of a new channel: the server's, which never blocks, and the worker's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (server, worker) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&server, true)?;
    for end in [&server, &worker] {
        sockopt::set_socket_send_buffer_size(end, 2 * LONGEST)?;
    }
    Ok((server, worker))
}

/// Sends one packet.
pub fn send(socket: impl AsFd, packet: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    if packet.len() > LONGEST {
        return Err(io::Error::other(format!("a message of {} bytes, longer than {LONGEST}", packet.len())));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(packet)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Receives one packet into `buffer`. Length 0 means that the other end is gone.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptor = None;
    for received in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = received {
            // More than one is not in the protocol; the others are closed here.
            descriptor = descriptors.into_iter().next().or(descriptor);
        }
    }
    if message.bytes > buffer.len() || message.flags.contains(rustix::net::ReturnFlags::TRUNC) {
        return Err(io::Error::other("a message longer than the protocol allows"));
    }
    Ok((message.bytes, descriptor))
}
