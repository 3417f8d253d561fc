//! Transform: pointers as numbers of 32 bits, as WebAssembly has them. All memory that work-items use is one block of 4 GiB, the
//! linear memory, and a pointer is an offset in it: an i32. Addresses exist only where memory is accessed.
//!
//! [`Rewriter::address`] makes each of them, of the block's beginning and numbers whose width keeps them within it or within the
//! guard that lies around it, where nothing is mapped: whatever a work-item computes, it can't name another address. Numbers are
//! frozen first, so that no optimizer can take a promise about them for more than 32 bits.
//!
//! What only the work-group function itself uses, the launch and values on the stack, stays behind pointers that no number goes into.

use crate::builder::{Builder, replace_uses, rewrite};
use crate::{
    BinaryOp, CastOp, Constant, Flags, Function, Inst, Intrinsic, Op, Scalar, Shape, Signature, Terminator,
    Type, Value, ValueDef,
};
use spirula_interface::address_bits::{GUARD_BYTES, LINEAR_BYTES};
use spirula_interface::program::{DATA_SYMBOL, MEMORY_SYMBOL};
use std::collections::{HashMap, HashSet};

/// A pointer.
const OFFSET: Scalar = Scalar::Int(32);
/// The guard on either side is larger than what is added to an offset with this scale ...
const MAX_SCALE: i64 = 16;
/// ... and this.
const MAX_DISPLACEMENT: i64 = 1 << 30;
const _: () = assert!((MAX_SCALE << 31) + MAX_DISPLACEMENT + LINEAR_BYTES as i64 <= GUARD_BYTES as i64);

/// Makes pointers offsets in all of a function but what it does with `launch`, a parameter, and with its slots.
pub fn enter_linear_memory(function: &mut Function, launch: Option<Value>) {
    let own = own_pointers(function, launch);
    let sums = sums(function, &own);
    let spaces = spaces(function, &own);
    retype(function, &own);
    let mut rewriter = Rewriter { own, sums, spaces, made: HashMap::new(), replaced: HashMap::new() };
    rewrite(function, |out, inst| rewriter.instruction(out, inst));
    replace_uses(function, &rewriter.replaced);
    return_where_nothing_leads(function);
}

/// What is added to a base: an index with its scale, and a displacement.
#[derive(Clone, Copy)]
struct Sum {
    base: Value,
    index: Option<(Value, i64)>,
    displacement: i64,
}

struct Rewriter {
    /// Pointers that are no offsets.
    own: HashSet<Value>,
    /// Of offsets that are the sum of others within one block of memory, as they were computed.
    sums: HashMap<Value, Sum>,
    /// The types that offsets had.
    spaces: HashMap<Value, Type>,
    /// Addresses of bases that were made in a block.
    made: HashMap<(crate::Block, Value), Value>,
    replaced: HashMap<Value, Value>,
}

/// The launch, the slots, and places at constant distances in them.
fn own_pointers(function: &Function, launch: Option<Value>) -> HashSet<Value> {
    let mut own: HashSet<Value> = launch.into_iter().collect();
    let mut before = usize::MAX;
    while before != own.len() {
        before = own.len();
        for inst in function.insts() {
            let is_own = match function.op(inst) {
                Op::SlotAddress(_) => true,
                Op::Address { base, index: None, .. } => own.contains(base),
                _ => false,
            };
            own.extend(function.result(inst).filter(|_| is_own));
        }
    }
    own
}

fn sums(function: &Function, own: &HashSet<Value>) -> HashMap<Value, Sum> {
    let sum = |inst: Inst| match *function.op(inst) {
        Op::Address { base, index, scale, offset, inbounds: true } => {
            let is_small = (-MAX_DISPLACEMENT..=MAX_DISPLACEMENT).contains(&offset)
                && (index.is_none() || (1..=MAX_SCALE).contains(&scale))
                && function.ty(base).lane_count() == Some(None);
            let result = function.result(inst).filter(|result| is_small && !own.contains(result))?;
            Some((result, Sum { base, index: index.map(|index| (index, scale)), displacement: offset }))
        }
        _ => None,
    };
    function.insts().filter_map(sum).collect()
}

