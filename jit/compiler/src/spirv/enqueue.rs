//! Kernels that kernels enqueue: calls that name a function, which the front makes a kernel of.

use super::function::Body;
use super::stream::Instruction;
use super::types::Type;
use super::{Id, Result, refuse, spirv};
use spirv::Op;

impl Body<'_, '_> {
    /// Instructions that enqueue or ask about what may be enqueued, and ranges; whether it was one.
    pub fn enqueue(&mut self, instruction: &Instruction) -> Result<bool> {
        match instruction.op {
            Op::EnqueueKernel => {
                let ([queue, flags, range, count, waits, event, invoke, captures, size, alignment], sizes) =
                    instruction.words()?;
                let mut passed = vec![
                    self.operand(queue)?,
                    self.operand(flags)?,
                    self.range(range)?,
                    self.operand(count)?,
                    self.operand(waits)?,
                    self.operand(event)?,
                    self.function(invoke)?,
                    self.operand(captures)?,
                    self.operand(size)?,
                    self.operand(alignment)?,
                ];
                for &size in sizes {
                    passed.push(self.operand(size)?);
                }
                self.call_by_types("EnqueueKernel", instruction.result, &passed)?;
            }
            Op::GetKernelWorkGroupSize | Op::GetKernelPreferredWorkGroupSizeMultiple => {
                let passed = [self.function(instruction.word(0)?)?];
                self.call_by_types(&format!("{:?}", instruction.op), instruction.result, &passed)?;
            }
            Op::GetKernelNDrangeSubGroupCount | Op::GetKernelNDrangeMaxSubGroupSize => {
                let passed = [self.range(instruction.word(0)?)?, self.function(instruction.word(1)?)?];
                self.call_by_types(&format!("{:?}", instruction.op), instruction.result, &passed)?;
            }
            Op::BuildNDRange => self.build_range(instruction)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A range, which the builtin writes to memory.
    fn build_range(&mut self, instruction: &Instruction) -> Result<()> {
        let ([global, local, offset], _) = instruction.words()?;
        let (number, letter) =
            if self.globals().module.addresses.is_linear() { ("i32", "j") } else { ("i64", "l") };
        let (dimensions, mangled) = match *self.types().get(self.type_of(global)?)? {
            Type::Array(_, count @ 2..=3) => (count, format!("P{letter}S_S_")),
            _ => (1, letter.repeat(3)),
        };
        let ty = self.types().text(instruction.ty)?.to_string();
        let range = self.fresh();
        self.line(&format!("{range} = alloca {ty}, align 8"));
        let mut passed = vec![format!("ptr {range}")];
        for size in [global, local, offset] {
            passed.push(if dimensions == 1 && number == "i64" {
                self.long(size)?
            } else {
                self.operand(size)?
            });
        }
        let symbol = format!("_Z23__spirv_BuildNDRange_{dimensions}D{mangled}");
        let size = if dimensions == 1 { number.to_string() } else { format!("[{dimensions} x {number}]") };
        self.declare(&symbol, format!("declare spir_func void @{symbol}(ptr, {size}, {size}, {size})"))?;
        self.line(&format!("call spir_func void @{symbol}({})", passed.join(", ")));
        self.set(instruction.result, &format!("load {ty}, ptr {range}, align 8"));
        Ok(())
    }

    /// The address of a range, which may be a value.
    fn range(&mut self, range: Id) -> Result<String> {
        let ty = self.type_of(range)?;
        if matches!(self.types().get(ty)?, Type::Pointer(..)) {
            return self.operand(range);
        }
        let (value, memory) = (self.operand(range)?, self.fresh());
        let line = format!("{memory} = alloca {}, align 8", self.types().text(ty)?);
        self.line(&line);
        self.line(&format!("store {value}, ptr {memory}, align 8"));
        Ok(format!("ptr {memory}"))
    }

    /// The address of a function.
    fn function(&self, id: Id) -> Result<String> {
        match self.globals().functions.get(&id) {
            Some((symbol, _)) => Ok(format!("ptr {symbol}")),
            None => refuse(format!("the id {id} is enqueued and is no function")),
        }
    }

    /// A call that yields an integer of what has as many forms as there are types.
    fn call_by_types(&mut self, name: &str, result: Id, passed: &[String]) -> Result<()> {
        let types = passed.iter().map(|value| value.rsplit_once(' ').map_or("", |(ty, _)| ty));
        let types = types.collect::<Vec<_>>().join(", ");
        // As C++ would mangle a function of so many arguments, whose types are the declaration's.
        let name = format!("__spirv_{name}");
        let symbol = format!("_Z{}{name}{}", name.len(), "i".repeat(passed.len()));
        self.declare(&symbol, format!("declare spir_func i32 @{symbol}({types})"))?;
        self.set(result, &format!("call spir_func i32 @{symbol}({})", passed.join(", ")));
        Ok(())
    }
}
