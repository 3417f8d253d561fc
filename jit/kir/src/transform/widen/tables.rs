//! Widening: loads from small constant tables, as of a substitution box or of coefficients, at indices that differ between lanes.
//! Where the table fits into a few vector registers lanes are permuted instead: a gather takes a load for each of them.

use super::Widener;
use crate::analysis::{Shape, Shapes};
use crate::{BinaryOp, Block, CastOp, Constant, Function, Inst, Intrinsic, Module, Op, Scalar, Type, Value};
use fixedbitset::FixedBitSet;
use spirula_interface::target::TargetFacts;
use std::collections::HashMap;
use std::sync::Arc;

/// Registers that a table may fill.
const MOST_REGISTERS: u64 = 4;

/// A program's constants that vector registers hold, by name. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Tables(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    bytes: HashMap<Arc<str>, Box<[u8]>>,
    target: TargetFacts,
}

/// An element of a table: how many bits it has, and by what index lanes ask for it.
pub(super) struct Lookup<'t> {
    bytes: &'t [u8],
    bits: u32,
    /// Elements in a register.
    in_register: u32,
    /// Registers that the table fills: one, or a power of two.
    registers: u32,
    index: Value,
    /// Elements that are added to the index.
    first: i64,
}

impl Tables {
    /// A program's, on this processor.
    pub fn new(module: &Module, target: TargetFacts) -> Self {
        if !target.avx512 {
            return Tables::default();
        }
        let most = MOST_REGISTERS * u64::from(target.vector_bits) / 8;
        let fitting = module
            .constants
            .iter()
            .filter(|constant| (1..=most).contains(&constant.size) && constant.pointers.is_empty());
        let bytes: HashMap<_, _> = fitting
            .map(|constant| {
                let mut bytes = constant.bytes.clone();
                bytes.resize(constant.size as usize, 0);
                (constant.name.clone(), bytes.into())
            })
            .collect();
        if bytes.is_empty() { Tables::default() } else { Tables(Some(Arc::new(Known { bytes, target }))) }
    }

    /// What a load of that type by a pointer of that shape is of, if it is of a table. Neighbours are loaded as such.
    pub(super) fn lookup(
        &self,
        body: &Function,
        (pointer, shape): (Value, Shape),
        ty: &Type,
    ) -> Option<Lookup<'_>> {
        let known = self.0.as_ref()?;
        let &Type::Scalar(
            scalar @ (Scalar::Int(8 | 16 | 32 | 64) | Scalar::Float | Scalar::Double | Scalar::Half),
        ) = ty
        else {
            return None;
        };
        let bits = scalar.bits() as u32;
        let size = i64::from(bits / 8);
        match shape {
            Shape::Uniform => return None,
            Shape::Affine { stride, .. } if stride.abs() == size => return None,
            _ => {}
        }
        let &Op::Address { base, index: Some(index), scale, offset, .. } = body.defining_op(pointer)? else {
            return None;
        };
        let (name, before) = constant_of(body, base)?;
        let bytes = known.bytes.get(name)?;
        let offset = offset.checked_add(before)?;
        if scale != size || offset % size != 0 || (bits < 32 && !known.target.permutes_bytes) {
            return None;
        }
        let in_register = known.target.vector_bits / bits;
        let registers = (bytes.len() as u32 * 8).div_ceil(known.target.vector_bits).next_power_of_two();
        Some(Lookup { bytes, bits, in_register, registers, index, first: offset / size })
    }
}

/// The constant that an address leads into, and how many bytes.
fn constant_of(body: &Function, mut address: Value) -> Option<(&str, i64)> {
    let mut bytes = 0i64;
    loop {
        match body.defining_op(address)? {
            Op::GlobalAddress(name) => return Some((name, bytes)),
            &Op::Address { base, index: None, offset, .. } => {
                bytes = bytes.checked_add(offset)?;
                address = base;
            }
            _ => return None,
        }
    }
}