fn spaces(function: &Function, own: &HashSet<Value>) -> HashMap<Value, Type> {
    let pointers = function
        .value_table()
        .filter(|(value, ty, _)| matches!(ty.scalar(), Some(Scalar::Pointer(_))) && !own.contains(value));
    pointers.map(|(value, ty, _)| (value, ty.clone())).collect()
}

/// A type with offsets in place of pointers.
fn with_offsets(ty: &Type) -> Type {
    match ty {
        Type::Scalar(Scalar::Pointer(_)) => Type::Scalar(OFFSET),
        Type::Vector(Scalar::Pointer(_), n) => Type::Vector(OFFSET, *n),
        Type::Struct(members) => Type::Struct(members.iter().map(with_offsets).collect()),
        Type::Array(element, n) => Type::Array(with_offsets(element).into(), *n),
        other => other.clone(),
    }
}

fn constant_with_offsets(ty: &Type, constant: &Constant) -> Constant {
    match constant {
        Constant::Zero if matches!(ty, Type::Scalar(Scalar::Pointer(_))) => Constant::Int(0),
        Constant::Elements(elements) => {
            let element =
                |(ty, constant): &(Type, Constant)| (with_offsets(ty), constant_with_offsets(ty, constant));
            Constant::Elements(elements.iter().map(element).collect())
        }
        other => other.clone(),
    }
}

/// Gives all values the types that they have from now on.
fn retype(function: &mut Function, own: &HashSet<Value>) {
    let changed = function.value_table().filter_map(|(value, ty, def)| {
        let new = with_offsets(ty);
        (new != *ty && !own.contains(&value)).then(|| (value, ty.clone(), new, def.clone()))
    });
    let changed: Vec<_> = changed.collect();
    for (value, old, new, def) in changed {
        match def {
            ValueDef::Constant(constant) => {
                function.replace_constant(value, new, constant_with_offsets(&old, &constant));
            }
            _ => function.retype(value, new),
        }
    }
    for param in &mut function.params {
        if !own.contains(&param.value)
            && let crate::Passing::Argument(promises) = &mut param.passing
        {
            *promises = crate::Promises::default();
        }
    }
    if let Signature::Function { result: Some(ty) } = &mut function.signature {
        *ty = with_offsets(ty);
    }
}

/// Nothing leads there by the program's own promise, which nothing relies on: what comes there returns.
fn return_where_nothing_leads(function: &mut Function) {
    for block in function.block_ids() {
        if function.block(block).terminator == Terminator::Unreachable {
            let result = match &function.signature {
                Signature::Function { result: Some(ty) } => Some(ty.clone()),
                _ => None,
            };
            let value = result.map(|ty| function.constant(ty, Constant::Undef));
            function.set_terminator(block, Terminator::Return(value));
        }
    }
}

impl Rewriter {
    /// Writes what stands in place of an instruction, or changes it and says false.
    fn instruction(&mut self, out: &mut Builder, inst: Inst) -> bool {
        let result = out.function.result(inst);
        match out.function.op(inst).clone() {
            Op::Address { base, index, scale, offset, .. } if !self.own.contains(&base) => {
                let ty = result.map(|result| out.ty(result)).unwrap_or(Type::I32);
                let sum = self.sum(out, &ty, (base, index), (scale, offset));
                self.replaced.extend(result.map(|result| (result, sum)));
                true
            }
            Op::GlobalAddress(name) => {
                debug_assert_eq!(&*name, DATA_SYMBOL, "all data lies in the linear memory");
                let space = result.and_then(|result| self.spaces.get(&result)).cloned();
                let address = out.push(space.unwrap_or(Type::PRIVATE_POINTER), Op::GlobalAddress(name));
                out.replace(inst, Op::Cast { op: CastOp::PtrToInt, flags: Flags::NONE, value: address });
                true
            }
            Op::Cast { op, value, .. } => self.cast(out, inst, op, value),
            Op::Load { .. } | Op::MaskedLoad { .. } => self.load(out, inst),
            Op::Intrinsic { intrinsic, arguments, flags } => {
                let is_memory = matches!(intrinsic.shape(), Shape::Copy | Shape::Fill | Shape::Prefetch);
                if is_memory {
                    let arguments = self.block_arguments(out, intrinsic, arguments);
                    *out.function.op_mut(inst) = Op::Intrinsic { intrinsic, arguments, flags };
                }
                false
            }
            _ => {
                self.store(out, inst);
                self.relocate(out, inst);
                false
            }
        }
    }

