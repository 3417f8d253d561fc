//! Calls: of the module's functions, of extended instructions, and of core instructions that are builtins here.

use super::function::Body;
use super::module::Set;
use super::stream::Instruction;
use super::types::{Type, pointer_text};
use super::{Id, Result, refuse, spirv};
use crate::builtin::Signature;
use crate::builtin::spirv::{self as builtins, Mangled};
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind, ext_inst_table};
use spirv::{Decoration, FPRoundingMode, Op};
use std::collections::HashMap;
use std::sync::LazyLock;

/// An extended instruction of OpenCL.std: its name, and which of its operands are literals.
type Extended = (&'static str, &'static [rspirv::grammar::LogicalOperand]);

static OPENCL: LazyLock<HashMap<u32, Extended>> = LazyLock::new(|| {
    let table = ext_inst_table("OpenCL.std");
    let rows = table.into_iter().flat_map(|table| table.iter());
    rows.map(|row| (row.opcode.into(), (row.opname, row.operands))).collect()
});

/// What is passed to a builtin.
enum Passed {
    Value(Id),
    Literal(u32),
}

impl Body<'_, '_> {
    /// Calls; whether it was one.
    pub fn calls(&mut self, instruction: &Instruction) -> Result<bool> {
        match instruction.op {
            Op::FunctionCall => self.function_call(instruction)?,
            Op::ExtInst => {
                let ([set, number], operands) = instruction.words()?;
                match self.module().sets.get(&set) {
                    // Nobody uses what it yields but others of the kind.
                    Some(Set::Silent | Set::Lines) => {}
                    Some(Set::OpenCl) => self.extended(instruction, number, operands)?,
                    None => return refuse(format!("OpExtInst is of the set {set}, which isn't imported")),
                }
            }
            _ => return self.core(instruction),
        }
        Ok(true)
    }

    fn function_call(&mut self, instruction: &Instruction) -> Result<()> {
        let ([callee], arguments) = instruction.words()?;
        let Some((symbol, ty)) = self.globals().functions.get(&callee) else {
            return refuse(format!("OpFunctionCall is of the id {callee}, which is no function"));
        };
        let Type::Function(returned, parameters) = self.types().get(*ty)? else {
            return refuse("a function's type is none");
        };
        if parameters.len() != arguments.len() {
            return refuse(format!("{symbol} is called with {} arguments", arguments.len()));
        }
        let mut list = Vec::new();
        for (&argument, &parameter) in arguments.iter().zip(parameters) {
            let ty = self.types().text(parameter)?;
            if ty != self.types().text(self.type_of(argument)?)? {
                return refuse(format!("{symbol} is called with an argument of another type than it has"));
            }
            list.push(format!("{ty} {}", self.text(argument)?));
        }
        // As its declaration has them.
        let attributes = &self.globals().parameter_attributes;
        if let Some(attributes) = attributes.get(&callee) {
            for (argument, attribute) in list.iter_mut().zip(attributes).filter(|(_, a)| !a.is_empty()) {
                if let Some((ty, value)) = argument.rsplit_once(' ') {
                    *argument = format!("{ty} {attribute} {value}");
                }
            }
        }
        let call = format!("call spir_func {} {symbol}({})", self.types().text(*returned)?, list.join(", "));
        match self.types().get(*returned)? {
            Type::Void => self.line(&call),
            _ => self.set(instruction.result, &call),
        }
        Ok(())
    }

    fn extended(&mut self, instruction: &Instruction, number: u32, operands: &[u32]) -> Result<()> {
        let Some(&(name, kinds)) = OPENCL.get(&number) else {
            return refuse(format!("OpenCL.std has no instruction {number}"));
        };
        if name == "printf" {
            return self.print(instruction, operands);
        }
        let is_literal = |index: usize| {
            let kind = kinds.get(index).map(|operand| operand.kind);
            matches!(kind, Some(OperandKind::LiteralInteger | OperandKind::FPRoundingMode))
        };
        let passed: Vec<Passed> = operands
            .iter()
            .enumerate()
            .map(|(index, &word)| if is_literal(index) { Passed::Literal(word) } else { Passed::Value(word) })
            .collect();
        let postfix =
            if name.starts_with("vload") { self.returned("__", instruction.ty)? } else { String::new() };
        self.call_builtin(&format!("ocl_{name}{postfix}"), &passed, instruction)
    }

    fn print(&mut self, instruction: &Instruction, operands: &[u32]) -> Result<()> {
        let Some((&format, rest)) = operands.split_first() else { return refuse("printf has no format") };
        let constant = pointer_text(2);
        let mut text = self.pointer(format)?;
        if self.types().space(self.type_of(format)?)? != 2 {
            let cast = self.fresh();
            self.line(&format!("{cast} = addrspacecast {text} to {constant}"));
            text = format!("{constant} {cast}");
        }
        let rest: Vec<String> = rest.iter().map(|&id| self.operand(id)).collect::<Result<_>>()?;
        let arguments = [vec![text], rest].concat().join(", ");
        self.declare("printf", format!("declare spir_func i32 @printf({constant}, ...)"))?;
        self.set(instruction.result, &format!("call spir_func i32 ({constant}, ...) @printf({arguments})"));
        Ok(())
    }

    /// What stands behind the name of a builtin whose arguments don't say what it yields.
    fn returned(&self, separator: &str, ty: Id) -> Result<String> {
        Ok(format!("{separator}R{}", builtins::type_name(&self.types().mangled(ty)?)))
    }

