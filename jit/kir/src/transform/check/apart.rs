//! Checks: accesses in which no race can be. That is proved here as far as a kernel's code tells, so that nothing is entered of them:
//! between two barriers a variable of local memory that is only read; and what each work-item accesses at a place of its own, as
//! `a[get_global_id(0)]`. Whether places are the work-items' own depends on sizes and arguments: the launch decides ([`Places`]).

use super::memory::{Access, Size, accesses};
use super::provenance::{Provenance, base};
use super::races::Place;
use super::{Context, races};
use crate::analysis::ControlFlow;
use crate::{
    BinaryOp, Block, CastOp, Flags, Function, Inst, Op, Passing, Scalar, Terminator, Type, UnaryOp, Value,
    ValueDef, WorkItemQuery,
};
use spirula_interface::check;
use spirula_interface::check::places::{Fit, Id, Places, Polynomial, Stride, Symbol};
use spirula_interface::program::ArgumentKind;
use std::collections::{HashMap, HashSet};

/// Whether an access has to be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Always,
    /// Unless these places are apart: the number is theirs among the kernel's.
    Unless(usize),
    Never,
}

/// What is known of a kernel's accesses.
#[derive(Default)]
pub(super) struct Apart {
    local: HashMap<(Inst, Value), Entry>,
    /// What the launch has to decide.
    pub places: Vec<Places>,
}

/// An access of memory that work-items share.
struct Shared {
    inst: Inst,
    block: Block,
    access: Access,
    place: Place,
    /// Whether it goes by the rules of atomic operations.
    atomic: bool,
}

/// A variable, or the memory behind an argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Object {
    Argument(u32),
    /// The number of a variable in local memory.
    Variable(usize),
}

impl Apart {
    /// Of a function whose work-items already say where they meet; `shared` has the pointers that others may access the memory of.
    pub fn new(
        function: &Function,
        provenance: &Provenance,
        context: &Context,
        shared: &HashMap<Value, (Place, check::Object)>,
    ) -> Apart {
        let flow = ControlFlow::new(function);
        let mut all = Vec::new();
        for &block in flow.reverse_post_order() {
            for &inst in &function.block(block).insts {
                for access in accesses(function, inst) {
                    if let Some(&(place, _)) = shared.get(&access.pointer) {
                        let atomic = races::is_atomic(function.op(inst));
                        all.push(Shared { inst, block, access, place, atomic });
                    }
                }
            }
        }
        let mut apart = Apart::default();
        // Nobody knows what such a pointer leads to.
        if all.iter().any(|shared| shared.place == Place::Any) {
            return apart;
        }
        let addresses = Addresses { function, provenance, context };
        apart.find_arguments(&addresses, &all);
        apart.find_local(&addresses, &flow, &all);
        apart
    }

    /// Whether an access has to be entered.
    pub fn entry(&self, inst: Inst, pointer: Value) -> Entry {
        self.local.get(&(inst, pointer)).copied().unwrap_or(Entry::Always)
    }

    /// Buffers that all accesses of are at the same place of each work-item.
    fn find_arguments(&mut self, addresses: &Addresses, all: &[Shared]) {
        let mut numbers: Vec<u32> = all.iter().filter_map(|shared| shared.place.argument()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let of_it = all.iter().filter(|shared| shared.place.argument() == Some(number));
            if let Some(stride) = addresses.stride(of_it) {
                self.places.push(Places { argument: Some(number), strides: vec![stride] });
            }
        }
    }

    /// Accesses of local memory, from one barrier to the next.
    fn find_local(&mut self, addresses: &Addresses, flow: &ControlFlow, all: &[Shared]) {
        let function = addresses.function;
        let mut of_object: HashMap<Object, Vec<usize>> = HashMap::new();
        for (number, shared) in all.iter().enumerate().filter(|(_, shared)| shared.place == Place::Local) {
            match addresses.object(shared.access.pointer) {
                Some(object) => of_object.entry(object).or_default().push(number),
                None => return,
            }
        }
        let intervals = intervals(function, flow);
        // For each access the strides that it needs to be alone in, or None where nothing helps.
        let mut needed: HashMap<usize, Option<Vec<Stride>>> = HashMap::new();
        for accesses in of_object.values() {
            accesses.iter().for_each(|&number| drop(needed.insert(number, Some(Vec::new()))));
            for interval in &intervals {
                let within = accesses.iter().copied().filter(|&number| interval.contains(&all[number].block));
                let within: Vec<usize> = within.collect();
                // What an atomic one sees may order others.
                let is_read_only =
                    |&number: &usize| all[number].access.kind == check::Access::Read && !all[number].atomic;
                if within.iter().all(is_read_only) {
                    continue;
                }
                let stride = addresses.stride(within.iter().map(|&number| &all[number]));
                for number in within {
                    let strides = needed.entry(number).or_default();
                    match (&stride, strides.as_mut()) {
                        (Some(stride), Some(list)) if !list.contains(stride) => list.push(stride.clone()),
                        (Some(_), _) => {}
                        (None, _) => *strides = None,
                    }
                }
            }
        }
        for (number, shared) in all.iter().enumerate() {
            let entry = match needed.remove(&number).flatten() {
                None => continue,
                Some(strides) if strides.is_empty() => Entry::Never,
                Some(strides) => Entry::Unless(self.number_of(strides)),
            };
            self.local.insert((shared.inst, shared.access.pointer), entry);
        }
    }

