//! Checks: data races. Before each access of memory that work-items share a function of the library enters it in what it knows of those bytes.
//!
//! Each work-item says when it begins and when it waits for its group, so that the library knows the phases between barriers. Of an
//! argument that nobody writes to, which only the launch can tell, nothing is entered, nor of what `apart` finds to be no race.

use super::apart::{Apart, Entry};
use super::bounds::{Bounds, Root};
use super::memory::{Access, Size, accesses, as_i64};
use super::provenance::Provenance;
use super::{Checker, Context, FIND, call, query};
use crate::analysis::ControlFlow;
use crate::builder::{Builder, rewrite};
use crate::{
    AddressSpace, BinaryOp, Block, CastOp, Function, Inst, IntPredicate, Op, Scalar, Shape, Target,
    Terminator, Type, Value, WorkItemQuery,
};
use spirula_interface::check::races::{self as launch, TEAM_BYTES, what};
use spirula_interface::check::{self, Checked, Space};
use spirula_interface::program::{AddressQualifier, ArgumentKind};
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

pub(super) const BEGIN: &str = "spirula.races.begin";
pub(super) const WAIT: &str = "spirula.races.wait";
pub(super) const GLOBAL: &str = "spirula.races.global";
pub(super) const LOCAL: &str = "spirula.races.local";
pub(super) const ANY: &str = "spirula.races.any";
pub(super) const OBSERVE: &str = "spirula.races.observe";
pub(super) const FENCE: &str = "spirula.races.fence";

/// Where memory is that work-items share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Behind that argument of the kernel.
    Argument(u32),
    /// Among the program's variables.
    Data,
    /// In the group's local memory.
    Local,
    /// The address tells.
    Any,
}

impl Place {
    /// The number of the argument that it lies behind.
    pub fn argument(self) -> Option<u32> {
        if let Place::Argument(number) = self { Some(number) } else { None }
    }

    /// Where the launch names its region.
    fn region(self) -> Option<u64> {
        match self {
            Place::Argument(number) => Some(size_of::<launch::Races>() as u64 + 8 * u64::from(number)),
            Place::Data => Some(offset_of!(launch::Races, data) as u64),
            Place::Local | Place::Any => None,
        }
    }
}

/// Writes the checks.
pub(super) fn check(function: &mut Function, checker: &mut Checker, context: &Context) {
    let flow = ControlFlow::new(function);
    let order = flow.reverse_post_order().to_vec();
    let provenance = Provenance::new(function, &flow);
    let bounds = Bounds::new(function, checker, context, provenance, &[]);
    let mut shared = HashMap::new();
    for inst in order.iter().flat_map(|&block| function.block(block).insts.clone()) {
        for access in accesses(function, inst) {
            let root = bounds.root_of(function, access.pointer);
            if let Some(place) = place(function, &bounds, context, (access.pointer, &root)) {
                shared.insert(access.pointer, (place, bounds.named(&root)));
            }
        }
    }
    if shared.is_empty() {
        return;
    }
    let has_fences = order.iter().any(|&block| {
        let data = function.block(block);
        matches!(data.terminator, Terminator::Barrier(_)) && data.fences & GLOBAL_FENCE != 0
            || data.insts.iter().any(|&inst| matches!(function.op(inst), Op::Fence(_)))
    });
    let offset = function.local_size.next_multiple_of(8);
    function.local_size = offset + TEAM_BYTES;
    let team = Team { offset };
    team.meet(function, &order);
    let apart = Apart::new(function, &bounds.provenance, context, &shared);
    let begun = team.begin(function, checker, (&shared, &apart, context.signature.arguments.len()));
    let mut races = Races { team, shared, apart, has_fences, begun, block: ENTRY, read: HashSet::new() };
    let blocks = function.blocks.len();
    rewrite(function, |builder, inst| {
        // What was read once in a block is not entered again.
        if builder.at != races.block && builder.at.index() < blocks {
            races.block = builder.at;
            races.read.clear();
        }
        races.enter(builder, checker, inst)
    });
    checker.places = races.apart.places;
}

