//! The bounds of what pointers lead to, as values: known from the launch, from the program, from what pointers are merged of, or
//! looked up among the launch's objects.

use super::memory::Access;
use super::provenance::{Provenance, base, is_block};
use super::{Checker, Context, FIND, call};
use crate::builder::Builder;
use crate::{
    AddressSpace, BinaryOp, Block, CastOp, Function, IntPredicate, Intrinsic, Op, Passing, Slot, Type, Value,
    ValueDef,
};
use spirula_interface::check::{self, Object, Space};
use spirula_interface::program::{AddressQualifier, ArgumentKind};
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// What a pointer's root is.
#[derive(Clone, PartialEq)]
pub(super) enum Root {
    /// What the runtime passes, and what that leads to: images, pipes, queues.
    Trusted,
    /// What a block captured: a copy that is the runtime's, of values that are the program's.
    Captures,
    /// A kernel's argument.
    Argument(u32),
    /// A variable.
    Variable(Space, Option<String>, u64),
    /// Null, or nothing that was ever set.
    Nothing,
    /// Several pointers, of which one was taken.
    Merged(Vec<Value>),
    /// Found in memory, and of this work-item's private or its group's local memory.
    Own(Space),
    /// Loaded or computed.
    Unknown,
}

/// The bounds of a root's object.
#[derive(Clone, Copy)]
struct Known {
    base: Value,
    readable: Value,
    writable: Value,
    /// How far into the object the root points; None if it is known by its address only.
    start: Option<Value>,
}

/// The bounds of a function's pointers.
pub(super) struct Bounds<'c> {
    context: &'c Context<'c>,
    block: Value,
    pub provenance: Provenance,
    roots: HashMap<Value, Root>,
    known: HashMap<Value, Known>,
    /// Parameters that blocks got, by the pointer whose bounds they are.
    params: Vec<(Block, Value)>,
}

