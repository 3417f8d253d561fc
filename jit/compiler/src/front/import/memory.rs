//! Import: memory. Address computations become base + index*scale + offset, allocas private slots.

use super::{Import, Importer, types, unsupported};
use crate::front::limits;
use crate::llvm::{Call, Value};
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMTypeKind};
use spirula_interface::check::Checks;
use spirula_kir as kir;
use spirula_kir::{AddressSpace, BinaryOp, CastOp, Constant, Flags, Op, Ordering, RmwOp, Scalar, Type};

/// Copies of at most so many bytes become loads and stores, which can be widened.
const MAX_UNROLLED_BYTES: u64 = 128;

/// How deep sums and products are looked into.
const MAX_TERMS: u32 = 6;

impl<'m> Importer<'m, '_> {
    /// A static alloca, wherever it stands: its lifetime in the source ends before it is reached again.
    pub(super) fn alloca(&mut self, source: Value<'m>) -> Import<kir::Value> {
        let ty = source.allocated_type().filter(|ty| ty.is_sized());
        let Some(ty) = ty else { return unsupported(source) };
        let Some(count) = source.operand(0).and_then(Value::constant_bits) else {
            return Err("has a private array of variable length".into());
        };
        let size = limits::bytes(self.shared.layout, ty).and_then(|size| size.checked_mul(count));
        let size = size.filter(|&size| size <= limits::MAX_PRIVATE_BYTES);
        let size = size.ok_or("has a private array that is too large")?;
        let slot = self.function.add_slot(size, source.alignment());
        Ok(self.push(types::import(source.ty())?, Op::SlotAddress(slot)))
    }

    pub(super) fn load(&mut self, source: Value<'m>) -> Import<kir::Value> {
        let pointer = self.operand(source, 0)?;
        let ty = types::import(source.ty())?;
        let ordering = ordering(source.ordering());
        let (align, volatile) = (self.access_alignment(source, pointer, &ty), source.is_volatile());
        let stored = self.stored_type(&ty)?;
        let value = self.push(stored.clone(), Op::Load { pointer, align, volatile, ordering });
        Ok(if stored == ty { value } else { self.reinterpreted(CastOp::IntToPtr, ty, value) })
    }

    pub(super) fn store(&mut self, source: Value<'m>) -> Import<()> {
        let (value, pointer) = (self.operand(source, 0)?, self.operand(source, 1)?);
        let ordering = ordering(source.ordering());
        let ty = self.function.ty(value).clone();
        let align = self.access_alignment(source, pointer, &ty);
        let volatile = source.is_volatile();
        let stored = self.stored_type(&ty)?;
        let value = if stored == ty { value } else { self.reinterpreted(CastOp::PtrToInt, stored, value) };
        self.effect(Op::Store { pointer, value, align, volatile, ordering });
        Ok(())
    }

    /// What a value is in memory: pointers of 32 bits are numbers, for Kernel IR's own are wider.
    fn stored_type(&self, ty: &Type) -> Import<Type> {
        match ty {
            _ if self.shared.layout.pointer_bytes(0) != 4 => Ok(ty.clone()),
            Type::Scalar(Scalar::Pointer(_)) | Type::Vector(Scalar::Pointer(_), _) => {
                Ok(ty.with_scalar(Scalar::Int(32)))
            }
            Type::Scalar(_) | Type::Vector(..) => Ok(ty.clone()),
            _ if ty.has_pointers() => {
                Err("loads or stores a structure with pointers in it as a whole".into())
            }
            _ => Ok(ty.clone()),
        }
    }

    fn reinterpreted(&mut self, op: CastOp, ty: Type, value: kir::Value) -> kir::Value {
        self.push(ty, Op::Cast { op, flags: Flags::NONE, value })
    }

    /// What may be relied on: an application's buffers and sub-buffers are often less aligned than a `float16` should
    /// be, and must not fault. Unaligned vector accesses cost nothing where the data happens to be aligned.
    fn access_alignment(&self, source: Value<'m>, pointer: kir::Value, ty: &Type) -> u32 {
        let stated = source.alignment();
        let lane = ty.scalar().map_or(1, |scalar| Type::Scalar(scalar).align() as u32);
        match self.function.ty(pointer).address_space() {
            Some(AddressSpace::Private | AddressSpace::Local) => stated,
            // The check goes by it, and takes it away.
            _ if self.shared.checks.contains(Checks::MEMORY) => stated,
            _ => stated.min(lane),
        }
    }

    pub(super) fn modify(&mut self, source: Value<'m>) -> Import<kir::Value> {
        use LLVMAtomicRMWBinOp::*;
        let op = match source.modify_operation() {
            Some(LLVMAtomicRMWBinOpXchg) => RmwOp::Xchg,
            Some(LLVMAtomicRMWBinOpAdd) => RmwOp::Add,
            Some(LLVMAtomicRMWBinOpSub) => RmwOp::Sub,
            Some(LLVMAtomicRMWBinOpAnd) => RmwOp::And,
            Some(LLVMAtomicRMWBinOpNand) => RmwOp::Nand,
            Some(LLVMAtomicRMWBinOpOr) => RmwOp::Or,
            Some(LLVMAtomicRMWBinOpXor) => RmwOp::Xor,
            Some(LLVMAtomicRMWBinOpMax) => RmwOp::Max,
            Some(LLVMAtomicRMWBinOpMin) => RmwOp::Min,
            Some(LLVMAtomicRMWBinOpUMax) => RmwOp::UMax,
            Some(LLVMAtomicRMWBinOpUMin) => RmwOp::UMin,
            Some(LLVMAtomicRMWBinOpFAdd) => RmwOp::FAdd,
            Some(LLVMAtomicRMWBinOpFSub) => RmwOp::FSub,
            Some(LLVMAtomicRMWBinOpFMax) => RmwOp::FMax,
            Some(LLVMAtomicRMWBinOpFMin) => RmwOp::FMin,
            _ => return unsupported(source),
        };
        let (pointer, value) = (self.operand(source, 0)?, self.operand(source, 1)?);
        self.is_number(value)?;
        let ordering = ordering(source.ordering()).unwrap_or(Ordering::SeqCst);
        let (align, volatile) = (source.alignment(), source.is_volatile());
        let ty = types::import(source.ty())?;
        Ok(self.push(ty, Op::AtomicRmw { op, pointer, value, ordering, volatile, align }))
    }

    pub(super) fn compare_exchange(&mut self, source: Value<'m>) -> Import<kir::Value> {
        let Some((success, failure, weak)) = source.exchange_orderings() else { return unsupported(source) };
        let pointer = self.operand(source, 0)?;
        let (expected, replacement) = (self.operand(source, 1)?, self.operand(source, 2)?);
        self.is_number(expected)?;
        let op = Op::CompareExchange {
            pointer,
            expected,
            replacement,
            success: ordering(success).unwrap_or(Ordering::SeqCst),
            failure: ordering(failure).unwrap_or(Ordering::SeqCst),
            weak,
            volatile: source.is_volatile(),
            align: source.alignment(),
        };
        Ok(self.push(types::import(source.ty())?, op))
    }

    /// Refuses to exchange pointers of 32 bits, which no OpenCL C can write.
    fn is_number(&self, value: kir::Value) -> Import<()> {
        let ty = self.function.ty(value);
        if self.stored_type(ty)? == *ty { Ok(()) } else { Err("exchanges pointers atomically".into()) }
    }

    pub(super) fn fence(&mut self, source: Value<'m>) -> Import<()> {
        self.effect(Op::Fence(ordering(source.ordering()).unwrap_or(Ordering::SeqCst)));
        Ok(())
    }

    /// A `getelementptr`; of vectors lane by lane.
    pub(super) fn element_pointer(&mut self, source: Value<'m>) -> Import<kir::Value> {
        let steps = self.steps(source)?;
        let ty = types::import(source.ty())?;
        let base = self.operand(source, 0)?;
        let Type::Vector(scalar, lanes) = ty else {
            return self.walk(base, &steps, source.is_inbounds());
        };
        let mut whole = self.function.constant(ty.clone(), Constant::Poison);
        for lane in 0..lanes {
            let base = self.lane(base, lane)?;
            let mut lane_steps = Vec::new();
            for step in &steps {
                lane_steps.push(match *step {
                    Step::Offset(bytes) => Step::Offset(bytes),
                    Step::Index(index, scale) => Step::Index(self.lane(index, lane)?, scale),
                });
            }
            let element = self.walk(base, &lane_steps, source.is_inbounds())?;
            debug_assert_eq!(self.function.ty(element).scalar(), Some(scalar));
            let index = self.function.int(Type::I32, u128::from(lane));
            whole = self.push(ty.clone(), Op::InsertElement { vector: whole, element, index });
        }
        Ok(whole)
    }

    /// A vector's lane; a scalar stands for all lanes.
    fn lane(&mut self, value: kir::Value, lane: u32) -> Import<kir::Value> {
        let Type::Vector(scalar, _) = *self.function.ty(value) else { return Ok(value) };
        let index = self.function.int(Type::I32, u128::from(lane));
        Ok(self.push(Type::Scalar(scalar), Op::ExtractElement { vector: value, index }))
    }

    /// The bytes that each index adds, in order.
    fn steps(&mut self, source: Value<'m>) -> Import<Vec<Step>> {
        let Some(element) = source.element_pointer_type() else { return unsupported(source) };
        let mut steps = Vec::new();
        let mut current = element;
        for (number, index) in source.operands().into_iter().enumerate().skip(1) {
            if number > 1 && current.kind() == LLVMTypeKind::LLVMStructTypeKind {
                let member = splat(index).and_then(Value::constant_bits);
                let Some(member) = member.and_then(|m| u32::try_from(m).ok()) else {
                    return unsupported(source);
                };
                let Some(&next) = current.members().get(member as usize) else { return unsupported(source) };
                let offset = self.shared.layout.member_offset(current, member);
                let Some(offset) = offset else { return unsupported(source) };
                steps.push(Step::Offset(offset as i64));
                current = next;
                continue;
            }
            if number > 1 {
                let Some(next) = current.element() else { return unsupported(source) };
                current = next;
            }
            if !current.is_sized() {
                return unsupported(source);
            }
            let scale = self.shared.layout.size(current) as i64;
            steps.push(match index.constant_signed() {
                Some(constant) if !index.ty().is_vector() => Step::Offset(constant.wrapping_mul(scale)),
                _ => Step::Index(self.value(index)?, scale),
            });
        }
        Ok(steps)
    }

    /// Emits a walk: offsets are taken along with the index that follows, those at the end with the last.
    fn walk(&mut self, base: kir::Value, steps: &[Step], inbounds: bool) -> Import<kir::Value> {
        let ty = self.function.ty(base).clone();
        let mut address = base;
        let mut open: Option<(kir::Value, i64)> = None;
        let mut offset = 0_i64;
        for step in steps {
            match *step {
                Step::Offset(bytes) => offset = offset.wrapping_add(bytes),
                Step::Index(index, scale) => {
                    if let Some((index, scale)) = open.take() {
                        let op = Op::Address { base: address, index: Some(index), scale, offset, inbounds };
                        address = self.push(ty.clone(), op);
                        offset = 0;
                    }
                    open = Some((self.widened(index), scale));
                }
            }
        }
        if open.is_none() && offset == 0 {
            return Ok(address);
        }
        let (index, scale) = open.map_or((None, 0), |(index, scale)| (Some(index), scale));
        Ok(self.push(ty, Op::Address { base: address, index, scale, offset, inbounds }))
    }

    /// An index as LLVM takes it: sign-extended or truncated to the pointer's width.
    fn widened(&mut self, index: kir::Value) -> kir::Value {
        // Of pointers of 32 bits the upper bits don't count, and where nothing is cut work-items are neighbours.
        if self.shared.layout.pointer_bytes(0) == 4 && self.is_cut(index, MAX_TERMS) {
            return self.uncut(index, MAX_TERMS);
        }
        let op = match self.function.ty(index).scalar().map_or(64, kir::Scalar::bits) {
            64 => return index,
            0..64 => CastOp::SExt,
            _ => CastOp::Trunc,
        };
        self.push(Type::I64, Op::Cast { op, flags: Flags::NONE, value: index })
    }

    /// Whether an i32 is made of numbers of 64 bits that were cut, by sums and products alone.
    fn is_cut(&self, value: kir::Value, depth: u32) -> bool {
        if depth == 0 || *self.function.ty(value) != Type::I32 {
            return false;
        }
        match *self.function.defining_op(value).unwrap_or(&Op::StreamingFence) {
            Op::Cast { op: CastOp::Trunc, value, .. } => *self.function.ty(value) == Type::I64,
            Op::Binary { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, lhs, rhs, .. } => {
                self.is_cut(lhs, depth - 1) || self.is_cut(rhs, depth - 1)
            }
            Op::Binary { op: BinaryOp::Shl, lhs, rhs, .. } => {
                self.function.constant_int(rhs).is_some_and(|by| by < 32) && self.is_cut(lhs, depth - 1)
            }
            _ => false,
        }
    }

    /// The same sums and products in 64 bits, of which the lower ones are the i32.
    fn uncut(&mut self, value: kir::Value, depth: u32) -> kir::Value {
        if self.is_cut(value, depth) {
            match *self.function.defining_op(value).unwrap_or(&Op::StreamingFence) {
                Op::Cast { value, .. } => return value,
                Op::Binary { op, lhs, rhs, .. } => {
                    let [lhs, rhs] = [lhs, rhs].map(|operand| self.uncut(operand, depth - 1));
                    return self.push(Type::I64, Op::Binary { op, flags: Flags::NONE, lhs, rhs });
                }
                _ => {}
            }
        }
        if let Some(number) = self.function.constant_int(value) {
            return self.function.int(Type::I64, u128::from(i64::from(number as i32) as u64));
        }
        self.push(Type::I64, Op::Cast { op: CastOp::SExt, flags: Flags::NONE, value })
    }

    /// `llvm.memcpy` and `llvm.memmove` of few bytes as loads and stores. False if it must stay an intrinsic.
    pub(super) fn copy(&mut self, source: Value<'m>) -> Import<bool> {
        let arguments = source.as_call().map(Call::arguments).unwrap_or_default();
        let size = arguments.get(2).and_then(|size| size.constant_bits());
        let Some(size) = size.filter(|&size| size <= MAX_UNROLLED_BYTES) else { return Ok(false) };
        // Of bytes that are copied as they are nobody asks what they mean; of numbers that are stored he does.
        if self.shared.checks.contains(Checks::UNINITIALIZED) {
            return Ok(false);
        }
        let volatile = arguments.get(3).is_some_and(|volatile| !volatile.is_null());
        let (to, from) = (self.operand(source, 0)?, self.operand(source, 1)?);
        let (to_align, from_align) = (argument_alignment(source, 0), argument_alignment(source, 1));
        let (to_align, from_align) =
            (self.copy_alignment(to, to_align), self.copy_alignment(from, from_align));
        let pieces = pieces(size, to_align.min(from_align));
        // All loads first: the blocks of a memmove may overlap.
        let mut loaded = Vec::new();
        for &(offset, bytes) in &pieces {
            let pointer = self.walk(from, &[Step::Offset(offset as i64)], true)?;
            let align = alignment_at(from_align, offset);
            let ty = Type::int(bytes as u32 * 8);
            loaded.push(self.push(ty, Op::Load { pointer, align, volatile, ordering: None }));
        }
        for (&(offset, _), value) in pieces.iter().zip(loaded) {
            let pointer = self.walk(to, &[Step::Offset(offset as i64)], true)?;
            let align = alignment_at(to_align, offset);
            self.effect(Op::Store { pointer, value, align, volatile, ordering: None });
        }
        Ok(true)
    }

    /// As [`Importer::access_alignment`], for words.
    fn copy_alignment(&self, pointer: kir::Value, stated: u64) -> u64 {
        match self.function.ty(pointer).address_space() {
            Some(AddressSpace::Private | AddressSpace::Local) => stated,
            _ => stated.min(8),
        }
    }

    /// `llvm.memset` of few constant bytes as stores. False if it must stay an intrinsic.
    pub(super) fn set(&mut self, source: Value<'m>) -> Import<bool> {
        let arguments = source.as_call().map(Call::arguments).unwrap_or_default();
        let size = arguments.get(2).and_then(|size| size.constant_bits());
        let byte = arguments.get(1).and_then(|byte| byte.constant_bits());
        let (Some(size), Some(byte)) = (size.filter(|&size| size <= MAX_UNROLLED_BYTES), byte) else {
            return Ok(false);
        };
        let volatile = arguments.get(3).is_some_and(|volatile| !volatile.is_null());
        let to = self.operand(source, 0)?;
        let alignment = self.copy_alignment(to, argument_alignment(source, 0));
        for (offset, bytes) in pieces(size, alignment) {
            let pattern = (0..bytes).fold(0_u128, |all, _| all << 8 | u128::from(byte & 0xff));
            let value = self.function.int(Type::int(bytes as u32 * 8), pattern);
            let pointer = self.walk(to, &[Step::Offset(offset as i64)], true)?;
            let align = alignment_at(alignment, offset);
            self.effect(Op::Store { pointer, value, align, volatile, ordering: None });
        }
        Ok(true)
    }
}

