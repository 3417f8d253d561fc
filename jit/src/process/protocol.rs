//! What application and worker say to each other: frames of a tag, a length and postcard bytes over a socket.

use crate::api::{CompileError, CompileOptions};
use crate::clang::{Translated, Translation};
use crate::program::CompiledProgram;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A frame's payload may not be longer: what claims to be is no frame.
const MAX_PAYLOAD: u32 = 1 << 30;

/// Work for the compiler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// Check a module; yields remarks.
    Check {
        /// Bitcode.
        module: Vec<u8>,
        /// As given to `clBuildProgram`.
        options: CompileOptions,
    },
    /// Link modules into one; yields bitcode.
    Link {
        /// Bitcode each.
        modules: Vec<Vec<u8>>,
        /// As given to `clLinkProgram`.
        options: CompileOptions,
    },
    /// Build an executable.
    Build {
        /// Bitcode each.
        modules: Vec<Vec<u8>>,
        /// As given to `clBuildProgram`.
        options: CompileOptions,
    },
    /// Translate OpenCL C; yields SPIR.
    Translate(Translation),
    /// Do what a hostile module might cause.
    #[cfg(test)]
    Misbehave(super::tests::Misbehaviour),
}

impl Job {
    /// What the compiler was doing, for messages.
    pub fn verb(&self) -> &'static str {
        match self {
            Job::Check { .. } => "checking this module",
            Job::Link { .. } => "linking this module",
            Job::Build { .. } => "building this module",
            Job::Translate(_) => "compiling this source",
            #[cfg(test)]
            Job::Misbehave(_) => "testing this module",
        }
    }
}

/// What a job yields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Product {
    /// Remarks on a module that is valid.
    Checked(String),
    /// Bitcode.
    Linked(Vec<u8>),
    /// SPIR.
    Translated(Translated),
    /// An executable.
    Built(CompiledProgram),
}

/// A request as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request<J> {
    /// Seconds after which the worker ends itself.
    pub seconds: u32,
    /// The work.
    pub job: J,
}

/// A worker's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The outcome.
    pub result: Result<Product, CompileError>,
    /// Resident bytes of the worker afterwards.
    pub resident: u64,
}

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// Worker: ready. The payload is [`IDENTITY`].
    Hello = b'h',
    /// Application: a [`Request`].
    Request = b'q',
    /// Worker: a [`Reply`].
    Reply = b'r',
    /// Worker: dying, the payload says why in plain text.
    Crash = b'c',
    /// Worker: leaving after idle time; what was sent meanwhile is not done.
    Bye = b'b',
}

/// Both ends must be the same build: postcard has no field names.
pub const IDENTITY: &str = concat!("spirula compiler ", env!("CARGO_PKG_VERSION"), " protocol 1");

/// A frame's first bytes: tag, then length in little endian.
pub fn header(tag: Tag, length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_le_bytes();
    [tag as u8, a, b, c, d]
}

/// Sends a value in a frame.
pub fn send(socket: BorrowedFd, tag: Tag, value: &impl Serialize) -> io::Result<()> {
    let payload = postcard::to_stdvec(value).map_err(io::Error::other)?;
    let length = u32::try_from(payload.len()).ok().filter(|&length| length <= MAX_PAYLOAD);
    let length = length.ok_or_else(|| io::Error::other("the modules are larger than a request may be"))?;
    send_bytes(socket, &header(tag, length))?;
    send_bytes(socket, &payload)
}

/// Sends without ever raising SIGPIPE, which would end an application that did not ask for it.
pub fn send_bytes(socket: BorrowedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the range is alive and readable.
        let sent =
            unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Receives a frame.
pub fn receive(mut socket: impl Read) -> io::Result<(Tag, Vec<u8>)> {
    let mut start = [0; 5];
    socket.read_exact(&mut start)?;
    let [tag, length @ ..] = start;
    let tag = [Tag::Hello, Tag::Request, Tag::Reply, Tag::Crash, Tag::Bye]
        .into_iter()
        .find(|&known| known as u8 == tag)
        .ok_or_else(|| io::Error::other("not a frame"))?;
    let length = u32::from_le_bytes(length);
    if length > MAX_PAYLOAD {
        return Err(io::Error::other("a frame of impossible length"));
    }
    let mut payload = Vec::new();
    socket.take(length.into()).read_to_end(&mut payload)?;
    if payload.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((tag, payload))
}

/// Decodes a frame's payload.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    postcard::from_bytes(payload).map_err(io::Error::other)
}