impl<'c> Bounds<'c> {
    /// For these accesses.
    pub fn new(
        function: &mut Function,
        checker: &Checker,
        context: &'c Context<'c>,
        provenance: Provenance,
        accesses: &[Access],
    ) -> Bounds<'c> {
        let mut bounds = Bounds {
            context,
            block: checker.block,
            provenance,
            roots: HashMap::new(),
            known: HashMap::new(),
            params: Vec::new(),
        };
        let mut open: Vec<Value> =
            accesses.iter().map(|access| bounds.provenance.root(access.pointer)).collect();
        while let Some(value) = open.pop() {
            if bounds.roots.contains_key(&value) {
                continue;
            }
            let root = bounds.classify(function, value, &mut HashSet::new());
            if let Root::Merged(sources) = &root {
                open.extend(sources.iter().map(|source| bounds.provenance.root(*source)));
            }
            bounds.roots.insert(value, root);
        }
        // Those of block parameters come with them: known before any instruction is written.
        let mut merged: Vec<(Value, Block)> = bounds
            .roots
            .iter()
            .filter(|(_, root)| matches!(root, Root::Merged(_)))
            .filter_map(|(&value, _)| match function.def(value) {
                ValueDef::BlockParam(block, _) => Some((value, *block)),
                _ => None,
            })
            .collect();
        merged.sort();
        for (value, block) in merged {
            let [base, readable, writable] = [(); 3].map(|()| function.add_block_param(block, Type::I64));
            bounds.known.insert(value, Known { base, readable, writable, start: None });
            bounds.params.push((block, value));
        }
        bounds
    }

    /// What the root of a pointer is.
    pub fn root(&self, pointer: Value) -> &Root {
        self.roots.get(&self.provenance.root(pointer)).unwrap_or(&Root::Unknown)
    }

    /// The same of a pointer that no access was named for.
    pub fn root_of(&self, function: &Function, pointer: Value) -> Root {
        self.classify(function, self.provenance.root(pointer), &mut HashSet::new())
    }

    /// What is reported of a pointer's object.
    pub fn object(&self, pointer: Value) -> Object {
        self.named(self.root(pointer))
    }

    /// What is reported of a root's object.
    pub fn named(&self, root: &Root) -> Object {
        match root {
            Root::Argument(number) => Object::Argument(*number),
            Root::Variable(space, name, size) => {
                Object::Variable { space: *space, name: name.clone(), size: *size }
            }
            Root::Nothing => Object::Nothing,
            Root::Own(space) => Object::Own(*space),
            Root::Trusted | Root::Captures | Root::Merged(_) | Root::Unknown => Object::Any,
        }
    }

    fn classify(&self, function: &Function, value: Value, seen: &mut HashSet<Value>) -> Root {
        seen.insert(value);
        match function.def(value) {
            ValueDef::Param(number) => self.param(function, *number as usize),
            ValueDef::Constant(_) => Root::Nothing,
            ValueDef::BlockParam(..) => Root::Merged(self.provenance.incoming(value).to_vec()),
            ValueDef::Inst(inst) => match function.op(*inst) {
                Op::SlotAddress(slot) => {
                    Root::Variable(Space::Private, None, function.slots[slot.index()].size)
                }
                Op::LocalAddress { offset } => {
                    let variable = self.context.local.iter().find(|variable| variable.offset == *offset);
                    variable.map_or(Root::Trusted, |variable| {
                        // The front calls it after its kernel as well.
                        let name = variable.name.rsplit('.').next().map(str::to_owned);
                        Root::Variable(Space::Local, name, variable.size)
                    })
                }
                Op::GlobalAddress(name) => {
                    self.context.constants.get(name).map_or(Root::Trusted, |size| {
                        Root::Variable(Space::Constant, source_name(name), *size)
                    })
                }
                Op::Address { base, offset, index: None, .. } if is_block(function, *base) => {
                    let variable =
                        self.context.program.iter().find(|variable| variable.offset as i64 == *offset);
                    variable.map_or(Root::Trusted, |variable| {
                        Root::Variable(Space::Global, source_name(&variable.name), variable.size)
                    })
                }
                Op::Select { then, otherwise, .. } => Root::Merged(vec![*then, *otherwise]),
                // What is found in memory of the runtime's is the runtime's.
                Op::Load { pointer, .. } => {
                    let root = self.provenance.root(*pointer);
                    let trusted =
                        !seen.contains(&root) && self.classify(function, root, seen) == Root::Trusted;
                    match function.ty(value).address_space() {
                        _ if trusted => Root::Trusted,
                        Some(AddressSpace::Private) => Root::Own(Space::Private),
                        Some(AddressSpace::Local) => Root::Own(Space::Local),
                        _ => Root::Unknown,
                    }
                }
                // Only functions of the library are left.
                Op::Call { .. } => Root::Trusted,
                _ => match function.ty(value).address_space() {
                    // Only the kernel itself makes such pointers, of such.
                    Some(AddressSpace::Global | AddressSpace::Generic) => Root::Unknown,
                    _ => Root::Trusted,
                },
            },
        }
    }

    fn param(&self, function: &Function, number: usize) -> Root {
        let param = &function.params[number];
        let arguments = &self.context.signature.arguments;
        match arguments.iter().enumerate().find(|(_, argument)| argument.offset == param.offset) {
            Some((number, argument)) => match argument.kind {
                ArgumentKind::Buffer | ArgumentKind::Local => Root::Argument(number as u32),
                ArgumentKind::Value { size } => {
                    Root::Variable(Space::Private, argument.name.clone(), size.into())
                }
                _ => Root::Trusted,
            },
            None if param.passing == Passing::ByAddress => Root::Captures,
            None => Root::Trusted,
        }
    }

    /// Writes the bounds of what is known when the kernel begins.
    pub fn begin(&mut self, builder: &mut Builder) {
        let mut given: Vec<Value> =
            self.roots.keys().copied().filter(|&value| builder.function.is_given(value)).collect();
        given.sort();
        for value in given {
            self.define(builder, value);
        }
    }

    /// Writes the bounds of an instruction's result, if anybody needs them.
    pub fn define(&mut self, builder: &mut Builder, value: Value) {
        let Some(root) = self.roots.get(&value).cloned() else { return };
        let known = match root {
            Root::Argument(number) => self.argument(builder, number, value),
            Root::Variable(space, _, size) => {
                let base = builder.cast(CastOp::PtrToInt, Type::I64, value);
                let [readable, zero] = [builder.int(size), builder.int(0)];
                let writable = if space == Space::Constant { zero } else { readable };
                Known { base, readable, writable, start: Some(zero) }
            }
            Root::Nothing => {
                let zero = builder.int(0);
                Known { base: zero, readable: zero, writable: zero, start: None }
            }
            Root::Trusted | Root::Captures => self.everything(builder),
            Root::Own(Space::Private) => self.look_up_private(builder, value),
            Root::Own(space) => self.look_up_own(builder, value, space),
            Root::Merged(_) => match builder.function.defining_op(value) {
                Some(&Op::Select { condition, then, otherwise, .. }) => {
                    let (a, b) = (self.of(builder, then), self.of(builder, otherwise));
                    either(builder, condition, a, b)
                }
                _ => return,
            },
            Root::Unknown => self.look_up(builder, value),
        };
        self.known.insert(value, known);
    }

    fn everything(&self, builder: &mut Builder) -> Known {
        let (zero, all) = (builder.int(0), builder.int(u64::MAX));
        Known { base: zero, readable: all, writable: all, start: None }
    }

    fn argument(&self, builder: &mut Builder, number: u32, value: Value) -> Known {
        let at = size_of::<check::Block>() + number as usize * size_of::<check::Bounds>();
        let word = |builder: &mut Builder, offset: usize| {
            let place = builder.offset(self.block, (at + offset) as u64);
            builder.load(Type::I64, place, 8)
        };
        let readable = word(builder, offset_of!(check::Bounds, readable));
        let argument = &self.context.signature.arguments[number as usize];
        if argument.kind == ArgumentKind::Local {
            let base = builder.cast(CastOp::PtrToInt, Type::I64, value);
            let zero = builder.int(0);
            return Known { base, readable, writable: readable, start: Some(zero) };
        }
        let base = word(builder, offset_of!(check::Bounds, base));
        let start = word(builder, offset_of!(check::Bounds, offset));
        let writable = match argument.address_space {
            AddressQualifier::Constant => builder.int(0),
            _ => word(builder, offset_of!(check::Bounds, writable)),
        };
        Known { base, readable, writable, start: Some(start) }
    }

    /// Asks the launch what an address belongs to; of local and private memory the kernel itself knows.
    fn look_up(&self, builder: &mut Builder, value: Value) -> Known {
        let space = builder.ty(value).address_space();
        if !matches!(space, Some(AddressSpace::Global | AddressSpace::Generic)) {
            return self.everything(builder);
        }
        let block = builder.cast(CastOp::PtrToInt, Type::I64, self.block);
        let address = builder.cast(CastOp::PtrToInt, Type::I64, value);
        let found = builder.push(Type::I64, call(FIND, vec![block, address]));
        let found = builder.cast(CastOp::IntToPtr, Type::pointer(AddressSpace::Global), found);
        let mut word = |offset: usize| {
            let place = builder.offset(found, offset as u64);
            builder.load(Type::I64, place, 8)
        };
        let base = word(offset_of!(check::Bounds, base));
        let readable = word(offset_of!(check::Bounds, readable));
        let writable = word(offset_of!(check::Bounds, writable));
        let known = Known { base, readable, writable, start: None };
        if space != Some(AddressSpace::Generic) {
            return known;
        }
        let own = [(Intrinsic::IsLocal, Space::Local), (Intrinsic::IsPrivate, Space::Private)];
        own.into_iter().fold(known, |known, (test, space)| {
            let is_own = builder.push_intrinsic(Type::BOOL, test, &[value]);
            let own = self.look_up_own(builder, value, space);
            either(builder, is_own, own, known)
        })
    }

    /// The same for what is a private pointer to the library, which leads anywhere.
    fn look_up_private(&self, builder: &mut Builder, value: Value) -> Known {
        let own = self.look_up_own(builder, value, Space::Private);
        let address = builder.cast(CastOp::PtrToInt, Type::I64, value);
        let generic = builder.cast(CastOp::IntToPtr, Type::pointer(AddressSpace::Generic), address);
        let is_private = builder.push_intrinsic(Type::BOOL, Intrinsic::IsPrivate, &[generic]);
        let anything = self.everything(builder);
        either(builder, is_private, own, anything)
    }

    /// The bounds of the variable of this work-item or of its group that an address lies in, or right behind the end of. Of
    /// what is in none nothing may be accessed: it is another one's.
    fn look_up_own(&self, builder: &mut Builder, value: Value, space: Space) -> Known {
        let address = builder.cast(CastOp::PtrToInt, Type::I64, value);
        let zero = builder.int(0);
        let none = Known { base: address, readable: zero, writable: zero, start: None };
        let variables = self.variables(builder, space);
        // The end of one may be where the next one begins, which it is then.
        [IntPredicate::Eq, IntPredicate::Ult].into_iter().fold(none, |known, predicate| {
            variables.iter().fold(known, |known, &(base, size)| {
                let offset = builder.binary(BinaryOp::Sub, 0, address, base);
                let is_it = builder.compare(predicate, offset, size);
                either(builder, is_it, Known { base, readable: size, writable: size, start: None }, known)
            })
        })
    }

    /// The addresses and sizes of all variables of the work-item, or of its group.
    fn variables(&self, builder: &mut Builder, space: Space) -> Vec<(Value, Value)> {
        let number = |builder: &mut Builder, pointer| builder.cast(CastOp::PtrToInt, Type::I64, pointer);
        if space == Space::Private {
            let slots: Vec<u64> = builder.function.slots.iter().map(|slot| slot.size).collect();
            let place = |(slot, size): (u32, u64)| {
                let pointer = builder.push(Type::PRIVATE_POINTER, Op::SlotAddress(Slot(slot)));
                (number(builder, pointer), builder.int(size))
            };
            return (0..).zip(slots).map(place).collect();
        }
        let mut list = Vec::new();
        for variable in self.context.local {
            let ty = Type::pointer(AddressSpace::Local);
            let pointer = builder.push(ty, Op::LocalAddress { offset: variable.offset });
            list.push((number(builder, pointer), builder.int(variable.size)));
        }
        for (number, declared) in (0..).zip(&self.context.signature.arguments) {
            let param = builder.function.params.iter().find(|param| param.offset == declared.offset);
            if let Some(param) =
                param.filter(|_| declared.kind == ArgumentKind::Local).map(|param| param.value)
            {
                let known = self.argument(builder, number, param);
                list.push((known.base, known.readable));
            }
        }
        list
    }

    /// The bounds of what a pointer leads to.
    fn of(&self, builder: &mut Builder, pointer: Value) -> Known {
        let root = self.provenance.root(pointer);
        self.known.get(&root).copied().unwrap_or_else(|| self.everything(builder))
    }

    /// How far into its object a pointer points; how many bytes of it may be accessed; and the object's address.
    pub fn place(&self, builder: &mut Builder, pointer: Value, writes: bool) -> [Value; 3] {
        let known = self.of(builder, pointer);
        let size = if writes { known.writable } else { known.readable };
        let walked = known.start.and_then(|start| self.walk(builder, pointer, start));
        let offset = walked.unwrap_or_else(|| {
            let address = builder.cast(CastOp::PtrToInt, Type::I64, pointer);
            builder.binary(BinaryOp::Sub, 0, address, known.base)
        });
        [offset, size, known.base]
    }

    /// The sum of the steps from the root on, whose own place is given; None if the way goes through several blocks.
    fn walk(&self, builder: &mut Builder, pointer: Value, start: Value) -> Option<Value> {
        let root = self.provenance.root(pointer);
        let (mut at, mut sum, mut constant) = (pointer, start, 0_i64);
        while at != root {
            let op = builder.function.defining_op(at)?.clone();
            if let Op::Address { index, scale, offset, .. } = op {
                constant = constant.wrapping_add(offset);
                if let Some(index) = index {
                    let scale = builder.int(scale as u64);
                    let step = builder.binary(BinaryOp::Mul, 0, index, scale);
                    sum = builder.binary(BinaryOp::Add, 0, step, sum);
                }
            }
            at = base(builder.function, &op)?;
        }
        if constant != 0 {
            let constant = builder.int(constant as u64);
            sum = builder.binary(BinaryOp::Add, 0, sum, constant);
        }
        Some(sum)
    }

    /// Whether so many bytes from a pointer on are in a variable in any case, and not only to be read.
    pub fn is_within(&self, function: &Function, pointer: Value, size: u64) -> bool {
        let root = self.provenance.root(pointer);
        let Root::Variable(Space::Private | Space::Local | Space::Global, _, room) = self.root(pointer)
        else {
            return false;
        };
        let (mut at, mut sum) = (pointer, 0_i64);
        while at != root {
            let Some(op) = function.defining_op(at) else { return false };
            if let &Op::Address { index, scale, offset, .. } = op {
                let index = index.map_or(Some(0), |index| Some(function.constant_int(index)? as i64));
                let Some(index) = index else { return false };
                sum = sum.wrapping_add(offset).wrapping_add(index.wrapping_mul(scale));
            }
            match base(function, op) {
                Some(base) => at = base,
                None => return false,
            }
        }
        u64::try_from(sum).is_ok_and(|sum| sum <= *room && size <= *room - sum)
    }

    /// Whether a pointer's offset in its object is a multiple of that in any case.
    pub fn is_aligned(&self, function: &Function, pointer: Value, align: i64) -> bool {
        let root = self.provenance.root(pointer);
        if !matches!(self.root(pointer), Root::Argument(_) | Root::Variable(..)) {
            return align == 1;
        }
        let mut at = pointer;
        while at != root {
            let Some(op) = function.defining_op(at) else { return false };
            if let Op::Address { index, scale, offset, .. } = op
                && (offset % align != 0 || index.is_some() && scale % align != 0)
            {
                return false;
            }
            match base(function, op) {
                Some(base) => at = base,
                None => return false,
            }
        }
        true
    }

    /// Passes the bounds to the blocks that take them.
    pub fn pass(&self, function: &mut Function) {
        for from in function.block_ids() {
            let mut terminator = function.block(from).terminator.clone();
            let mut changed = false;
            for target in terminator.targets_mut() {
                let to = target.block;
                for (_, param) in self.params.iter().filter(|(block, _)| *block == to) {
                    let ValueDef::BlockParam(_, number) = *function.def(*param) else { continue };
                    let Some(&pointer) = target.arguments.get(number as usize) else { continue };
                    let known = self.of(&mut Builder { function, at: from }, pointer);
                    target.arguments.extend([known.base, known.readable, known.writable]);
                    changed = true;
                }
            }
            if changed {
                function.set_terminator(from, terminator);
            }
        }
    }
}

/// One of two objects' bounds.
fn either(builder: &mut Builder, condition: Value, a: Known, b: Known) -> Known {
    let mut choose = |a, b| builder.select(condition, a, b);
    Known {
        base: choose(a.base, b.base),
        readable: choose(a.readable, b.readable),
        writable: choose(a.writable, b.writable),
        start: None,
    }
}

/// A variable's name in the source: behind what the front wrote in front of it.
fn source_name(name: &str) -> Option<String> {
    let name =
        name.strip_prefix("spirula.data.").map_or(name, |rest| rest.split_once('.').map_or("", |(_, n)| n));
    (!name.is_empty()).then(|| name.to_owned())
}
