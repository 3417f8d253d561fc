//! Samplers, and the bits that a kernel sees of them.

use crate::context::Context;
use crate::error::{Result, Status};
use std::sync::Arc;

/// A `cl_sampler`.
#[derive(Debug)]
pub struct Sampler {
    /// CL_SAMPLER_CONTEXT.
    pub context: Arc<Context>,
    /// CL_SAMPLER_NORMALIZED_COORDS.
    pub normalized_coords: bool,
    /// CL_SAMPLER_ADDRESSING_MODE.
    pub addressing_mode: AddressingMode,
    /// CL_SAMPLER_FILTER_MODE.
    pub filter_mode: FilterMode,
}

/// `cl_addressing_mode`; discriminants are OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum AddressingMode {
    None = 0x1130,
    ClampToEdge = 0x1131,
    Clamp = 0x1132,
    Repeat = 0x1133,
    MirroredRepeat = 0x1134,
}

/// `cl_filter_mode`; discriminants are OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum FilterMode {
    Nearest = 0x1140,
    Linear = 0x1141,
}

impl Sampler {
    /// `addressing` and `filter` are `cl_addressing_mode` and `cl_filter_mode`. CL_INVALID_VALUE for other numbers.
    pub fn new(
        context: &Arc<Context>,
        normalized_coords: bool,
        addressing: u32,
        filter: u32,
    ) -> Result<Arc<Sampler>> {
        let addressing_mode = match addressing {
            0x1130 => AddressingMode::None,
            0x1131 => AddressingMode::ClampToEdge,
            0x1132 => AddressingMode::Clamp,
            0x1133 => AddressingMode::Repeat,
            0x1134 => AddressingMode::MirroredRepeat,
            other => return Err(Status::InvalidValue.because(format!("{other:#x} is no addressing mode"))),
        };
        let filter_mode = match filter {
            0x1140 => FilterMode::Nearest,
            0x1141 => FilterMode::Linear,
            other => return Err(Status::InvalidValue.because(format!("{other:#x} is no filter mode"))),
        };
        Ok(Arc::new(Sampler { context: context.clone(), normalized_coords, addressing_mode, filter_mode }))
    }

    /// The bits of a SPIR `sampler_t` (SPIR 1.2, section 2.1.3 and table 3).
    pub fn bits(&self) -> u32 {
        let addressing = match self.addressing_mode {
            AddressingMode::None => 0,
            AddressingMode::ClampToEdge => 2,
            AddressingMode::Clamp => 4,
            AddressingMode::Repeat => 6,
            AddressingMode::MirroredRepeat => 8,
        };
        let filter = match self.filter_mode {
            FilterMode::Nearest => 0x10,
            FilterMode::Linear => 0x20,
        };
        addressing | filter | u32::from(self.normalized_coords)
    }
}
