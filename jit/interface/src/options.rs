//! What an application asks of the compiler, and how the compiler says no.

use crate::address_bits::AddressBits;
use crate::image_formats::ImageFormats;
pub use crate::math_options::MathOptions;
use serde::{Deserialize, Serialize};

/// What `clBuildProgram`, `clCompileProgram` and `clLinkProgram` ask of the compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CompileOptions {
    /// `-spir-std=`, if given: "1.2".
    pub spir_std: Option<String>,
    /// `-cl-opt-disable`.
    pub optimization_disabled: bool,
    /// `-cl-uniform-work-group-size`.
    pub uniform_groups: bool,
    /// `-g`.
    pub debug: bool,
    /// What the device's pointers are.
    pub addresses: AddressBits,
    /// The options about arithmetic.
    pub math: MathOptions,
    /// Only this kernel.
    pub specialization: Option<Specialization>,
}

/// Code for one kernel of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Specialization {
    /// The kernel's name.
    pub kernel: String,
    /// What it is for.
    pub groups: Groups,
    /// Lanes of its packs, where the cost model could as well have chosen so many; 1 is scalar code.
    pub lanes: Option<u32>,
}

/// The work-groups that code is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Groups {
    /// Of any size.
    #[default]
    Any,
    /// Of any size, of launches as there were until now. What others need runs in baseline code: without it, it is half of the code, and
    /// takes half the time to be made.
    Usual(Usual),
    /// Of this size only: work-items in each dimension.
    Sized([u32; 3]),
}

impl Groups {
    /// The only size that there is to be code for.
    pub fn size(self) -> Option<[u32; 3]> {
        match self {
            Groups::Any => None,
            Groups::Usual(usual) => usual.size,
            Groups::Sized(size) => Some(size),
        }
    }
}

/// What a kernel's launches had in common until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Usual {
    /// Work-items that the length of their groups' rows is a multiple of: a power of two. Where packs divide it, they fill all rows.
    pub rows: u32,
    /// Whether no two buffers of a launch had memory in common.
    pub disjoint: bool,
    /// Their groups' size, where there was one only and the kernel sees it: code is for that alone.
    pub size: Option<[u32; 3]>,
    /// Their images' formats, where each had one only: code is for those alone.
    pub formats: ImageFormats,
}

impl Usual {
    /// Nothing in common: code of which all runs fast.
    pub const NOTHING: Usual = Usual { rows: 1, disjoint: false, size: None, formats: ImageFormats::UNKNOWN };
    /// What most launches have, as long as none was seen.
    pub const LIKELY: Usual = Usual { rows: 16, disjoint: true, ..Usual::NOTHING };
}

/// Why a compilation yielded nothing.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum CompileError {
    /// Not SPIR that this device takes: damaged, 32-bit, of another version. CL_INVALID_BINARY.
    #[error("{0}")]
    InvalidBinary(String),
    /// The module breaks a rule, or something in it can't be resolved. The log for the build.
    #[error("{0}")]
    Failed(String),
    /// The compiler process died or exceeded its time. The log for the build.
    #[error("{0}")]
    Crashed(String),
    /// There is no compiler process to be had. The log for the build, with what was tried.
    #[error("{0}")]
    Unavailable(String),
}
