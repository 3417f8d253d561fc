//! What the application asks of an executor, and what that answers.

use serde::{Deserialize, Serialize};
use spirula_interface::program::Launch;
use spirula_interface::tier::Tier;
use std::ops::Range;

/// Bytes of a request, at most: what any system lets through a socket at once.
pub(super) const MAX_REQUEST: usize = 64 << 10;
/// Bytes of an answer, at most.
pub(super) const MAX_ANSWER: usize = 4 << 10;
/// Bytes of a fault's description that fit into one.
pub(super) const MAX_WORDS: usize = 3 << 10;

/// What an executor begins with, beside the files of its memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Begin {
    /// Where the data are, but for what is not mapped at their beginning.
    pub data: Range<usize>,
    /// Bytes of the file in front of them.
    pub data_offset: u64,
    /// Of linear memory the part that is for what launches need themselves.
    pub launches: Option<Range<usize>>,
    /// Where the code is.
    pub code: Range<usize>,
    /// Bytes that it may have of its own.
    pub memory: u64,
}

/// Code to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CodeFacts {
    /// No other code has this number, now or later.
    pub number: u64,
    pub entry: usize,
    /// Where it and all that it consists of lies.
    pub addresses: Range<usize>,
    pub denormals_are_zero: bool,
    pub tier: Tier,
    pub scratch_per_item: u64,
    pub scratch_fixed: u64,
    pub any_order: bool,
}

/// Who runs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Threads {
    pub count: usize,
    /// The processors that they are bound to.
    pub bound: Option<Vec<usize>>,
}

/// Bytes of an argument block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Arguments {
    Bytes(Vec<u8>),
    /// In what is shared: so many from this address on.
    Shared(usize, usize),
}

/// Groups to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    pub code: CodeFacts,
    pub threads: Threads,
    pub arguments: Arguments,
    pub launch: Launch,
    pub groups: Range<u64>,
    pub local_size: usize,
    /// Nanoseconds after which it is to be ended.
    pub limit_ns: Option<u64>,
}

impl Request {
    /// Its bytes.
    pub(super) fn encode(&self) -> Result<Vec<u8>, String> {
        let bytes = postcard::to_stdvec(self).map_err(|error| error.to_string())?;
        if bytes.len() > MAX_REQUEST {
            return Err(format!("a launch of {} bytes is too large for an executor", bytes.len()));
        }
        Ok(bytes)
    }
}

/// Groups that were run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    /// Nanoseconds by the clock.
    pub ns: u64,
    /// Nanoseconds that they would take on one thread, by what the executor knows of the code.
    pub one_thread_ns: u64,
}

/// What became of them; in words if they failed.
pub(super) type Answer = Result<Done, String>;
