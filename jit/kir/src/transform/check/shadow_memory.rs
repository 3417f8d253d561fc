//! Where memory's shadow lies. Private variables lie in one slot, with its shadow behind it, and a group's local memory has its own behind it
//! as well; buffers have theirs at an address that the launch says. All else is taken for written: constants, the program's
//! variables, SVM and images, which the host may change at any time.

use super::provenance::{Provenance, is_block};
use super::{Checker, Context, SHADOW, call, query};
use crate::analysis::ControlFlow;
use crate::builder::Builder;
use crate::{
    AddressSpace, BinaryOp, CastOp, Constant, Function, Inst, IntPredicate, Intrinsic, Op, Passing, Slot,
    SlotData, Type, Value, ValueDef, WorkItemQuery,
};
use spirula_interface::check::{self, DUMMY_BYTES};
use spirula_interface::program::{ArgumentKind, HiddenKind};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// Bytes of the largest access whose shadow is kept bit by bit.
pub(super) const LARGEST: u64 = DUMMY_BYTES as u64;

/// What a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The runtime's memory: nobody looks at it.
    Runtime,
    /// What the kernel prints.
    Printed,
    /// What was always written: constants, arguments' values and the program's variables.
    Written,
    Private,
    Local,
    /// A buffer that the kernel's argument of that number points to.
    Argument(u32),
    /// Any of the launch's buffers, or something else.
    Global,
    /// Any memory.
    Generic,
    /// Private memory, unless the library takes any other for that.
    Unsure,
}

impl Home {
    /// Whether its shadow is kept.
    pub fn is_tracked(self) -> bool {
        !matches!(self, Home::Runtime | Home::Printed | Home::Written)
    }
}

/// The shadow of a kernel's memory.
pub(super) struct ShadowMemory<'c> {
    context: &'c Context<'c>,
    provenance: Provenance,
    /// Where pointers' roots lead.
    homes: Vec<Home>,
    /// The first value and the first instruction that the checks made.
    own: (usize, usize),
    /// Where each slot lies in the one that holds all of them.
    places: Vec<u64>,
    frame: Slot,
    /// From private memory to its shadow.
    private: u64,
    known: Option<Known>,
}

/// What is read when the kernel begins.
struct Known {
    block: Value,
    /// From local memory to its shadow.
    local: Value,
    /// Addresses of a shadow that is all written, and of one that nobody reads.
    written: Value,
    sink: Value,
    /// Arguments' buffers: address, bytes, and the address of the shadow.
    arguments: BTreeMap<u32, [Value; 3]>,
}

