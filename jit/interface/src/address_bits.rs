//! What a device's pointers are.

use serde::{Deserialize, Serialize};

/// Bytes that a pointer of 32 bits can tell apart: a linear memory's size and alignment.
pub const LINEAR_BYTES: usize = 1 << 32;
/// Nothing is mapped for so many bytes on either side of a linear memory. Code adds up to 2^31 elements of 16 bytes and 1 GiB to an
/// address within it, and copies 4 GiB from there on.
pub const GUARD_BYTES: usize = 40 << 30;

/// CL_DEVICE_ADDRESS_BITS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AddressBits {
    /// Addresses of the host.
    #[default]
    Bits64,
    /// Offsets in the linear memory that all of a context's memory lies in.
    Bits32,
}

impl AddressBits {
    /// The number.
    pub fn number(self) -> u32 {
        match self {
            AddressBits::Bits64 => 64,
            AddressBits::Bits32 => 32,
        }
    }

    /// Bytes of a pointer, and of a size_t.
    pub fn bytes(self) -> u32 {
        self.number() / 8
    }

    /// Whether pointers are offsets in a linear memory.
    pub fn is_linear(self) -> bool {
        self == AddressBits::Bits32
    }

    /// What SPIR's triples call it.
    pub fn spir(self) -> &'static str {
        match self {
            AddressBits::Bits64 => "spir64",
            AddressBits::Bits32 => "spir",
        }
    }
}