impl Lookup<'_> {
    /// Plain operations that it takes for each register of lanes.
    pub(super) fn operations(&self) -> f64 {
        if self.registers > 2 { 4.0 } else { 1.0 }
    }

    /// The table as a vector of integers, whole registers.
    fn vector(&self) -> (Type, Constant) {
        let size = self.bits as usize / 8;
        let count = self.in_register * self.registers;
        let of_bytes = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u128::from(byte));
        let mut elements: Vec<(Type, Constant)> = self
            .bytes
            .chunks(size)
            .map(|bytes| (Type::int(self.bits), Constant::Int(of_bytes(bytes))))
            .collect();
        elements.resize(count as usize, (Type::int(self.bits), Constant::Int(0)));
        (Type::Vector(Scalar::Int(self.bits), count), Constant::Elements(elements))
    }
}

/// Addresses of what lanes find in registers, and extensions of their indices, if they serve nothing else: lanes do without them.
pub(super) fn left_out(body: &Function, shapes: &Shapes) -> FixedBitSet {
    let mut left_out = FixedBitSet::with_capacity(body.value_count());
    if body.tables.0.is_none() {
        return left_out;
    }
    let is_looked_up = |block: Block, inst: Inst| match (body.op(inst), body.result(inst)) {
        (&Op::Load { pointer, volatile: false, ordering: None, .. }, Some(result)) => {
            let shape = shapes.shape_at(pointer, block);
            body.tables.lookup(body, (pointer, shape), body.ty(result)).is_some()
        }
        _ => false,
    };
    // The addresses first, then what only those are made of.
    for step in 0..2 {
        let mut served = FixedBitSet::with_capacity(body.value_count());
        let mut needed = FixedBitSet::with_capacity(body.value_count());
        for (block, data) in body.blocks.iter().enumerate() {
            for &inst in &data.insts {
                let serves = match step {
                    0 => is_looked_up(Block(block as u32), inst),
                    _ => body.result(inst).is_some_and(|result| left_out.contains(result.index())),
                };
                let of = if serves { &mut served } else { &mut needed };
                body.op(inst).operands().into_iter().for_each(|operand| of.insert(operand.index()));
            }
            data.terminator.operands().into_iter().for_each(|operand| needed.insert(operand.index()));
        }
        let is_step = |value: &Value| match body.defining_op(*value) {
            Some(Op::Address { .. }) => step == 0,
            Some(Op::Cast { op: CastOp::ZExt | CastOp::SExt, .. }) => step == 1,
            _ => false,
        };
        served.difference_with(&needed);
        left_out.extend(served.ones().filter(|&value| is_step(&Value(value as u32))));
    }
    left_out
}

/// What an index is the lowest bits of, if permutations take no more of them either.
fn without_mask(body: &Function, index: Value, lookup: &Lookup) -> Value {
    let count = u128::from(lookup.in_register * lookup.registers);
    match body.defining_op(index) {
        Some(&Op::Binary { op: BinaryOp::And, lhs, rhs, .. })
            if body.constant_int(rhs).is_some_and(|mask| mask & (count - 1) == count - 1) =>
        {
            lhs
        }
        _ => index,
    }
}