const ENTRY: Block = Block(0);

/// CLK_GLOBAL_MEM_FENCE.
const GLOBAL_FENCE: u8 = 2;

/// Where a pointer leads, if others may access that as well.
fn place(
    function: &Function,
    bounds: &Bounds,
    context: &Context,
    (pointer, root): (Value, &Root),
) -> Option<Place> {
    match root {
        Root::Trusted | Root::Captures | Root::Nothing => None,
        Root::Variable(Space::Private | Space::Constant, ..) => None,
        Root::Variable(Space::Local, ..) => Some(Place::Local),
        Root::Argument(number) => {
            let argument = &context.signature.arguments[*number as usize];
            match (argument.kind, argument.address_space) {
                (ArgumentKind::Local, _) => Some(Place::Local),
                (_, AddressQualifier::Constant) => None,
                _ => Some(Place::Argument(*number)),
            }
        }
        Root::Variable(Space::Global, ..) => Some(Place::Data),
        Root::Merged(_) | Root::Own(_) | Root::Unknown => {
            // The bounds that `memory` looks up.
            let root = bounds.provenance.root(pointer);
            if let Some(&Op::Cast { op: CastOp::IntToPtr, value, .. }) = function.defining_op(root)
                && let Some(Op::Call { function: callee, .. }) = function.defining_op(value)
                && **callee == *FIND
            {
                return None;
            }
            match function.ty(pointer).address_space() {
                Some(AddressSpace::Local) => Some(Place::Local),
                Some(AddressSpace::Global | AddressSpace::Generic) => Some(Place::Any),
                _ => None,
            }
        }
    }
}

/// The work-group, in its local memory.
#[derive(Clone, Copy)]
struct Team {
    offset: u64,
}

/// What is known from the kernel's beginning on.
struct Begun {
    /// The work-item's number in its group.
    number: Value,
    /// The regions of places that have one.
    regions: HashMap<Place, Value>,
    /// For each of the kernel's [`Places`](spirula_interface::check::places::Places) that is of local memory: zero if work-items are
    /// apart there.
    meets: HashMap<usize, Value>,
}

/// A kernel that is being instrumented.
struct Races {
    team: Team,
    /// Pointers to what others may access, and what that is called.
    shared: HashMap<Value, (Place, check::Object)>,
    apart: Apart,
    /// Whether fences make atomic operations order something.
    has_fences: bool,
    begun: Begun,
    /// The block that is rewritten, and what was read in it.
    block: Block,
    read: HashSet<(Value, u64)>,
}

impl Team {
    fn address(self, builder: &mut Builder) -> Value {
        local_address(builder, self.offset)
    }

    /// The work-items say where they meet.
    fn meet(self, function: &mut Function, order: &[Block]) {
        for &block in order {
            if matches!(function.block(block).terminator, Terminator::Barrier(_)) {
                let fences = function.block(block).fences;
                self.wait(&mut Builder { function, at: block }, fences);
            }
        }
        rewrite(function, |builder, inst| {
            let all = builder.int(1);
            match builder.function.op(inst) {
                // Nothing says that they order memory, but nobody who goes by that is wrong here.
                Op::GroupReduce { .. } | Op::GroupScan { .. } => {
                    self.wait(builder, 3);
                    let behind = builder.function.add_block();
                    let at = builder.at;
                    builder.function.set_terminator(at, Terminator::Barrier(Target::to(behind)));
                    builder.function.blocks[at.index()].location = builder.function.location(inst);
                    builder.at = behind;
                }
                Op::SubGroup { .. } => {
                    let arguments = vec![self.address(builder), all];
                    builder.effect(call(FENCE, arguments));
                }
                _ => {}
            }
            false
        });
    }