    fn cast(&mut self, out: &mut Builder, inst: Inst, op: CastOp, value: Value) -> bool {
        let between = |ty: &Type| ty.scalar().map_or(0, Scalar::bits);
        let Some(result) = out.function.result(inst) else { return false };
        if !matches!(op, CastOp::PtrToInt | CastOp::IntToPtr | CastOp::AddrSpaceCast | CastOp::BitCast)
            || !(self.spaces.contains_key(&value) || self.spaces.contains_key(&result))
        {
            return false;
        }
        let (from, to) = (between(out.function.ty(value)), between(out.function.ty(result)));
        let op = match from.cmp(&to) {
            std::cmp::Ordering::Less => CastOp::ZExt,
            std::cmp::Ordering::Equal => {
                self.replaced.insert(result, value);
                return true;
            }
            std::cmp::Ordering::Greater => CastOp::Trunc,
        };
        out.replace(inst, Op::Cast { op, flags: Flags::NONE, value });
        true
    }

    /// Pointers lie in Kernel IR's own memory as 64 bits, of which the lower ones count.
    fn load(&mut self, out: &mut Builder, inst: Inst) -> bool {
        self.relocate(out, inst);
        let Some(result) = out.function.result(inst) else { return false };
        let Some(old) = self.spaces.get(&result).cloned() else { return false };
        let wide = old.with_scalar(Scalar::Int(64));
        let (op, group) = (out.function.op(inst).clone(), out.function.access_group(inst));
        let loaded = out.push(wide, op);
        if let ValueDef::Inst(load) = *out.function.def(loaded) {
            out.function.set_access_group(load, group);
        }
        out.function.set_access_group(inst, None);
        out.replace(inst, Op::Cast { op: CastOp::Trunc, flags: Flags::NONE, value: loaded });
        true
    }

    /// The same for what is stored.
    fn store(&mut self, out: &mut Builder, inst: Inst) {
        let stored = match out.function.op(inst) {
            Op::Store { value, .. } | Op::MaskedStore { value, .. } | Op::NontemporalStore { value, .. } => {
                *value
            }
            _ => return,
        };
        if !self.spaces.contains_key(&stored) {
            return;
        }
        let wide = out.ty(stored).with_scalar(Scalar::Int(64));
        let widened = out.cast(CastOp::ZExt, wide, stored);
        match out.function.op_mut(inst) {
            Op::Store { value, .. } | Op::MaskedStore { value, .. } | Op::NontemporalStore { value, .. } => {
                *value = widened;
            }
            _ => {}
        }
    }

    /// Gives an access the address that its offset means.
    fn relocate(&mut self, out: &mut Builder, inst: Inst) {
        let Some(pointer) = accessed(out.function.op_mut(inst)).copied() else { return };
        let address = self.address(out, pointer);
        if let Some(pointer) = accessed(out.function.op_mut(inst)) {
            *pointer = address;
        }
    }

    /// Pointers become addresses, and lengths numbers of 32 bits: the guard is larger.
    fn block_arguments(
        &mut self,
        out: &mut Builder,
        intrinsic: Intrinsic,
        arguments: Vec<Value>,
    ) -> Vec<Value> {
        let length = match intrinsic.shape() {
            Shape::Copy | Shape::Fill => Some(2),
            _ => None,
        };
        let argument = |(number, value): (usize, Value)| {
            if Some(number) == length {
                let narrow = to_width(out, value, Type::I32);
                let narrow = freeze(out, narrow);
                return out.cast(CastOp::ZExt, Type::I64, narrow);
            }
            if self.spaces.contains_key(&value) { self.address(out, value) } else { value }
        };
        arguments.into_iter().enumerate().map(argument).collect()
    }