    fn number_of(&mut self, strides: Vec<Stride>) -> usize {
        let places = Places { argument: None, strides };
        self.places.iter().position(|known| *known == places).unwrap_or_else(|| {
            self.places.push(places);
            self.places.len() - 1
        })
    }
}

/// The blocks that work-items may be in at once: for each place where they begin, or go on behind a barrier that orders local memory,
/// all that come until the next one.
fn intervals(function: &Function, flow: &ControlFlow) -> Vec<HashSet<Block>> {
    const LOCAL_FENCE: u8 = 1;
    let ends = |block: Block| {
        let data = function.block(block);
        matches!(data.terminator, Terminator::Barrier(_)) && data.fences & LOCAL_FENCE != 0
    };
    let order = flow.reverse_post_order();
    let behind = order
        .iter()
        .filter(|&&block| ends(block))
        .flat_map(|&block| function.block(block).terminator.targets());
    let mut starts: Vec<Block> =
        order.first().copied().into_iter().chain(behind.map(|target| target.block)).collect();
    starts.sort();
    starts.dedup();
    let reached = |start: Block| {
        let (mut seen, mut open) = (HashSet::from([start]), vec![start]);
        while let Some(block) = open.pop() {
            if ends(block) {
                continue;
            }
            let next = function.block(block).terminator.targets().into_iter().map(|target| target.block);
            open.extend(next.filter(|&block| seen.insert(block)));
        }
        seen
    };
    starts.into_iter().map(reached).collect()
}

/// The way from ids and arguments to addresses.
struct Addresses<'f> {
    function: &'f Function,
    provenance: &'f Provenance,
    context: &'f Context<'f>,
}