impl Widener<'_> {
    /// What lanes load from a table; none if they don't.
    pub(super) fn look_up(&mut self, pointer: Value, ty: &Type) -> Option<Vec<Value>> {
        let body = self.body;
        let lookup = body.tables.lookup(body, (pointer, self.shape(pointer)), ty)?;
        let index = match lookup.first {
            0 => self.narrow_index(without_mask(body, lookup.index, &lookup), lookup.bits),
            first => {
                let index = self.narrow_index(lookup.index, lookup.bits);
                let first = Constant::Int(first as u128 & u128::from(u64::MAX >> (64 - lookup.bits)));
                let first = self.constant(Type::int(lookup.bits), first);
                let first = self.splat(first);
                self.binary(BinaryOp::Add, index, first)
            }
        };
        let (of_table, table) = lookup.vector();
        let table = self.constant(of_table, table);
        let integers = self.wide(Scalar::Int(lookup.bits));
        let found = self.intrinsic_of(Intrinsic::Lookup, integers, vec![index, table]);
        let wide = self.wide(ty.scalar()?);
        Some(vec![if ty.is_float() { self.cast(CastOp::BitCast, wide, found) } else { found }])
    }

    /// An index' lowest bits: of one that leads into a table the others are known.
    fn narrow_index(&mut self, index: Value, bits: u32) -> Value {
        let (inner, extension) = match self.body.defining_op(index) {
            Some(&Op::Cast { op: op @ (CastOp::ZExt | CastOp::SExt), value, .. }) => (value, op),
            _ => (index, CastOp::ZExt),
        };
        let lanes = self.lanes_of(inner)[0];
        let wide = self.wide(Scalar::Int(bits));
        match self.ty(lanes).scalar().map_or(64, |scalar| scalar.bits() as u32).cmp(&bits) {
            std::cmp::Ordering::Equal => lanes,
            std::cmp::Ordering::Less => self.cast(extension, wide, lanes),
            std::cmp::Ordering::Greater => self.cast(CastOp::Trunc, wide, lanes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ConstantData;
    use crate::parse;
    use crate::transform::form_regions;
    use crate::transform::widen::{Facts, widen};

    /// A kernel that accesses a table of so many bytes by this address and as that type.
    fn kernel(size: u64, address: &str, ty: &str) -> Function {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  jump b1\nb1:\n  %1: i64 = global_id 0\n  %2: ptr(global) = address %0 + %1*4 + 0\n  \
             %3: i32 = load %2, align 4\n  %4: i64 = zext %3\n  %5: ptr(constant) = global_address @\"t\"\n  %6: ptr(constant) = {address}\n  \
             %7: {ty} = load %6, align 1\n  %8: ptr(global) = address %0 + %1*8 + 64\n  store %8, %7, align 1\n  return\n}}"
        );
        let mut body = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let constant =
            ConstantData { name: "t".into(), align: 1, size, bytes: vec![1, 2], pointers: Vec::new() };
        let module = Module { constants: vec![constant], ..Module::default() };
        let target = TargetFacts { avx512: true, permutes_bytes: true, ..TargetFacts::with_vectors(512) };
        body.tables = Tables::new(&module, target);
        body
    }

    /// How many registers the table fills, if it is looked up in registers, and how many instructions lanes do without.
    fn looked_up(size: u64, address: &str, ty: &str) -> (Option<u32>, usize) {
        let body = kernel(size, address, ty);
        let facts = Facts::new(&body, &[], 16).unwrap();
        let loaded = body.insts().find_map(|inst| match body.op(inst) {
            &Op::Load { pointer, align: 1, .. } => Some((pointer, body.ty(body.result(inst)?).clone())),
            _ => None,
        });
        let (pointer, ty) = loaded.unwrap();
        let lookup = body.tables.lookup(&body, (pointer, facts.shapes.shape(pointer)), &ty);
        (lookup.map(|lookup| lookup.registers), facts.left_out.count_ones(..))
    }

    #[test]
    fn small_tables_are_looked_up() {
        assert_eq!(looked_up(256, "address inbounds %5 + %4*1 + 0", "i8"), (Some(4), 2));
        assert_eq!(looked_up(64, "address inbounds %5 + %4*4 + 0", "f32"), (Some(1), 2));
        assert_eq!(looked_up(129, "address inbounds %5 + %4*8 + -8", "f64"), (Some(4), 2));
        assert_eq!(looked_up(65, "address inbounds %5 + %4*2 + 2", "i16"), (Some(2), 2));
    }

    #[test]
    fn packs_look_up() {
        let group = form_regions(kernel(64, "address inbounds %5 + %4*4 + 0", "f32"));
        let wide = widen(&group.regions[0], None, &group.context, 16).unwrap().body.to_string();
        assert!(wide.contains("spirula.lookup") && !wide.contains("masked_load"), "{wide}");
    }

    #[test]
    fn others_are_gathered() {
        assert_eq!(looked_up(257, "address inbounds %5 + %4*1 + 0", "i8"), (None, 0), "too large");
        assert_eq!(looked_up(64, "address inbounds %5 + %4*8 + 0", "f32"), (None, 0), "of structures");
        assert_eq!(looked_up(64, "address inbounds %5 + %4*4 + 2", "f32"), (None, 0), "between elements");
        assert_eq!(looked_up(64, "address inbounds %5 + %1*4 + 0", "f32"), (None, 0), "neighbours");
        assert_eq!(looked_up(64, "address inbounds %5 + 8", "f32"), (None, 0), "the same for all");
    }
}