    /// base + index*scale + offset in 32 bits, which wrap.
    fn sum(
        &mut self,
        out: &mut Builder,
        ty: &Type,
        (base, index): (Value, Option<Value>),
        (scale, offset): (i64, i64),
    ) -> Value {
        let number = |out: &mut Builder, number: i64| {
            let one = out.function.int(Type::I32, u128::from(number as u32));
            out.splat(one, ty)
        };
        let mut sum = out.splat(base, ty);
        if let Some(index) = index {
            let narrow = out.ty(index).with_scalar(OFFSET);
            let index = to_width(out, index, narrow);
            let index = out.splat(index, ty);
            let scale = number(out, scale);
            let step = out.binary(BinaryOp::Mul, 0, index, scale);
            sum = out.binary(BinaryOp::Add, 0, sum, step);
        }
        if offset != 0 {
            let offset = number(out, offset);
            sum = out.binary(BinaryOp::Add, 0, sum, offset);
        }
        sum
    }

    /// The address that an offset means, or each of a vector: what is accessed lies in the linear memory or in its guard. The one
    /// place where addresses are made.
    fn address(&mut self, out: &mut Builder, offset: Value) -> Value {
        let Some(space) = self.spaces.get(&offset).cloned() else { return offset };
        let sum = self.sums.get(&offset).copied();
        let Some(Sum { base, index, displacement }) = sum else {
            return match space {
                Type::Vector(..) => self.addresses(out, offset, &space),
                _ => self.base(out, offset, &space),
            };
        };
        let mut address = self.base(out, base, &Type::Scalar(space.scalar().unwrap_or(OFFSET)));
        let add = |out: &mut Builder, base: Value, index: Option<Value>, (scale, offset): (i64, i64)| {
            let ty = if index.is_some() { space.clone() } else { out.ty(base) };
            out.push(ty, Op::Address { base, index, scale, offset, inbounds: false })
        };
        // First what is the same for all lanes.
        if displacement != 0 && matches!(space, Type::Vector(..)) {
            address = add(out, address, None, (0, displacement));
        }
        let displacement = if matches!(space, Type::Vector(..)) { 0 } else { displacement };
        if let Some((index, scale)) = index {
            let (narrow, wide) = (out.ty(index).with_scalar(OFFSET), out.ty(index));
            let index = to_width(out, index, narrow);
            let index = freeze(out, index);
            let index = out.cast(CastOp::SExt, wide, index);
            address = add(out, address, Some(index), (scale, displacement));
        } else if displacement != 0 {
            address = add(out, address, None, (0, displacement));
        }
        address
    }

    /// The address of one offset.
    fn base(&mut self, out: &mut Builder, offset: Value, space: &Type) -> Value {
        if let Some(&known) = self.made.get(&(out.at, offset)).filter(|known| out.ty(**known) == *space) {
            return known;
        }
        let memory = out.push(space.clone(), Op::GlobalAddress(MEMORY_SYMBOL.into()));
        let frozen = freeze(out, offset);
        let index = Some(out.cast(CastOp::ZExt, Type::I64, frozen));
        let op = Op::Address { base: memory, index, scale: 1, offset: 0, inbounds: false };
        let address = out.push(space.clone(), op);
        self.made.insert((out.at, offset), address);
        address
    }

    /// The addresses of a vector of offsets. Gathers take signed numbers: those are counted from the middle.
    fn addresses(&mut self, out: &mut Builder, offsets: Value, space: &Type) -> Value {
        let one = Type::Scalar(space.scalar().unwrap_or(OFFSET));
        let memory = out.push(one.clone(), Op::GlobalAddress(MEMORY_SYMBOL.into()));
        let half = Op::Address { base: memory, index: None, scale: 0, offset: 1 << 31, inbounds: false };
        let middle = out.push(one, half);
        let frozen = freeze(out, offsets);
        let ty = out.ty(frozen);
        let sign = out.function.int(Type::I32, 1 << 31);
        let sign = out.splat(sign, &ty);
        let signed = out.binary(BinaryOp::Xor, 0, frozen, sign);
        let index = Some(out.cast(CastOp::SExt, ty.with_scalar(Scalar::Int(64)), signed));
        out.push(space.clone(), Op::Address { base: middle, index, scale: 1, offset: 0, inbounds: false })
    }
}

