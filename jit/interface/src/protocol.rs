//! What application and compiler process say to each other: frames of a tag, a length and postcard bytes over a socket.

use crate::inputs::Inputs;
use crate::options::CompileError;
use crate::program::CompiledProgram;
use crate::target::Target;
use crate::translation::{Translated, Translation};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

/// A frame's payload may not be longer: what claims to be is no frame.
pub const MAX_PAYLOAD: u32 = 1 << 30;

/// Work for the compiler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job<'a> {
    /// Check a module; yields remarks.
    Check {
        /// Bitcode.
        module: &'a [u8],
        /// As given to `clCompileProgram`.
        inputs: Inputs,
    },
    /// Link modules into one; yields bitcode.
    Link {
        /// Bitcode each.
        #[serde(borrow)]
        modules: Vec<&'a [u8]>,
        /// As given to `clLinkProgram`.
        inputs: Inputs,
    },
    /// Build an executable.
    Build {
        /// Bitcode each.
        #[serde(borrow)]
        modules: Vec<&'a [u8]>,
        /// As given to `clBuildProgram`.
        inputs: Inputs,
    },
    /// Translate OpenCL C; yields SPIR.
    Translate(Translation),
}

impl Job<'_> {
    /// What the compiler was doing, for messages.
    pub fn verb(&self) -> &'static str {
        match self {
            Job::Check { .. } => "checking this module",
            Job::Link { .. } => "linking this module",
            Job::Build { .. } => "building this module",
            Job::Translate(_) => "compiling this source",
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

/// How a job is to be done, which changes nothing about what it yields. The job's own bytes follow in the same frame.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// Seconds after which the worker ends itself.
    pub seconds: u32,
    /// A folder that gets what the stages of the compilation yield.
    pub dump: Option<PathBuf>,
}

/// A stage of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// What was done.
    pub name: String,
    /// How long it took.
    pub time: Duration,
}

/// A worker's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The outcome.
    pub result: Result<Product, CompileError>,
    /// How long it took, stage by stage; of builds only.
    pub stages: Vec<Stage>,
    /// Resident bytes of the worker afterwards.
    pub resident: u64,
}

/// A worker's first words.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Of which build it is: both ends must be of the same, for postcard has no field names.
    pub build: String,
    /// The processor that it runs on.
    pub host: Target,
}

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// Worker: ready. The payload is a [`Hello`].
    Hello = b'h',
    /// Application: [`Conditions`] and a [`Job`].
    Request = b'q',
    /// Worker: a [`Reply`].
    Reply = b'r',
    /// Worker: dying, the payload says why in plain text.
    Crash = b'c',
    /// Worker: leaving after idle time; what was sent meanwhile is not done.
    Bye = b'b',
}

/// A frame's first bytes: tag, then length in little endian.
pub fn header(tag: Tag, length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_le_bytes();
    [tag as u8, a, b, c, d]
}

/// A value's bytes.
pub fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

/// Sends a value in a frame.
pub fn send(socket: BorrowedFd, tag: Tag, value: &impl Serialize) -> io::Result<()> {
    send_parts(socket, tag, &[&encode(value)?])
}

/// Sends a job, encoded, in a frame.
pub fn send_request(socket: BorrowedFd, conditions: &Conditions, job: &[u8]) -> io::Result<()> {
    send_parts(socket, Tag::Request, &[&encode(conditions)?, job])
}

/// Takes a request apart: the conditions and the job, which borrows from the payload.
pub fn decode_request(payload: &[u8]) -> io::Result<(Conditions, Job<'_>)> {
    let (conditions, job) = postcard::take_from_bytes(payload).map_err(io::Error::other)?;
    Ok((conditions, postcard::from_bytes(job).map_err(io::Error::other)?))
}

/// Bytes of [`MAX_PAYLOAD`] that a job must leave to its conditions.
const CONDITIONS: usize = 1 << 16;

/// Whether a job of so many bytes can be sent.
pub fn fits(job: usize) -> io::Result<()> {
    if job > MAX_PAYLOAD as usize - CONDITIONS {
        let most = MAX_PAYLOAD >> 20;
        return Err(io::Error::other(format!("they take {job} bytes; a request may have {most} MiB")));
    }
    Ok(())
}

fn send_parts(socket: BorrowedFd, tag: Tag, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).ok().filter(|&length| length <= MAX_PAYLOAD);
    let length = length.ok_or_else(|| io::Error::other("the modules are larger than a request may be"))?;
    send_bytes(socket, &header(tag, length))?;
    parts.iter().try_for_each(|part| send_bytes(socket, part))
}

/// Sends without ever raising SIGPIPE, which would end an application that did not ask for it.
fn send_bytes(socket: BorrowedFd, mut bytes: &[u8]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_can_be_sent_with_its_conditions() {
        assert!(fits(1 << 20).is_ok());
        let most = MAX_PAYLOAD as usize - CONDITIONS;
        assert!(fits(most).is_ok());
        assert!(fits(most + 1).unwrap_err().to_string().contains("1024 MiB"));
    }
}