impl<'c> ShadowMemory<'c> {
    pub fn new(
        function: &mut Function,
        flow: &ControlFlow,
        checker: &Checker,
        context: &'c Context<'c>,
    ) -> ShadowMemory<'c> {
        let provenance = Provenance::new(function, flow);
        let (mut places, mut size, mut align) = (Vec::new(), 0_u64, 16);
        for slot in &function.slots {
            let at = size.next_multiple_of(slot.align.max(1).into());
            places.push(at);
            size = at + slot.size;
            align = align.max(slot.align);
        }
        let private = size.next_multiple_of(align.into());
        let frame = Slot(function.slots.len() as u32);
        if size > 0 {
            function.slots.push(SlotData { size: 2 * private, align });
        }
        let own = checker.own;
        let mut memory =
            ShadowMemory { context, provenance, homes: Vec::new(), own, places, frame, private, known: None };
        let values = function.value_count() as u32;
        memory.homes = (0..values).map(|value| memory.classify(function, Value(value), 0)).collect();
        memory
    }

    /// What a pointer leads to.
    pub fn home(&self, pointer: Value) -> Home {
        self.homes.get(self.provenance.root(pointer).index()).copied().unwrap_or(Home::Runtime)
    }

    /// Whether an instruction is one that the checks wrote.
    pub fn is_own(&self, inst: Inst) -> bool {
        inst.index() >= self.own.1
    }

    /// Whether a condition is one of the checks'.
    pub fn is_checks(&self, function: &Function, condition: Value) -> bool {
        condition.index() >= self.own.0 && matches!(function.def(condition), ValueDef::Inst(_))
    }

    fn classify(&self, function: &Function, value: Value, depth: u32) -> Home {
        let by_space = match function.ty(value).address_space() {
            Some(AddressSpace::Private) => Home::Unsure,
            Some(AddressSpace::Local) => Home::Local,
            Some(AddressSpace::Generic) => Home::Generic,
            Some(AddressSpace::Global | AddressSpace::Constant) => Home::Global,
            _ => return Home::Runtime,
        };
        match function.def(value) {
            ValueDef::Param(number) => self.param(function, *number as usize),
            ValueDef::Constant(_) => Home::Written,
            ValueDef::BlockParam(..) => by_space,
            ValueDef::Inst(inst) => match function.op(*inst) {
                Op::SlotAddress(_) => Home::Private,
                Op::GlobalAddress(_) => Home::Written,
                Op::Address { base, .. } if is_block(function, *base) => Home::Written,
                Op::Call { .. } => Home::Runtime,
                _ if self.is_own(*inst) => Home::Runtime,
                Op::LocalAddress { .. } => Home::Local,
                Op::Load { pointer, .. } if depth < 8 => {
                    let from = self.classify(function, self.provenance.root(*pointer), depth + 1);
                    if from == Home::Runtime { Home::Runtime } else { by_space }
                }
                _ => by_space,
            },
        }
    }

    fn param(&self, function: &Function, number: usize) -> Home {
        let param = &function.params[number];
        let signature = self.context.signature;
        if param.passing == Passing::Direct
            && signature.hidden_offset(HiddenKind::PrintfBuffer) == Some(param.offset)
        {
            return Home::Printed;
        }
        match signature.arguments.iter().zip(0..).find(|(argument, _)| argument.offset == param.offset) {
            Some((argument, number)) => match argument.kind {
                ArgumentKind::Buffer => Home::Argument(number),
                ArgumentKind::Local => Home::Local,
                ArgumentKind::Value { .. } => Home::Written,
                _ => Home::Runtime,
            },
            // A block's captures, and what the runtime gives.
            None if param.passing == Passing::ByAddress => Home::Written,
            None => Home::Runtime,
        }
    }

    /// Whether what is stored there is seen by others than the work-item's group.
    pub fn is_output(&self, function: &Function, pointer: Value) -> bool {
        match self.home(pointer) {
            Home::Printed | Home::Argument(_) | Home::Global | Home::Generic => true,
            Home::Written => function.ty(pointer).address_space() != Some(AddressSpace::Private),
            Home::Runtime | Home::Private | Home::Local | Home::Unsure => false,
        }
    }

    /// A condition, where it is not local or private memory that a generic pointer leads to.
    pub fn seen(&self, builder: &mut Builder, pointer: Value, condition: Value) -> Value {
        if self.home(pointer) != Home::Generic {
            return condition;
        }
        let own = [Intrinsic::IsLocal, Intrinsic::IsPrivate]
            .map(|test| builder.push_intrinsic(Type::BOOL, test, &[pointer]));
        let own = builder.binary(BinaryOp::Or, 0, own[0], own[1]);
        let no = builder.function.int(Type::BOOL, 0);
        builder.select(own, no, condition)
    }

    /// Whether a value is what a pointer leads to.
    pub fn is_loaded(&self, function: &Function, value: Value, from: Value) -> bool {
        let loads = |value: &Value| matches!(function.defining_op(*value), Some(Op::Load { pointer, .. }) if *pointer == from);
        // What `memory` guards comes with zero for what is left out.
        loads(&value)
            || matches!(function.def(value), ValueDef::BlockParam(..))
                && self.provenance.incoming(value).iter().any(loads)
                && self.provenance.incoming(value).iter().all(|value| {
                    loads(value) || matches!(function.def(*value), ValueDef::Constant(Constant::Zero))
                })
    }

    /// Reads what the launch says of shadows; nothing of private and of local memory has been written when a kernel begins.
    pub fn begin(&mut self, builder: &mut Builder, checker: &Checker) {
        let word = |builder: &mut Builder, offset: usize| {
            let place = builder.offset(checker.block, offset as u64);
            builder.load(Type::I64, place, 8)
        };
        let block = checker.block_address(builder);
        let local = word(builder, offset_of!(check::Block, local));
        let written = word(builder, offset_of!(check::Block, written));
        let sink = word(builder, offset_of!(check::Block, sink));
        let mut arguments = BTreeMap::new();
        for (number, argument) in (0..).zip(&self.context.signature.arguments) {
            if argument.kind == ArgumentKind::Buffer {
                let at = size_of::<check::Block>() + number as usize * size_of::<check::Bounds>();
                let [base, size, shadow] = [
                    offset_of!(check::Bounds, base),
                    offset_of!(check::Bounds, readable),
                    offset_of!(check::Bounds, shadow),
                ]
                .map(|offset| word(builder, at + offset));
                let zero = builder.int(0);
                let is_kept = builder.compare(IntPredicate::Ne, shadow, zero);
                let size = builder.select(is_kept, size, zero);
                arguments.insert(number, [base, size, shadow]);
            }
        }
        self.known = Some(Known { block, local, written, sink, arguments });
        self.forget(builder);
    }

    fn forget(&self, builder: &mut Builder) {
        if self.private > 0 {
            let frame = builder.push(Type::PRIVATE_POINTER, Op::SlotAddress(self.frame));
            let place = builder.offset(frame, self.private);
            let (zero, size) = (builder.function.int(Type::int(8), 0), builder.int(self.private));
            let plain = builder.function.int(Type::BOOL, 0);
            let op = Op::Intrinsic {
                intrinsic: Intrinsic::FillMemory,
                flags: crate::Flags::NONE,
                arguments: vec![place, zero, size, plain],
            };
            builder.effect(op);
        }
        if !self.homes.contains(&Home::Local) {
            return;
        }
        // The first work-item of a group runs before the others.
        let ids = [0, 1, 2].map(|dimension| query(builder, WorkItemQuery::LocalId, dimension));
        let sum = builder.binary(BinaryOp::Or, 0, ids[0], ids[1]);
        let sum = builder.binary(BinaryOp::Or, 0, sum, ids[2]);
        let zero = builder.int(0);
        let is_first = builder.compare(IntPredicate::Eq, sum, zero);
        let (first, on) = (builder.function.add_block(), builder.function.add_block());
        builder.branch(is_first, (first, &[]), (on, &[]));
        builder.at = first;
        let local = builder.push(Type::pointer(AddressSpace::Local), Op::LocalAddress { offset: 0 });
        let local = builder.cast(CastOp::PtrToInt, Type::I64, local);
        let size = self.known().local;
        let place = builder.binary(BinaryOp::Add, 0, local, size);
        builder.effect(call(super::FILL_SHADOW, vec![place, zero, size]));
        builder.jump(on, &[]);
        builder.at = on;
    }

    fn known(&self) -> &Known {
        self.known.as_ref().unwrap_or_else(|| unreachable!("the entry block comes first"))
    }

    /// Puts a slot into the one that holds all of them.
    pub fn place_slot(&self, builder: &mut Builder, inst: Inst) {
        let &Op::SlotAddress(slot) = builder.function.op(inst) else { return };
        match self.places.get(slot.index()) {
            Some(0) => builder.replace(inst, Op::SlotAddress(self.frame)),
            Some(&offset) => {
                let ty =
                    builder.function.result(inst).map_or(Type::PRIVATE_POINTER, |value| builder.ty(value));
                let base = builder.push(ty, Op::SlotAddress(self.frame));
                let op = Op::Address { base, index: None, scale: 0, offset: offset as i64, inbounds: true };
                builder.replace(inst, op);
            }
            None => builder.function.append(builder.at, inst),
        }
    }

    /// Where the shadow of so many bytes is read.
    pub fn to_read(&self, builder: &mut Builder, pointer: Value, size: Value) -> Value {
        let other = self.known().written;
        self.place(builder, pointer, size, other)
    }

    /// Where the shadow of so many bytes is written.
    pub fn to_write(&self, builder: &mut Builder, pointer: Value, size: Value) -> Value {
        let other = self.known().sink;
        self.place(builder, pointer, size, other)
    }

    /// The address of the shadow, or 0 if none is kept.
    pub fn to_change(&self, builder: &mut Builder, pointer: Value, size: Value) -> Value {
        let zero = builder.int(0);
        let place = self.place(builder, pointer, size, zero);
        builder.cast(CastOp::PtrToInt, Type::I64, place)
    }

    fn place(&self, builder: &mut Builder, pointer: Value, size: Value, other: Value) -> Value {
        let ty = builder.ty(pointer);
        let step = |builder: &mut Builder, index, offset| {
            let op = Op::Address { base: pointer, index, scale: 1, offset, inbounds: false };
            builder.push(ty.clone(), op)
        };
        let home = self.home(pointer);
        match home {
            Home::Private if self.private > 0 => return step(builder, None, self.private as i64),
            Home::Local => return step(builder, Some(self.known().local), 0),
            _ => {}
        }
        let address = builder.cast(CastOp::PtrToInt, Type::I64, pointer);
        let mut found = match home {
            Home::Argument(number) => self.in_argument(builder, number, (address, size, other)),
            Home::Global | Home::Generic | Home::Unsure => {
                let block = self.known().block;
                builder.push(Type::I64, call(SHADOW, vec![block, address, size, other]))
            }
            _ => other,
        };
        if !matches!(home, Home::Generic | Home::Unsure) {
            return builder.cast(CastOp::IntToPtr, Type::pointer(AddressSpace::Global), found);
        }
        if home == Home::Generic {
            let local = builder.binary(BinaryOp::Add, 0, address, self.known().local);
            let is_local = builder.push_intrinsic(Type::BOOL, Intrinsic::IsLocal, &[pointer]);
            found = builder.select(is_local, local, found);
        }
        if self.private > 0 {
            found = self.in_frame(builder, address, found);
        }
        builder.cast(CastOp::IntToPtr, Type::pointer(AddressSpace::Generic), found)
    }

    /// Behind the private variables, if it is in one.
    fn in_frame(&self, builder: &mut Builder, address: Value, other: Value) -> Value {
        let frame = builder.push(Type::PRIVATE_POINTER, Op::SlotAddress(self.frame));
        let frame = builder.cast(CastOp::PtrToInt, Type::I64, frame);
        let offset = builder.binary(BinaryOp::Sub, 0, address, frame);
        let size = builder.int(self.private);
        let within = builder.compare(IntPredicate::Ult, offset, size);
        let place = builder.binary(BinaryOp::Add, 0, address, size);
        builder.select(within, place, other)
    }

    /// In an argument's buffer, if it is one whose shadow is kept, and all of the bytes are in it.
    fn in_argument(
        &self,
        builder: &mut Builder,
        number: u32,
        (address, size, other): (Value, Value, Value),
    ) -> Value {
        let Some(&[base, room, shadow]) = self.known().arguments.get(&number) else { return other };
        let offset = builder.binary(BinaryOp::Sub, 0, address, base);
        let rest = builder.intrinsic(Intrinsic::UnsignedSubSaturating, &[room, offset]);
        let within = builder.compare(IntPredicate::Ule, size, rest);
        let place = builder.binary(BinaryOp::Add, 0, offset, shadow);
        builder.select(within, place, other)
    }
}