    /// A core instruction whose operands go to a builtin by its name.
    fn core(&mut self, instruction: &Instruction) -> Result<bool> {
        static GRAMMAR: LazyLock<HashMap<u32, &'static [rspirv::grammar::LogicalOperand]>> =
            LazyLock::new(|| INSTRUCTION_TABLE.iter().map(|row| (row.opcode as u32, row.operands)).collect());
        let op = instruction.op;
        let kinds = GRAMMAR.get(&(op as u32)).copied().unwrap_or_default();
        let mut kinds = kinds
            .iter()
            .map(|operand| operand.kind)
            .filter(|kind| !matches!(kind, OperandKind::IdResultType | OperandKind::IdResult));
        let mut passed = Vec::new();
        let mut last = OperandKind::IdRef;
        for &word in instruction.operands {
            last = kinds.next().unwrap_or(last);
            match last {
                OperandKind::IdRef | OperandKind::IdScope | OperandKind::IdMemorySemantics => {
                    passed.push(Passed::Value(word))
                }
                OperandKind::GroupOperation => passed.push(Passed::Literal(word)),
                // What stands behind them concerns mip maps and samples, which there are not.
                OperandKind::ImageOperands => break,
                OperandKind::PackedVectorFormat => {}
                OperandKind::StorageClass => {}
                _ => return Ok(false),
            }
        }
        let name = format!("{op:?}");
        let postfix = self.postfix(instruction)?;
        self.call_builtin(&format!("{name}{postfix}"), &passed, instruction)?;
        Ok(true)
    }

    /// What a builtin's name says besides the instruction.
    fn postfix(&self, instruction: &Instruction) -> Result<String> {
        let name = format!("{:?}", instruction.op);
        if name.contains("Convert") {
            let module = self.module();
            let sat =
                if module.has(instruction.result, Decoration::SaturatedConversion) { "_sat" } else { "" };
            let rounding = module.decoration(instruction.result, Decoration::FPRoundingMode);
            let rounding = match rounding.and_then(|mode| mode.first()) {
                None => "",
                Some(&mode) => match FPRoundingMode::from_u32(mode) {
                    Some(FPRoundingMode::RTE) => "_rte",
                    Some(FPRoundingMode::RTZ) => "_rtz",
                    Some(FPRoundingMode::RTP) => "_rtp",
                    Some(FPRoundingMode::RTN) => "_rtn",
                    None => return refuse(format!("the rounding mode {mode} isn't known")),
                },
            };
            return Ok(format!("{}{sat}{rounding}", self.returned("_", instruction.ty)?));
        }
        if instruction.op == Op::GenericCastToPtrExplicit {
            return Ok(match self.types().space(instruction.ty)? {
                0 => "_ToPrivate".into(),
                1 => "_ToGlobal".into(),
                _ => "_ToLocal".into(),
            });
        }
        if name.starts_with("Image") && instruction.ty != 0 {
            return self.returned("_", instruction.ty);
        }
        Ok(String::new())
    }

    /// The symbol of a builtin of these values, which is declared.
    pub fn builtin(&mut self, name: &str, arguments: &[Id], ty: Id) -> Result<String> {
        let passed: Vec<Passed> = arguments.iter().map(|&id| Passed::Value(id)).collect();
        Ok(self.declared(name, &passed, ty)?.0)
    }

    fn declared(&mut self, name: &str, passed: &[Passed], ty: Id) -> Result<(String, Vec<String>)> {
        let (mut mangled, mut types, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for passed in passed {
            match passed {
                Passed::Literal(number) => {
                    mangled.push(Mangled::Number('i', 32, 1));
                    types.push("i32".to_string());
                    values.push(format!("i32 {number}"));
                }
                Passed::Value(id) => {
                    let ty = self.type_of(*id)?;
                    mangled.push(self.types().mangled(ty)?);
                    types.push(self.types().text(ty)?.to_string());
                    values.push(self.operand(*id)?);
                }
            }
        }
        let returned = if ty == 0 { "void" } else { self.types().text(ty)? };
        let mut symbol = builtins::symbol(name, &mangled);
        let line = |symbol: &str| format!("declare spir_func {returned} @{symbol}({})", types.join(", "));
        if self.is_declared_otherwise(&symbol, &line(&symbol)) {
            // Arguments of the same types, and another result.
            let postfix = self.returned(if name.starts_with("ocl_") { "__" } else { "_" }, ty)?;
            symbol = builtins::symbol(&format!("{name}{postfix}"), &mangled);
        }
        let line = line(&symbol);
        if !self.is_declared(&symbol) {
            let signature = Signature { ret: returned.to_string(), params: types };
            if builtins::find(&symbol, &signature).is_none() {
                return refuse(format!("{} isn't supported with these types: {line}", readable(name)));
            }
        }
        self.declare(&symbol, line)?;
        Ok((symbol, values))
    }

    fn call_builtin(&mut self, name: &str, passed: &[Passed], instruction: &Instruction) -> Result<()> {
        let ty = instruction.ty;
        let (symbol, values) = self.declared(name, passed, ty)?;
        let returned = if ty == 0 { "void" } else { self.types().text(ty)? };
        let call = format!("call spir_func {returned} @{symbol}({})", values.join(", "));
        match returned {
            "void" => self.line(&call),
            _ => self.set(instruction.result, &call),
        }
        Ok(())
    }
}

/// A builtin's name as the specification has the instruction.
fn readable(name: &str) -> String {
    match name.strip_prefix("ocl_") {
        Some(name) => format!("the instruction {name} of OpenCL.std"),
        None => format!("Op{}", name.split('_').next().unwrap_or(name)),
    }
}
