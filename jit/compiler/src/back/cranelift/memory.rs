//! The baseline's back end: addresses and accesses to memory. x86 orders plain accesses as acquire and release ask; what
//! matters is that Cranelift neither forwards nor joins accesses that others may see.

use super::function::Translator;
use super::types::{clif, scalar};
use super::{BaselineError, illegal};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, MemFlagsData, Type as Clif, Value as ClifValue};
use spirula_kir::{Op, Ordering, RmwOp, Scalar, Value};

/// Nothing is promised but that the access may be left out if nobody uses what it loads: a kernel's mistakes are its own.
fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Translator<'_> {
    /// base + index*scale + offset.
    pub(super) fn address(
        &mut self,
        base: Value,
        index: Option<Value>,
        scale: i64,
        offset: i64,
    ) -> Result<ClifValue, BaselineError> {
        let mut address = self.get(base)?;
        if let Some(index) = index {
            let index = self.get(index)?;
            let step = match scale {
                1 => index,
                _ if scale > 0 && scale.count_ones() == 1 => {
                    let distance = self.int(I64, scale.trailing_zeros().into());
                    self.out.ins().ishl(index, distance)
                }
                _ => {
                    let scale = self.int(I64, scale as u64);
                    self.out.ins().imul(index, scale)
                }
            };
            address = self.out.ins().iadd(address, step);
        }
        if offset != 0 {
            let offset = self.int(I64, offset as u64);
            address = self.out.ins().iadd(address, offset);
        }
        Ok(address)
    }

    pub(super) fn load(&mut self, op: &Op, result: Value) -> Result<ClifValue, BaselineError> {
        let Op::Load { pointer, volatile, ordering, .. } = op else { return Err(illegal("a load")) };
        let kind = scalar(self.function, result)?;
        let (ty, pointer) = (clif(kind)?, self.get(*pointer)?);
        if !volatile && ordering.is_none() {
            return Ok(self.loaded(kind, ty, pointer));
        }
        let Some(bits) = integer(ty) else {
            // Wider than a register: in parts, as no processor does it at once.
            return if ordering.is_none() { Ok(self.loaded(kind, ty, pointer)) } else { Err(wide()) };
        };
        let value = self.out.ins().atomic_load(bits, plain(), pointer);
        Ok(self.reinterpreted(ty, value))
    }

    fn loaded(&mut self, kind: Scalar, ty: Clif, pointer: ClifValue) -> ClifValue {
        let value = self.out.ins().load(ty, plain(), pointer, 0);
        if kind != Scalar::Int(1) {
            return value;
        }
        let one = self.int(I8, 1);
        self.out.ins().band(value, one)
    }

    pub(super) fn store(&mut self, op: &Op) -> Result<(), BaselineError> {
        let (pointer, value, ordering) = match op {
            Op::Store { pointer, value, ordering, .. } => (*pointer, *value, *ordering),
            Op::NontemporalStore { pointer, value, .. } => (*pointer, *value, None),
            _ => return Err(illegal("a store")),
        };
        let ty = clif(scalar(self.function, value)?)?;
        let (pointer, value) = (self.get(pointer)?, self.get(value)?);
        if ordering == Some(Ordering::SeqCst) {
            let bits = integer(ty).ok_or_else(wide)?;
            let value = self.reinterpreted(bits, value);
            self.out.ins().atomic_store(plain(), value, pointer);
        } else {
            self.out.ins().store(plain(), value, pointer, 0);
        }
        Ok(())
    }

    /// The same bits as another type of that size.
    pub(super) fn reinterpreted(&mut self, ty: Clif, value: ClifValue) -> ClifValue {
        if self.out.func.dfg.value_type(value) == ty {
            value
        } else {
            self.out.ins().bitcast(ty, MemFlagsData::new(), value)
        }
    }

    /// What was there before.
    pub(super) fn modify(&mut self, op: &Op, result: Value) -> Result<ClifValue, BaselineError> {
        let Op::AtomicRmw { op, pointer, value, .. } = op else { return Err(illegal("an atomic operation")) };
        let ty = clif(scalar(self.function, result)?)?;
        let ty = integer(ty).filter(|&int| int == ty).ok_or_else(wide)?;
        let (pointer, value) = (self.get(*pointer)?, self.get(*value)?);
        let op = match op {
            RmwOp::Xchg => AtomicRmwOp::Xchg,
            RmwOp::Add => AtomicRmwOp::Add,
            RmwOp::Sub => AtomicRmwOp::Sub,
            RmwOp::And => AtomicRmwOp::And,
            RmwOp::Nand => AtomicRmwOp::Nand,
            RmwOp::Or => AtomicRmwOp::Or,
            RmwOp::Xor => AtomicRmwOp::Xor,
            RmwOp::Max => AtomicRmwOp::Smax,
            RmwOp::Min => AtomicRmwOp::Smin,
            RmwOp::UMax => AtomicRmwOp::Umax,
            RmwOp::UMin => AtomicRmwOp::Umin,
            RmwOp::FAdd | RmwOp::FSub | RmwOp::FMax | RmwOp::FMin => {
                return Err(illegal(format!("an atomic {}", op.name())));
            }
        };
        Ok(self.out.ins().atomic_rmw(ty, plain(), op, pointer, value))
    }

    /// What was there before, and whether it was what was expected.
    pub(super) fn exchange(&mut self, op: &Op) -> Result<Vec<ClifValue>, BaselineError> {
        let Op::CompareExchange { pointer, expected, replacement, .. } = op else {
            return Err(illegal("an exchange"));
        };
        integer(clif(scalar(self.function, *expected)?)?).ok_or_else(wide)?;
        let (pointer, expected) = (self.get(*pointer)?, self.get(*expected)?);
        let replacement = self.get(*replacement)?;
        let old = self.out.ins().atomic_cas(plain(), pointer, expected, replacement);
        let same = self.out.ins().icmp(IntCC::Equal, old, expected);
        Ok(vec![old, same])
    }
}

fn wide() -> BaselineError {
    illegal("an atomic access to something wider than a register")
}

/// The integer of a type's size that atomic instructions take.
fn integer(ty: Clif) -> Option<Clif> {
    [I8, I16, I32, I64].into_iter().find(|int| int.bits() == ty.bits())
}