/// What an index of a `getelementptr` adds.
#[derive(Clone, Copy)]
enum Step {
    Offset(i64),
    Index(kir::Value, i64),
}

/// A scalar, or the one value that all lanes of a constant vector have.
fn splat(value: Value) -> Option<Value> {
    if value.ty().is_vector() { value.aggregate_element(0) } else { Some(value) }
}

fn argument_alignment(call: Value, argument: u32) -> u64 {
    let stated = call.as_call().and_then(|call| call.argument_integer_attribute(argument, "align"));
    stated.unwrap_or(1).max(1)
}

fn alignment_at(base: u64, offset: u64) -> u32 {
    let at = if offset == 0 { base } else { base.min(1 << offset.trailing_zeros()) };
    u32::try_from(at).unwrap_or(1)
}

/// Offsets and lengths of the pieces of a copy: words as the alignment allows, at least four bytes, then the rest.
fn pieces(size: u64, alignment: u64) -> Vec<(u64, u64)> {
    let mut list = Vec::new();
    let mut offset = 0;
    let mut word = alignment.clamp(4, 8);
    while offset < size {
        while word > size - offset {
            word /= 2;
        }
        list.push((offset, word));
        offset += word;
    }
    list
}

fn ordering(ordering: LLVMAtomicOrdering) -> Option<Ordering> {
    use LLVMAtomicOrdering::*;
    match ordering {
        LLVMAtomicOrderingNotAtomic => None,
        LLVMAtomicOrderingUnordered => Some(Ordering::Unordered),
        LLVMAtomicOrderingMonotonic => Some(Ordering::Monotonic),
        LLVMAtomicOrderingAcquire => Some(Ordering::Acquire),
        LLVMAtomicOrderingRelease => Some(Ordering::Release),
        LLVMAtomicOrderingAcquireRelease => Some(Ordering::AcqRel),
        LLVMAtomicOrderingSequentiallyConsistent => Some(Ordering::SeqCst),
    }
}