/// The pointer that an operation accesses memory by.
fn accessed(op: &mut Op) -> Option<&mut Value> {
    match op {
        Op::Load { pointer, .. }
        | Op::Store { pointer, .. }
        | Op::MaskedLoad { pointer, .. }
        | Op::MaskedStore { pointer, .. }
        | Op::NontemporalStore { pointer, .. }
        | Op::AtomicRmw { pointer, .. }
        | Op::CompareExchange { pointer, .. } => Some(pointer),
        _ => None,
    }
}

fn freeze(out: &mut Builder, value: Value) -> Value {
    if matches!(out.function.def(value), ValueDef::Constant(Constant::Int(_))) {
        return value;
    }
    out.freeze(value)
}

/// An integer as another of the same lanes that is no wider, or wider by zeros.
fn to_width(out: &mut Builder, value: Value, ty: Type) -> Value {
    let bits = |ty: &Type| ty.scalar().map_or(0, Scalar::bits);
    match bits(out.function.ty(value)).cmp(&bits(&ty)) {
        std::cmp::Ordering::Less => out.cast(CastOp::ZExt, ty, value),
        std::cmp::Ordering::Equal => value,
        std::cmp::Ordering::Greater => out.cast(CastOp::Trunc, ty, value),
    }
}

/// Whether all that a function accesses lies in the linear memory, in its guard, or is its own: what [`enter_linear_memory`] sees to,
/// found out anew. The error says where not.
pub fn check_linear_memory(function: &Function, launch: Option<Value>) -> Result<(), String> {
    let own = own_pointers(function, launch);
    for inst in function.insts() {
        let mut op = function.op(inst).clone();
        let wrong = |what: &str| Err(format!("{}: {:?} {what}", function.name, function.op(inst)));
        if let Some(&mut pointer) = accessed(&mut op)
            && !reaches_memory(function, &own, pointer)
        {
            return wrong("may access other memory than the linear one");
        }
        let is_block = |intrinsic: Intrinsic| matches!(intrinsic.shape(), Shape::Copy | Shape::Fill);
        if let Op::Intrinsic { intrinsic, arguments, .. } = &op
            && is_block(*intrinsic)
        {
            let is_pointer = |value: &Value| function.ty(*value).has_pointers();
            let mut pointers = arguments.iter().filter(|value| is_pointer(value));
            if !pointers.all(|&pointer| reaches_memory(function, &own, pointer)) {
                return wrong("may access other memory than the linear one");
            }
            let length = function.constant_int(arguments[2]).is_some_and(|length| length >> 32 == 0);
            if !length && extended(function, arguments[2]) != Some(CastOp::ZExt) {
                return wrong("may be longer than the guard");
            }
        }
        let has_address = function.result(inst).is_some_and(|result| function.ty(result).has_pointers());
        if has_address && !matches!(op, Op::Address { .. } | Op::GlobalAddress(_) | Op::SlotAddress(_)) {
            return wrong("makes an address");
        }
    }
    let mut targets = function.blocks.iter().flat_map(|block| &block.params);
    match targets.any(|&param| function.ty(param).has_pointers()) {
        true => Err(format!("{}: a block is passed an address", function.name)),
        false => Ok(()),
    }
}

/// By which cast a number of 32 bits became this one, if it did.
fn extended(function: &Function, value: Value) -> Option<CastOp> {
    match *function.defining_op(value)? {
        Op::Cast { op: op @ (CastOp::ZExt | CastOp::SExt), value, .. } => {
            (function.ty(value).scalar() == Some(OFFSET)).then_some(op)
        }
        _ => None,
    }
}

