//! What application and compiler process say to each other: frames of a tag, a length and postcard bytes over a socket.

use crate::inputs::Inputs;
use crate::options::CompileError;
use crate::program::CompiledProgram;
use crate::target::Target;
use crate::translation::{Translated, Translation};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

/// A frame's payload may not be longer: what claims to be is no frame.
pub const MAX_PAYLOAD: u32 = 1 << 30;

/// Bytes of a reply: of a compiled program.
const MAX_REPLY: u32 = 256 << 20;

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
    /// Who does it.
    pub fn role(&self) -> Role {
        match self {
            Job::Translate(_) => Role::Translator,
            Job::Check { .. } | Job::Link { .. } | Job::Build { .. } => Role::Compiler,
        }
    }

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

/// What a worker is for, which decides what it may do besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It compiles bitcode, with nothing but memory and threads.
    Compiler,
    /// It starts clang, which reads files.
    Translator,
    /// It runs kernels of a context in the isolated mode.
    Executor,
}

impl Role {
    /// The argument that makes the program such a worker. A folder for dumps may follow.
    pub fn argument(self) -> &'static CStr {
        match self {
            Role::Compiler => c"--worker",
            Role::Translator => c"--translator",
            Role::Executor => c"--executor",
        }
    }

    /// The role of that argument.
    pub fn of_argument(argument: &str) -> Option<Role> {
        let all = [Role::Compiler, Role::Translator, Role::Executor];
        all.into_iter().find(|role| role.argument().to_str() == Ok(argument))
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

/// Times the processor time that a job may take, how long it may take by the clock.
pub const PATIENCE: u32 = 10;

/// How a job is to be done, which changes nothing about what it yields. The job's own bytes follow in the same frame.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// Seconds of processor time after which the worker ends itself.
    pub seconds: u32,
    /// A folder that gets what the stages of the compilation yield.
    pub dump: Option<PathBuf>,
}

impl Conditions {
    /// Seconds by the clock after which it ends itself though it has used less of the processors: so much longer may a job take
    /// on a machine that is busy.
    pub fn patience(&self) -> u32 {
        self.seconds.saturating_mul(PATIENCE)
    }
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
    /// What this kernel can't keep it from, in words.
    pub missing: Vec<String>,
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

impl Tag {
    const ALL: [Tag; 5] = [Tag::Hello, Tag::Request, Tag::Reply, Tag::Crash, Tag::Bye];

    /// Bytes of such a frame's payload at most. What a worker says is bounded by what it may have to say: it may be another's by now.
    fn most(self) -> u32 {
        match self {
            Tag::Request => MAX_PAYLOAD,
            Tag::Reply => MAX_REPLY,
            Tag::Hello | Tag::Crash | Tag::Bye => 64 << 10,
        }
    }
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
    let short = u32::try_from(length).ok().filter(|&length| length <= tag.most());
    let most = tag.most() >> 20;
    let length = short.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("they take {length} bytes; the most is {most} MiB"),
        )
    })?;
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
    let tag = Tag::ALL
        .into_iter()
        .find(|&known| known as u8 == tag)
        .ok_or_else(|| io::Error::other("not a frame"))?;
    let length = u32::from_le_bytes(length);
    if length > tag.most() {
        return Err(io::Error::other("a frame of impossible length"));
    }
    let mut payload = Vec::new();
    socket.take(length.into()).read_to_end(&mut payload)?;
    if payload.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((tag, payload))
}

/// Decodes what borrows from the bytes.
pub fn decode_borrowed<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

/// Decodes a frame's payload.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    postcard::from_bytes(payload).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frame_is_longer_than_its_kind_may_be() {
        for (tag, most) in [(Tag::Crash, 64 << 10), (Tag::Hello, 64 << 10), (Tag::Reply, MAX_REPLY)] {
            let error = receive(&header(tag, most + 1)[..]).unwrap_err();
            assert_eq!(error.to_string(), "a frame of impossible length");
            assert_eq!(receive(&header(tag, most)[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = send(std::os::fd::AsFd::as_fd(&socket), Tag::Crash, &vec![0_u8; 1 << 17]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn lists_of_lists_are_short() {
        // A byte each, which would be 24 in memory.
        let program = CompiledProgram {
            objects: vec![Vec::new(); 5000],
            kernels: Vec::new(),
            data: Default::default(),
            log: String::new(),
        };
        let decode = |program: &CompiledProgram| decode::<CompiledProgram>(&encode(program).unwrap());
        assert!(decode(&program).is_err());
        let objects = vec![b"object".to_vec(); 64];
        assert_eq!(
            decode(&CompiledProgram { objects: objects.clone(), ..program }).unwrap().objects,
            objects
        );
    }

    #[test]
    fn what_fits_can_be_sent_with_its_conditions() {
        assert!(fits(1 << 20).is_ok());
        let most = MAX_PAYLOAD as usize - CONDITIONS;
        assert!(fits(most).is_ok());
        assert!(fits(most + 1).unwrap_err().to_string().contains("1024 MiB"));
    }
}
