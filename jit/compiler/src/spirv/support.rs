//! What modules may ask for: capabilities, extensions, sets of instructions, models and modes, by name.

use super::module::Set;
use super::stream::Instruction;
use super::{Result, refuse, spirv};
use spirula_interface::address_bits::AddressBits;
use spirula_interface::spirv::{EXTENSIONS, has_capability};
use spirv::{AddressingModel, Capability, ExecutionMode, MemoryModel};

/// Extensions that ask for nothing by themselves, whose capabilities are what counts.
const UNREPORTED: [&str; 1] = ["SPV_KHR_float_controls2"];

pub fn capability(number: u32) -> Result<()> {
    match Capability::from_u32(number) {
        Some(_) if has_capability(number) => Ok(()),
        Some(capability) => refuse(format!("it needs the capability {capability:?}, which isn't supported")),
        None => refuse(format!("it needs the capability {number}, which isn't known")),
    }
}

pub fn extension(name: &str) -> Result<()> {
    match EXTENSIONS.contains(&name) || UNREPORTED.contains(&name) {
        true => Ok(()),
        false => refuse(format!("it needs the extension {}, which isn't supported", short(name))),
    }
}

pub fn instruction_set(name: &str) -> Result<Set> {
    match name {
        "OpenCL.std" => Ok(Set::OpenCl),
        "NonSemantic.Shader.DebugInfo.100" => Ok(Set::Lines),
        "OpenCL.DebugInfo.100" | "SPIRV.debug" | "DebugInfo" => Ok(Set::Silent),
        _ if name.starts_with("NonSemantic.") => Ok(Set::Silent),
        _ => refuse(format!("it needs the instruction set {}, which isn't supported", short(name))),
    }
}

/// What the module's pointers are.
pub fn memory_model(instruction: &Instruction) -> Result<AddressBits> {
    let ([addressing, memory], _) = instruction.words()?;
    let addresses = match AddressingModel::from_u32(addressing) {
        Some(AddressingModel::Physical64) => AddressBits::Bits64,
        Some(AddressingModel::Physical32) => AddressBits::Bits32,
        Some(other) => {
            let supported = "Physical64 and Physical32 are supported";
            return refuse(format!("its addressing model is {other:?}; {supported}"));
        }
        None => return refuse(format!("its addressing model is {addressing}, which isn't known")),
    };
    match MemoryModel::from_u32(memory) {
        Some(MemoryModel::OpenCL) => Ok(addresses),
        Some(other) => refuse(format!("its memory model is {other:?}; OpenCL is supported")),
        None => refuse(format!("its memory model is {memory}, which isn't known")),
    }
}

pub fn mode(number: u32) -> Result<()> {
    use ExecutionMode::*;
    match ExecutionMode::from_u32(number) {
        Some(
            LocalSize
            | LocalSizeHint
            | LocalSizeId
            | LocalSizeHintId
            | VecTypeHint
            | SubgroupSize
            | ContractionOff
            | DenormPreserve
            | SignedZeroInfNanPreserve
            | RoundingModeRTE
            | FPFastMathDefault,
        ) => Ok(()),
        Some(other) => refuse(format!("it has the execution mode {other:?}, which isn't supported")),
        None => refuse(format!("it has the execution mode {number}, which isn't known")),
    }
}

/// A name of the module's own for a log.
pub fn short(text: &str) -> String {
    const MOST: usize = 80;
    text.chars().filter(|c| !c.is_control()).take(MOST).collect()
}