    fn wait(self, builder: &mut Builder, fences: u8) {
        let sizes = [0, 1, 2].map(|d| query(builder, WorkItemQuery::LocalSize, d));
        let row = builder.binary(BinaryOp::Mul, 0, sizes[0], sizes[1]);
        let items = builder.binary(BinaryOp::Mul, 0, row, sizes[2]);
        let arguments = vec![self.address(builder), items, builder.int(fences.into())];
        builder.effect(call(WAIT, arguments));
    }

    /// The work-item says that it begins.
    fn begin(
        self,
        function: &mut Function,
        checker: &Checker,
        (shared, apart, argument_count): (&HashMap<Value, (Place, check::Object)>, &Apart, usize),
    ) -> Begun {
        let insts = std::mem::take(&mut function.blocks[ENTRY.index()].insts);
        let builder = &mut Builder { function, at: ENTRY };
        let number = linear(builder, [WorkItemQuery::LocalId, WorkItemQuery::LocalSize]);
        let group = linear(builder, [WorkItemQuery::GroupId, WorkItemQuery::NumGroups]);
        let sizes = [0, 1, 2].map(|d| query(builder, WorkItemQuery::EnqueuedLocalSize, d));
        let row = builder.binary(BinaryOp::Mul, 0, sizes[0], sizes[1]);
        let items = builder.binary(BinaryOp::Mul, 0, row, sizes[2]);
        let place = builder.offset(checker.block, offset_of!(check::Block, races) as u64);
        let races = builder.load(Type::I64, place, 8);
        let arguments = vec![races, self.address(builder), local_address(builder, 0), group, items];
        builder.effect(call(BEGIN, arguments));
        let table = builder.cast(CastOp::IntToPtr, Type::pointer(AddressSpace::Global), races);
        let mut places: Vec<(u64, Place)> =
            shared.values().filter_map(|(place, _)| Some((place.region()?, *place))).collect();
        places.sort_by_key(|(offset, _)| *offset);
        places.dedup();
        let regions = places.into_iter().map(|(offset, place)| {
            let at = builder.offset(table, offset);
            (place, builder.load(Type::I64, at, 8))
        });
        let regions = regions.collect();
        let mut meets = HashMap::new();
        for (number, places) in apart.places.iter().enumerate() {
            if places.argument.is_none() {
                let offset = size_of::<launch::Races>() + 8 * (argument_count + number);
                let at = builder.offset(table, offset as u64);
                meets.insert(number, builder.load(Type::I64, at, 8));
            }
        }
        function.blocks[ENTRY.index()].insts.extend(insts);
        Begun { number, regions, meets }
    }
}

fn local_address(builder: &mut Builder, offset: u64) -> Value {
    let address = builder.push(Type::pointer(AddressSpace::Local), Op::LocalAddress { offset });
    builder.cast(CastOp::PtrToInt, Type::I64, address)
}

/// The number that three ids make.
fn linear(builder: &mut Builder, [id, size]: [WorkItemQuery; 2]) -> Value {
    let ids = [0, 1, 2].map(|d| query(builder, id, d));
    let sizes = [0, 1].map(|d| query(builder, size, d));
    let planes = builder.binary(BinaryOp::Mul, 0, ids[2], sizes[1]);
    let rows = builder.binary(BinaryOp::Add, 0, planes, ids[1]);
    let rows = builder.binary(BinaryOp::Mul, 0, rows, sizes[0]);
    builder.binary(BinaryOp::Add, 0, rows, ids[0])
}

