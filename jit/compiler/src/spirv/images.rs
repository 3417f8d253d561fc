//! Images, but for what are builtins as they stand.

use super::Result;
use super::function::Body;
use super::spirv;
use super::stream::Instruction;
use spirv::Op;

impl Body<'_, '_> {
    /// Instructions on images; whether it was one.
    pub fn images(&mut self, instruction: &Instruction) -> Result<bool> {
        if instruction.op != Op::Image {
            return Ok(false);
        }
        let line = format!("extractvalue {}, 0", self.operand(instruction.word(0)?)?);
        self.set(instruction.result, &line);
        Ok(true)
    }
}