/// Whether a pointer is one of the function's own, or the linear memory's beginning with an offset, an index and a displacement at
/// most, each within its bounds.
fn reaches_memory(function: &Function, own: &HashSet<Value>, pointer: Value) -> bool {
    let (mut at, mut offsets, mut indices, mut displacement) = (pointer, 0, 0, 0_i64);
    loop {
        if own.contains(&at) {
            return at == pointer;
        }
        match function.defining_op(at) {
            Some(Op::GlobalAddress(name)) => {
                let fits = (-MAX_DISPLACEMENT..=MAX_DISPLACEMENT).contains(&displacement);
                // From the middle, with signs, instead of an offset.
                let middle = displacement == 1 << 31 && offsets == 0 && indices == 1;
                return &**name == MEMORY_SYMBOL && (fits && offsets == 1 && indices <= 1 || middle);
            }
            Some(&Op::Address { base, index, scale, offset, .. }) => {
                let Some(sum) = displacement.checked_add(offset) else { return false };
                (displacement, at) = (sum, base);
                match index.map(|index| (extended(function, index), scale)) {
                    None => {}
                    Some((Some(CastOp::ZExt), 1)) => offsets += 1,
                    Some((Some(CastOp::SExt), 1..=MAX_SCALE)) => indices += 1,
                    Some(_) => return false,
                }
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, verify};

    fn entered(text: &str, launch: Option<usize>) -> String {
        let mut function = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let launch = launch.map(|number| function.params[number].value);
        assert!(check_linear_memory(&function, launch).is_err(), "{text}");
        enter_linear_memory(&mut function, launch);
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        check_linear_memory(&function, launch).unwrap_or_else(|e| panic!("{e}\n{function}"));
        function.to_string()
    }

    #[test]
    fn accesses_are_within() {
        let text = entered(
            r#"function "f"(%0: ptr(global) noalias align 16, %1: i64, %2: ptr(generic) noalias) {
b0:
  %3: i64 = load %2, align 8
  %4: ptr(global) = address inbounds %0 + %1*4 + 16
  store %4, %3, align 8
  %5: ptr(global) = address %0 + %1*24 + 8
  %6: i32 = load %5, align 4
  %7: i64 = ptrtoint %5
  %8: ptr(local) = inttoptr %7
  store %8, %6, align 4
  %9: i1 = icmp ult %4, %5
  branch %9, b1, b2
b1:
  unreachable
b2:
  return
}"#,
            Some(2),
        );
        for part in
            ["*4 + 16", "zext", "sext", "freeze", "global_address @\"spirula.memory\"", "%0: i32", "icmp ult"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("unreachable") && !text.contains("noalias align"), "{text}");
        assert!(text.contains("mul"), "no promise was made for the second one: {text}");
    }

    #[test]
    fn pointers_in_memory_and_vectors_of_them() {
        let text = entered(
            r#"function "f"(%0: ptr(context), %1: <4 x i64>, %2: ptr(global), %3: <4 x i1>, %4: i64) {
b0:
  %5: ptr(global) = load %0, align 8
  store %0, %2, align 8
  %6: <4 x ptr(global)> = address inbounds %5 + %1*4 + 4
  %7: <4 x i32> = masked_load %6, %3, align 4
  %8: ptr(global) = extract_element %6, 1:i32
  store %8, %7, align 16
  %9: <4 x ptr(global)> = address %5 + %1*4 + 4
  masked_store %9, %7, %3, align 4
  intrinsic memset(%8, 7:i8, %4, 0:i1)
  return
}"#,
            None,
        );
        assert!(text.contains("2147483648"), "from the middle: {text}");
        assert!(text.contains("trunc") && text.contains("i64 = load"), "{text}");
    }

    #[test]
    fn what_is_not_within_is_found() {
        for (access, what) in [
            ("%2: ptr(global) = address %0 + %1*1 + 0\n  store %2, %1, align 8", "an index of 64 bits"),
            ("%2: ptr(global) = inttoptr %1\n  store %2, %1, align 8", "a number"),
            ("store %0, %1, align 8", "a parameter"),
        ] {
            let text = format!("function \"f\"(%0: ptr(global), %1: i64) {{\nb0:\n  {access}\n  return\n}}");
            let function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert!(check_linear_memory(&function, None).is_err(), "{what}");
        }
    }
}