impl Races {
    /// Writes the checks of an instruction in front of it, and the instruction itself where something has to stand behind it.
    fn enter(&mut self, builder: &mut Builder, checker: &mut Checker, inst: Inst) -> bool {
        let op = builder.function.op(inst).clone();
        if let Op::Fence(_) = op {
            if op.acquires().is_some() {
                let arguments = vec![self.team.address(builder), builder.int(0)];
                builder.effect(call(FENCE, arguments));
            }
            return false;
        }
        for access in accesses(builder.function, inst) {
            let Some((place, object)) = self.shared.get(&access.pointer).cloned() else { continue };
            let entry = self.apart.entry(inst, access.pointer);
            if entry == Entry::Never {
                continue;
            }
            let size = if let Size::Known(size) = access.size { size } else { 0 };
            let atomic = is_atomic(&op);
            let is_plain_read = access.kind == check::Access::Read && !atomic;
            if is_plain_read && size > 0 && !self.read.insert((access.pointer, size)) {
                continue;
            }
            let kind = match access.kind {
                check::Access::Write if op.is_atomic() => check::Access::Atomic,
                kind => kind,
            };
            let location = builder.function.location(inst);
            let site = checker.site(builder.function, location, Checked::Race { access: kind, size, object });
            if site >= what::SITES {
                continue;
            }
            let mut flags = site;
            if kind != check::Access::Read {
                flags |= what::WRITES;
            }
            if atomic {
                flags |= what::ATOMIC;
            }
            self.enter_access(builder, (&op, &access), (place, entry), flags);
            if op.acquires().is_some() || self.has_fences && reads_atomically(&op) {
                if op.acquires().is_some() {
                    flags |= what::ACQUIRES;
                }
                builder.function.append(builder.at, inst);
                self.observe(builder, access.pointer, place, flags);
                return true;
            }
        }
        false
    }

    fn enter_access(
        &self,
        builder: &mut Builder,
        (op, access): (&Op, &Access),
        (place, entry): (Place, Entry),
        flags: u64,
    ) {
        let on = builder.function.add_block();
        let region = self.begun.regions.get(&place).copied();
        let meets = match entry {
            Entry::Unless(number) => self.begun.meets.get(&number).copied(),
            _ => None,
        };
        if let Some(matters) = region.or(meets) {
            // Zero if nobody writes there, or work-items are apart.
            let zero = builder.int(0);
            let matters = builder.compare(IntPredicate::Ne, matters, zero);
            let entering = builder.function.add_block();
            builder.branch(matters, (entering, &[]), (on, &[]));
            builder.at = entering;
        }
        for part in parts(builder, op, access) {
            let address = builder.cast(CastOp::PtrToInt, Type::I64, access.pointer);
            let address = match part.offset {
                0 => address,
                offset => {
                    let offset = builder.int(offset);
                    builder.binary(BinaryOp::Add, 0, address, offset)
                }
            };
            let what = match part.size {
                Size::Known(size) => builder.int(flags | part.value_kind | size << what::SIZE_SHIFT),
                Size::Given(size) => {
                    let (size, shift) = (as_i64(builder, size), builder.int(what::SIZE_SHIFT.into()));
                    let size = builder.binary(BinaryOp::Shl, 0, size, shift);
                    let flags = builder.int(flags | part.value_kind);
                    builder.binary(BinaryOp::Or, 0, size, flags)
                }
            };
            let value = part.value.unwrap_or_else(|| builder.int(0));
            let mut arguments = vec![self.team.address(builder)];
            let function = match (region, place) {
                (Some(region), _) => {
                    arguments.push(region);
                    GLOBAL
                }
                (None, Place::Local) => LOCAL,
                (None, _) => ANY,
            };
            arguments.extend([address, what, self.begun.number, value]);
            builder.effect(call(function, arguments));
        }
        builder.jump(on, &[]);
        builder.at = on;
    }

    /// Behind an atomic operation.
    fn observe(&self, builder: &mut Builder, pointer: Value, place: Place, flags: u64) {
        let region = self.begun.regions.get(&place).copied().unwrap_or_else(|| builder.int(0));
        let address = builder.cast(CastOp::PtrToInt, Type::I64, pointer);
        let (team, flags) = (self.team.address(builder), builder.int(flags));
        builder.effect(call(OBSERVE, vec![team, region, address, flags, self.begun.number]));
    }
}

/// Whether an access goes by the rules of atomic operations.
pub(super) fn is_atomic(op: &Op) -> bool {
    op.is_atomic() || is_volatile_load(op)
}

