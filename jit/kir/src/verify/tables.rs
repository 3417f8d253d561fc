//! Verifier, first step: every index that a function contains leads to what it says, and sizes are such that nothing that
//! computes with them wraps. Whoever reads a function from elsewhere relies on it; what comes behind may index.

use crate::types::Limits;
use crate::{
    Block, Constant, Function, Inst, Op, Passing, Scalar, Signature, Slot, Target, Type, Value, ValueDef,
};

/// More than any alignment that a processor knows; what is aligned to more could not be placed.
const MAX_ALIGN: u32 = 1 << 24;

pub(super) fn check(function: &Function) -> Result<(), String> {
    let tables = Tables(function);
    tables.values()?;
    tables.params()?;
    tables.memory()?;
    if function.blocks.is_empty() {
        return Err("there is no entry block".into());
    }
    let mut placed = vec![false; function.inst_count()];
    function.block_ids().try_for_each(|block| tables.block(block, &mut placed))
}

struct Tables<'f>(&'f Function);

impl Tables<'_> {
    fn values(&self) -> Result<(), String> {
        for (value, ty, def) in self.0.value_table() {
            ty.check(Limits::REGISTER).map_err(|error| format!("{value}: {error}"))?;
            let is_right = match def {
                ValueDef::Param(number) => {
                    self.0.params.get(*number as usize).is_some_and(|param| param.value == value)
                }
                ValueDef::BlockParam(block, number) => {
                    let params = self.0.blocks.get(block.index()).map(|block| &block.params);
                    params.and_then(|params| params.get(*number as usize)) == Some(&value)
                }
                ValueDef::Inst(inst) => {
                    inst.index() < self.0.inst_count() && self.0.result(*inst) == Some(value)
                }
                ValueDef::Constant(constant) => constant_fits(constant, ty),
            };
            if !is_right {
                return Err(format!("{value} isn't what its definition says"));
            }
        }
        Ok(())
    }

    fn params(&self) -> Result<(), String> {
        let called = matches!(self.0.signature, Signature::Function { .. });
        for (number, param) in self.0.params.iter().enumerate() {
            self.value(param.value)?;
            if *self.0.def(param.value) != ValueDef::Param(number as u32) {
                return Err(format!("{} isn't parameter {number}", param.value));
            }
            let ty = self.0.ty(param.value);
            let fits = match param.passing {
                Passing::Direct => !called,
                Passing::Small => !called && *ty == Type::I32,
                Passing::LocalOffset | Passing::ByAddress => !called && ty.address_space().is_some(),
                Passing::Argument(promises) => {
                    called && (promises.align == 0 || is_alignment(promises.align))
                }
            };
            if !fits {
                return Err(format!("{} can't be passed so", param.value));
            }
        }
        match &self.0.signature {
            Signature::Function { result: Some(ty) } => ty.check(Limits::REGISTER),
            _ => Ok(()),
        }
    }

    fn memory(&self) -> Result<(), String> {
        let slots = self.0.slots.iter().enumerate();
        let wrong =
            slots.filter(|(_, slot)| slot.size > u64::from(u32::MAX) || !is_alignment(slot.align.max(1)));
        if let Some((number, slot)) = wrong.into_iter().next() {
            return Err(format!("slot ${number} has {} bytes, aligned to {}", slot.size, slot.align));
        }
        if self.0.local_size > u64::from(u32::MAX) {
            return Err(format!("there are {} bytes of local memory", self.0.local_size));
        }
        Ok(())
    }

    fn block(&self, block: Block, placed: &mut [bool]) -> Result<(), String> {
        let data = self.0.block(block);
        for (number, &param) in data.params.iter().enumerate() {
            self.value(param)?;
            if *self.0.def(param) != ValueDef::BlockParam(block, number as u32) {
                return Err(format!("{param} isn't parameter {number} of {block}"));
            }
        }
        for &inst in &data.insts {
            match placed.get_mut(inst.index()) {
                Some(placed) if !*placed => *placed = true,
                _ => {
                    return Err(format!("{block} contains an instruction that doesn't exist, or does twice"));
                }
            }
            self.inst(inst).map_err(|error| format!("{error} in {block}"))?;
        }
        data.terminator.operands().into_iter().try_for_each(|operand| self.value(operand))?;
        data.terminator.targets().into_iter().try_for_each(|target| self.target(target))
    }

    fn inst(&self, inst: Inst) -> Result<(), String> {
        if let Some(result) = self.0.result(inst) {
            self.value(result)?;
            if *self.0.def(result) != ValueDef::Inst(inst) {
                return Err(format!("{result} is another instruction's result"));
            }
        }
        let op = self.0.op(inst);
        op.operands().into_iter().try_for_each(|operand| self.value(operand))?;
        match op {
            Op::SlotAddress(Slot(slot)) if *slot as usize >= self.0.slots.len() => {
                Err(format!("there is no slot ${slot}"))
            }
            _ => Ok(()),
        }
    }

    fn value(&self, value: Value) -> Result<(), String> {
        if value.index() < self.0.value_count() { Ok(()) } else { Err(format!("there is no {value}")) }
    }

    fn target(&self, target: &Target) -> Result<(), String> {
        if target.block.index() < self.0.blocks.len() {
            return Ok(());
        }
        Err(format!("there is no {}", target.block))
    }
}

/// Whether bytes can be aligned to that.
pub(super) fn is_alignment(align: u32) -> bool {
    align.is_power_of_two() && align <= MAX_ALIGN
}

/// Whether a constant is one of the type.
fn constant_fits(constant: &Constant, ty: &Type) -> bool {
    match (constant, ty) {
        (Constant::Zero | Constant::Undef | Constant::Poison, _) => true,
        (Constant::Int(bits), Type::Scalar(Scalar::Int(width))) => fits_width(*bits, *width),
        (Constant::Float(bits), Type::Scalar(scalar @ (Scalar::Half | Scalar::Float | Scalar::Double))) => {
            fits_width(u128::from(*bits), scalar.bits() as u32)
        }
        (Constant::Elements(list), _) => {
            let elements = list.iter().map(|(ty, _)| ty);
            let is_whole = match ty {
                Type::Vector(scalar, n) => {
                    list.len() == *n as usize && elements.into_iter().all(|e| *e == Type::Scalar(*scalar))
                }
                Type::Array(element, n) => {
                    list.len() as u64 == *n && elements.into_iter().all(|e| e == &**element)
                }
                Type::Struct(members) => elements.eq(members.iter()),
                Type::Scalar(_) => false,
            };
            is_whole && list.iter().all(|(ty, constant)| constant_fits(constant, ty))
        }
        _ => false,
    }
}

pub(super) fn fits_width(bits: u128, width: u32) -> bool {
    width >= 128 || bits >> width == 0
}