impl Addresses<'_> {
    /// The one stretch of bytes of each work-item that all of these touch.
    fn stride<'a>(&self, all: impl Iterator<Item = &'a Shared>) -> Option<Stride> {
        let mut stride: Option<Stride> = None;
        for shared in all {
            let Size::Known(size) = shared.access.size else { return None };
            if shared.atomic {
                return None;
            }
            let mut fits = Vec::new();
            let (first, start) = self.address(shared.access.pointer, &mut fits)?.split();
            let end = first.checked_add(i64::try_from(size).ok()?)?;
            match &mut stride {
                None => stride = Some(Stride { start, bytes: (first, end), fits }),
                Some(known) if known.start == start => {
                    known.bytes = (known.bytes.0.min(first), known.bytes.1.max(end));
                    for fit in fits {
                        if !known.fits.contains(&fit) {
                            known.fits.push(fit);
                        }
                    }
                }
                Some(_) => return None,
            }
        }
        stride
    }

    /// What a pointer to local memory leads to.
    fn object(&self, pointer: Value) -> Option<Object> {
        let root = self.provenance.root(pointer);
        match self.function.defining_op(root) {
            Some(&Op::LocalAddress { offset }) => {
                self.variable(offset).map(|(number, _)| Object::Variable(number))
            }
            Some(_) => None,
            None => self.argument(root, |kind| kind == ArgumentKind::Local).map(Object::Argument),
        }
    }

    /// The variable of local memory at an offset, and where that is in it.
    fn variable(&self, offset: u64) -> Option<(usize, u64)> {
        let within = |variable: &super::Variable| offset.wrapping_sub(variable.offset) < variable.size;
        let number = self.context.local.iter().position(within)?;
        Some((number, offset - self.context.local[number].offset))
    }

    /// The number of the kernel's argument that a value is.
    fn argument(&self, value: Value, is_right: impl Fn(ArgumentKind) -> bool) -> Option<u32> {
        let ValueDef::Param(number) = self.function.def(value) else { return None };
        let offset = self.function.params[*number as usize].offset;
        let arguments = self.context.signature.arguments.iter();
        let number = arguments.clone().position(|argument| argument.offset == offset)?;
        is_right(self.context.signature.arguments[number].kind).then_some(number as u32)
    }

    /// How far from the beginning of its object a pointer points.
    fn address(&self, pointer: Value, fits: &mut Vec<Fit>) -> Option<Polynomial> {
        let root = self.provenance.root(pointer);
        let (mut at, mut sum) = (pointer, Polynomial::default());
        while at != root {
            let op = self.function.defining_op(at)?;
            if let &Op::Address { index, scale, offset, .. } = op {
                sum = sum.plus(&Polynomial::constant(offset))?;
                if let Some(index) = index {
                    let step = self.integer(index, fits, 0)?.times(&Polynomial::constant(scale))?;
                    sum = sum.plus(&step)?;
                }
            }
            at = base(self.function, op)?;
        }
        match self.function.defining_op(root) {
            Some(&Op::LocalAddress { offset }) => {
                let (_, within) = self.variable(offset)?;
                sum.plus(&Polynomial::constant(within.try_into().ok()?))
            }
            _ => Some(sum),
        }
    }

    /// An integer's value, up to a multiple of what its type can count; what becomes wider has to fit.
    fn integer(&self, value: Value, fits: &mut Vec<Fit>, depth: u32) -> Option<Polynomial> {
        /// Deeper sums are nobody's.
        const MOST: u32 = 32;
        if depth > MOST {
            return None;
        }
        if let Some(constant) = self.function.constant_int(value) {
            let Type::Scalar(Scalar::Int(bits @ 1..=64)) = self.function.ty(value) else { return None };
            let unused = 64 - bits;
            return Some(Polynomial::constant((constant as i64) << unused >> unused));
        }
        if matches!(self.function.def(value), ValueDef::Param(_)) {
            return self.parameter(value);
        }
        let mut of = |value: Value| self.integer(value, fits, depth + 1);
        match self.function.defining_op(value)? {
            &Op::Binary { op: BinaryOp::Add, lhs, rhs, .. } => of(lhs)?.plus(&of(rhs)?),
            &Op::Binary { op: BinaryOp::Or, flags, lhs, rhs } if flags.0 & Flags::DISJOINT != 0 => {
                of(lhs)?.plus(&of(rhs)?)
            }
            &Op::Binary { op: BinaryOp::Sub, lhs, rhs, .. } => {
                of(lhs)?.plus(&of(rhs)?.times(&Polynomial::constant(-1))?)
            }
            &Op::Binary { op: BinaryOp::Mul, lhs, rhs, .. } => of(lhs)?.times(&of(rhs)?),
            &Op::Binary { op: BinaryOp::Shl, lhs, rhs, .. } => {
                let by = self.function.constant_int(rhs).filter(|&by| by < 63)?;
                of(lhs)?.times(&Polynomial::constant(1 << by))
            }
            &Op::Unary { op: UnaryOp::Freeze, value, .. } | &Op::Cast { op: CastOp::Trunc, value, .. } => {
                of(value)
            }
            &Op::Cast { op: op @ (CastOp::ZExt | CastOp::SExt), value, .. } => {
                let inner = of(value)?;
                let Type::Scalar(Scalar::Int(bits)) = *self.function.ty(value) else { return None };
                let fit = Fit { value: inner.clone(), bits, is_signed: op == CastOp::SExt };
                if !fits.contains(&fit) {
                    fits.push(fit);
                }
                Some(inner)
            }
            &Op::WorkItem { query, dimension } => self.query(query, dimension),
            _ => None,
        }
    }

    /// An integer argument.
    fn parameter(&self, value: Value) -> Option<Polynomial> {
        let &Type::Scalar(Scalar::Int(bits @ (32 | 64))) = self.function.ty(value) else { return None };
        self.argument(value, |kind| matches!(kind, ArgumentKind::Value { .. }))?;
        let ValueDef::Param(number) = self.function.def(value) else { return None };
        let param = &self.function.params[*number as usize];
        let symbol = Symbol::Argument { offset: param.offset, size: bits / 8 };
        (param.passing == Passing::Direct).then(|| Polynomial::one(None, &[symbol]))
    }

    /// What a question for the work-item's place yields.
    fn query(&self, query: WorkItemQuery, dimension: u8) -> Option<Polynomial> {
        let size = Symbol::LocalSize(dimension);
        let item = Polynomial::one(Some(Id::Local(dimension)), &[]);
        let uniform = |symbol| Some(Polynomial::one(None, &[symbol]));
        match query {
            WorkItemQuery::LocalId => Some(item),
            WorkItemQuery::GroupId => Some(Polynomial::one(Some(Id::Group(dimension)), &[])),
            WorkItemQuery::GlobalId => {
                let group = Polynomial::one(Some(Id::Group(dimension)), &[size]);
                item.plus(&group)?.plus(&uniform(Symbol::GlobalOffset(dimension))?)
            }
            WorkItemQuery::EnqueuedLocalSize => uniform(size),
            // Groups at the NDRange's ends may be smaller.
            WorkItemQuery::LocalSize if !self.context.signature.remainder_groups => uniform(size),
            WorkItemQuery::GlobalSize => uniform(Symbol::GlobalSize(dimension)),
            WorkItemQuery::NumGroups => uniform(Symbol::Groups(dimension)),
            WorkItemQuery::GlobalOffset => uniform(Symbol::GlobalOffset(dimension)),
            _ => None,
        }
    }
}