/// OpenCL 1.x has no other way to look at what others change atomically.
fn is_volatile_load(op: &Op) -> bool {
    matches!(op, Op::Load { volatile: true, .. })
}

fn reads_atomically(op: &Op) -> bool {
    op.is_atomic() && !matches!(op, Op::Store { .. } | Op::Fence(_))
}

/// A part of an access whose value is known, or all of it.
struct Part {
    offset: u64,
    size: Size,
    value: Option<Value>,
    value_kind: u64,
}

/// What is written, in parts of eight bytes at most; anything else as a whole.
fn parts(builder: &mut Builder, op: &Op, access: &Access) -> Vec<Part> {
    let whole = |value, value_kind| vec![Part { offset: 0, size: access.size, value, value_kind }];
    match op {
        Op::Store { value, .. } => match bits(builder, *value) {
            Some(list) => list
                .into_iter()
                .map(|(offset, size, value)| Part {
                    offset,
                    size: Size::Known(size),
                    value: Some(value),
                    value_kind: what::VALUE,
                })
                .collect(),
            None => whole(None, 0),
        },
        Op::Intrinsic { intrinsic, arguments, .. } if access.kind == check::Access::Write => {
            match (intrinsic.shape(), &arguments[..]) {
                (Shape::Copy, &[_, from, ..]) => {
                    let from = builder.cast(CastOp::PtrToInt, Type::I64, from);
                    whole(Some(from), what::COPIES)
                }
                (Shape::Fill, &[_, byte, ..]) => {
                    let byte = as_i64(builder, byte);
                    whole(Some(byte), what::FILLS)
                }
                _ => whole(None, 0),
            }
        }
        _ => whole(None, 0),
    }
}

/// A value's bits: where each part lies, its bytes, and an i64.
fn bits(builder: &mut Builder, value: Value) -> Option<Vec<(u64, u64, Value)>> {
    let ty = builder.ty(value);
    match ty {
        Type::Scalar(scalar) => {
            let bytes = scalar.bits().div_ceil(8);
            let number = match scalar {
                Scalar::Pointer(_) => builder.cast(CastOp::PtrToInt, Type::I64, value),
                Scalar::Int(1..=64) => value,
                Scalar::Half | Scalar::Float | Scalar::Double => {
                    let bits = Type::Scalar(Scalar::Int(scalar.bits() as u32));
                    builder.cast(CastOp::BitCast, bits, value)
                }
                _ => return None,
            };
            Some(vec![(0, bytes, as_i64(builder, number))])
        }
        Type::Vector(scalar, lanes) => {
            let bytes = scalar.bits() / 8;
            if bytes == 0 || matches!(scalar, Scalar::Pointer(_)) {
                return None;
            }
            let together = (8 / bytes.max(1)).clamp(1, lanes.into());
            let (ty, parts) = match u64::from(lanes) {
                lanes if lanes.is_power_of_two() => {
                    let bits = Scalar::Int((together * bytes * 8) as u32);
                    let parts = lanes / together;
                    let ty = if parts == 1 { Type::Scalar(bits) } else { Type::Vector(bits, parts as u32) };
                    (Some(ty), parts)
                }
                lanes => (None, lanes),
            };
            let size = if ty.is_some() { together * bytes } else { bytes };
            let whole = ty.map_or(value, |ty| builder.cast(CastOp::BitCast, ty, value));
            let part = |number: u64| {
                let element = match builder.ty(whole) {
                    Type::Vector(scalar, _) => {
                        let index = builder.function.int(Type::I32, number.into());
                        builder.push(Type::Scalar(scalar), Op::ExtractElement { vector: whole, index })
                    }
                    _ => whole,
                };
                let (_, _, bits) = bits(builder, element)?.pop()?;
                Some((number * size, size, bits))
            };
            (0..parts).map(part).collect()
        }
        _ => None,
    }
}
