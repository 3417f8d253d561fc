//! Checks: values that depend on memory which nothing wrote, told where they decide a branch, an address or an output, as in LLVM's
//! MemorySanitizer. To copy them is no fault.
//!
//! Memory has a shadow of its own, with a bit set for each bit that was written: `shadow_memory` finds it. Behind a load stands one of the
//! shadow, in front of a store one to it; what is computed of both is in `shadow`. This runs behind the other checks, whose own
//! instructions it leaves alone.

use super::shadow::{self, Shadows};
use super::shadow_memory::ShadowMemory;
use super::{Checker, Context, call};
use crate::analysis::ControlFlow;
use crate::builder::{Builder, Ending};
use crate::{
    BinaryOp, Block, CastOp, Constant, Function, Inst, IntPredicate, LocationId, Op, RmwOp, Scalar, Shape,
    SubGroupOp, Terminator, Type, Value, ValueDef,
};
use fixedbitset::FixedBitSet;
use spirula_interface::check::{Checked, Use};
use std::collections::{HashMap, HashSet};

/// Writes the checks.
pub(super) fn check(function: &mut Function, checker: &mut Checker, context: &Context) {
    let flow = ControlFlow::new(function);
    let order = flow.reverse_post_order().to_vec();
    let memory = ShadowMemory::new(function, &flow, checker, context);
    let open = open_values(function, &order, &memory);
    let unreachable: Vec<Block> = function.block_ids().filter(|&block| !flow.is_reachable(block)).collect();
    let mut pass = Pass {
        checker,
        memory,
        open,
        shadows: Shadows::default(),
        told: HashSet::new(),
        params: HashMap::new(),
    };
    for &block in &order {
        for param in function.block(block).params.clone() {
            if pass.open.contains(param.index()) {
                let ty = shadow::shadow_type(function.ty(param));
                let shadow = function.add_block_param(block, ty);
                pass.shadows.set(param, Some(shadow));
                pass.params.entry(block).or_default().push(param);
            }
        }
    }
    for &block in &order {
        pass.block(function, block);
    }
    for block in unreachable {
        let terminator = function.block(block).terminator.clone();
        let terminator = pass.with_shadows(&mut Builder { function, at: block }, terminator);
        function.set_terminator(block, terminator);
    }
    define_constants(function);
}

/// The values that may depend on what nothing wrote.
fn open_values(function: &Function, order: &[Block], memory: &ShadowMemory) -> FixedBitSet {
    let mut open = FixedBitSet::with_capacity(function.value_count());
    for (value, _, def) in function.value_table() {
        if matches!(def, ValueDef::Constant(constant) if shadow::has_undefined(constant)) {
            open.insert(value.index());
        }
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &block in order {
            for &inst in &function.block(block).insts {
                let Some(result) = function.result(inst).filter(|result| !open.contains(result.index()))
                else {
                    continue;
                };
                if is_open(function, inst, memory, &open) {
                    open.insert(result.index());
                    changed = true;
                }
            }
            for target in function.block(block).terminator.targets() {
                let params = &function.block(target.block).params;
                for (param, argument) in params.iter().zip(&target.arguments) {
                    if open.contains(argument.index()) && !open.contains(param.index()) {
                        open.insert(param.index());
                        changed = true;
                    }
                }
            }
        }
    }
    open
}

fn is_open(function: &Function, inst: Inst, memory: &ShadowMemory, open: &FixedBitSet) -> bool {
    let op = function.op(inst);
    match op {
        Op::Load { pointer, .. } => {
            let ty = function.result(inst).map(|result| function.ty(result));
            memory.home(*pointer).is_tracked() && ty.is_some_and(is_plain)
        }
        // The checks' own.
        _ if memory.is_own(inst) => false,
        Op::AtomicRmw { .. } | Op::CompareExchange { .. } | Op::GroupReduce { .. } | Op::GroupScan { .. } => {
            false
        }
        Op::SubGroup { op, .. } if *op != SubGroupOp::Shuffle => false,
        Op::Call { function, .. } if function.starts_with("spirula.check.") => false,
        Op::Shuffle { mask, .. } if mask.iter().any(|&lane| lane < 0) => true,
        _ => op.operands().iter().any(|operand| open.contains(operand.index())),
    }
}

/// Whether a value of that type has a shadow in memory: its scalars fill their bytes, and there are not too many.
fn is_plain(ty: &Type) -> bool {
    fn whole_bytes(ty: &Type) -> bool {
        match ty {
            Type::Scalar(scalar) | Type::Vector(scalar, _) => scalar.bits().is_multiple_of(8),
            Type::Struct(members) => members.iter().all(whole_bytes),
            Type::Array(element, _) => whole_bytes(element),
        }
    }
    ty.size() <= super::shadow_memory::LARGEST && (whole_bytes(ty) || matches!(ty, Type::Scalar(_)))
}

struct Pass<'c, 'm> {
    checker: &'c mut Checker,
    memory: ShadowMemory<'m>,
    open: FixedBitSet,
    shadows: Shadows,
    /// Shadows of addresses that were looked at, each in its block.
    told: HashSet<(Block, Value)>,
    /// The parameters that have a shadow, in the order of their shadows.
    params: HashMap<Block, Vec<Value>>,
}

impl Pass<'_, '_> {
    fn block(&mut self, function: &mut Function, block: Block) {
        let (insts, mut ending) = Ending::take(function, block);
        let mut builder = Builder { function, at: block };
        if block.index() == 0 {
            self.memory.begin(&mut builder, self.checker);
        }
        for inst in insts {
            self.instruction(&mut builder, block, inst);
        }
        self.decision(&mut builder, &ending.terminator, ending.location);
        ending.terminator = self.with_shadows(&mut builder, ending.terminator);
        let end = builder.at;
        ending.put(function, end);
    }

    fn instruction(&mut self, builder: &mut Builder, block: Block, inst: Inst) {
        let op = builder.function.op(inst).clone();
        match op {
            Op::SlotAddress(_) => self.memory.place_slot(builder, inst),
            Op::Load { pointer, align, .. } => {
                self.address(builder, block, inst, pointer);
                builder.function.append(builder.at, inst);
                self.load(builder, inst, pointer, align);
            }
            Op::Store { pointer, value, align, .. } => {
                self.address(builder, block, inst, pointer);
                self.output(builder, inst, pointer, value);
                self.store(builder, pointer, value, align);
                builder.function.append(builder.at, inst);
            }
            Op::AtomicRmw { op, pointer, value, align, .. } => {
                self.address(builder, block, inst, pointer);
                self.changed(builder, inst, (pointer, value, align), op != RmwOp::Xchg);
                builder.function.append(builder.at, inst);
            }
            Op::CompareExchange { pointer, replacement, align, .. } => {
                self.address(builder, block, inst, pointer);
                self.changed(builder, inst, (pointer, replacement, align), true);
                builder.function.append(builder.at, inst);
            }
            Op::Intrinsic { intrinsic, arguments, .. }
                if matches!(intrinsic.shape(), Shape::Copy | Shape::Fill) =>
            {
                let pointers = if intrinsic.shape() == Shape::Copy { 2 } else { 1 };
                for &pointer in &arguments[..pointers] {
                    self.address(builder, block, inst, pointer);
                }
                match intrinsic.shape() {
                    Shape::Copy => self.copy(builder, inst, (arguments[0], arguments[1], arguments[2])),
                    _ => self.fill(builder, (arguments[0], arguments[1], arguments[2])),
                }
                builder.function.append(builder.at, inst);
            }
            Op::GroupReduce { value, .. } | Op::GroupScan { value, .. } => {
                self.given(builder, inst, value);
                builder.function.append(builder.at, inst);
            }
            Op::SubGroup { op, ref arguments } if op != SubGroupOp::Shuffle => {
                self.given(builder, inst, arguments[0]);
                builder.function.append(builder.at, inst);
            }
            _ => {
                builder.function.append(builder.at, inst);
                let result = builder.function.result(inst);
                if let Some(result) = result.filter(|result| self.open.contains(result.index())) {
                    let shadow = self.shadows.of(builder, inst);
                    self.shadows.set(result, shadow);
                }
            }
        }
    }

    /// Tells it where a condition holds.
    fn tell_if(&mut self, builder: &mut Builder, bad: Value, inst: Inst, what: Use) {
        let site = self.checker.site(
            builder.function,
            builder.function.location(inst),
            Checked::Uninitialized { decides: what },
        );
        let good = shadow::not(builder, bad);
        self.checker.note_unless(builder, good, site);
    }

    /// Looks at an address, unless that was done in this block before.
    fn address(&mut self, builder: &mut Builder, block: Block, inst: Inst, pointer: Value) {
        let Some(shadow) = self.shadows.get(builder, pointer) else { return };
        if self.told.insert((block, pointer)) {
            let bad = shadow::any(builder, shadow);
            self.tell_if(builder, bad, inst, Use::Address);
        }
    }

    fn load(&mut self, builder: &mut Builder, inst: Inst, pointer: Value, align: u32) {
        let Some(result) = builder.function.result(inst).filter(|result| self.open.contains(result.index()))
        else {
            return;
        };
        let ty = shadow::shadow_type(builder.function.ty(result));
        let written = self.written(builder, pointer, &ty, align);
        let unknown = shadow::not(builder, written);
        let shadow = match builder.ty(unknown) == ty {
            true => unknown,
            false => builder.cast(CastOp::Trunc, ty, unknown),
        };
        self.shadows.set(result, Some(shadow));
    }

    /// What is noted of so much memory, with each scalar's bytes filled up.
    fn written(&mut self, builder: &mut Builder, pointer: Value, ty: &Type, align: u32) -> Value {
        let ty = in_memory(ty);
        let size = builder.int(super::memory::stored(&ty));
        let place = self.memory.to_read(builder, pointer, size);
        builder.load(ty.clone(), place, align_of(&ty, align))
    }

    /// Notes what is stored.
    fn store(&mut self, builder: &mut Builder, pointer: Value, value: Value, align: u32) {
        if !self.memory.home(pointer).is_tracked() {
            return;
        }
        let ty = builder.ty(value);
        if !is_plain(&ty) {
            let size = builder.int(super::memory::stored(&ty));
            let byte = builder.function.int(Type::int(8), 0);
            return self.fill(builder, (pointer, byte, size));
        }
        let shadow = self.shadows.or_known(builder, value);
        let ty = in_memory(&shadow::shadow_type(&ty));
        let shadow =
            if builder.ty(shadow) == ty { shadow } else { builder.cast(CastOp::ZExt, ty.clone(), shadow) };
        let written = shadow::not(builder, shadow);
        let size = builder.int(super::memory::stored(&ty));
        let place = self.memory.to_write(builder, pointer, size);
        builder.store(place, written, align_of(&ty, align));
    }

    /// What others see has to be known: each scalar, and some of a vector. Bits that come from the same place, as those around a
    /// bit-field, do no harm.
    fn output(&mut self, builder: &mut Builder, inst: Inst, pointer: Value, value: Value) {
        if !self.memory.is_output(builder.function, pointer) {
            return;
        }
        let Some(mut shadow) = self.shadows.get(builder, value) else { return };
        let bad = match builder.ty(shadow) {
            Type::Vector(..) => shadow::in_each_lane(builder, shadow),
            Type::Scalar(_) => {
                if let Some(kept) = self.kept(builder, pointer, value) {
                    let others = shadow::not(builder, kept);
                    shadow = builder.binary(BinaryOp::And, 0, shadow, others);
                }
                shadow::any(builder, shadow)
            }
            _ => return,
        };
        let bad = self.memory.seen(builder, pointer, bad);
        self.tell_if(builder, bad, inst, Use::Output);
    }

    /// The shadow of the bits that a bit-field's neighbours have: read from where they are written again.
    fn kept(&self, builder: &mut Builder, pointer: Value, value: Value) -> Option<Value> {
        let &Op::Binary { op: BinaryOp::Or, lhs, rhs, .. } = builder.function.defining_op(value)? else {
            return None;
        };
        let part = [lhs, rhs].into_iter().find(|&part| {
            let function = &builder.function;
            match function.defining_op(part) {
                Some(&Op::Binary { op: BinaryOp::And, lhs, rhs, .. }) => {
                    function.constant_int(rhs).is_some() && self.memory.is_loaded(function, lhs, pointer)
                }
                _ => false,
            }
        })?;
        self.shadows.get(builder, part)
    }

    /// Memory that an atomic function changes: it has to be known if it goes by what is there, and what it becomes is.
    fn changed(
        &mut self,
        builder: &mut Builder,
        inst: Inst,
        (pointer, value, align): (Value, Value, u32),
        reads: bool,
    ) {
        if !self.memory.home(pointer).is_tracked() {
            return;
        }
        let ty = shadow::shadow_type(&builder.ty(value));
        if reads {
            let written = self.written(builder, pointer, &ty, align);
            let unknown = shadow::not(builder, written);
            let bad = shadow::any(builder, unknown);
            self.tell_if(builder, bad, inst, Use::Change);
        }
        self.output(builder, inst, pointer, value);
        self.store(builder, pointer, value, align);
    }

    /// What a work-group or sub-group function is given.
    fn given(&mut self, builder: &mut Builder, inst: Inst, value: Value) {
        if let Some(shadow) = self.shadows.get(builder, value) {
            let bad = shadow::any(builder, shadow);
            self.tell_if(builder, bad, inst, Use::Group);
        }
    }

    fn fill(&mut self, builder: &mut Builder, (pointer, byte, size): (Value, Value, Value)) {
        if !self.memory.home(pointer).is_tracked() {
            return;
        }
        let size = super::memory::as_i64(builder, size);
        let place = self.memory.to_change(builder, pointer, size);
        let shadow = self.shadows.or_known(builder, byte);
        let written = shadow::not(builder, shadow);
        let byte = builder.cast(CastOp::ZExt, Type::I64, written);
        builder.effect(call(super::FILL_SHADOW, vec![place, byte, size]));
    }

    /// What is copied stays as unknown as it is, but an output of which nothing at all was written is told.
    fn copy(&mut self, builder: &mut Builder, inst: Inst, (to, from, size): (Value, Value, Value)) {
        let size = super::memory::as_i64(builder, size);
        let [target, source] = [to, from].map(|pointer| match self.memory.home(pointer).is_tracked() {
            true => self.memory.to_change(builder, pointer, size),
            false => builder.int(0),
        });
        let op = call(super::COPY_SHADOW, vec![target, source, size]);
        let nothing = builder.push(Type::I64, op);
        if self.memory.is_output(builder.function, to) && self.memory.home(from).is_tracked() {
            let zero = builder.int(0);
            let bad = builder.compare(IntPredicate::Ne, nothing, zero);
            let bad = self.memory.seen(builder, to, bad);
            self.tell_if(builder, bad, inst, Use::Output);
        }
    }

    /// Looks at what decides where the block goes on.
    fn decision(&mut self, builder: &mut Builder, terminator: &Terminator, location: Option<LocationId>) {
        match terminator.condition() {
            // An access behind the bounds of its object: its address is looked at before those are.
            Some(condition) if self.memory.is_checks(builder.function, condition) => {
                self.guarded(builder, terminator)
            }
            Some(condition) => {
                if let Some(shadow) = self.shadows.get(builder, condition) {
                    let of_condition = match builder.function.def(condition) {
                        ValueDef::Inst(inst) => builder.function.location(*inst),
                        _ => None,
                    };
                    let what = Checked::Uninitialized { decides: Use::Branch };
                    let site = self.checker.site(builder.function, location.or(of_condition), what);
                    let bad = shadow::any(builder, shadow);
                    let good = shadow::not(builder, bad);
                    self.checker.note_unless(builder, good, site);
                }
            }
            None => {}
        }
    }

    /// Passes the shadows of blocks' arguments.
    fn with_shadows(&self, builder: &mut Builder, mut terminator: Terminator) -> Terminator {
        for target in terminator.targets_mut() {
            let given = target.arguments.clone();
            for &param in self.params.get(&target.block).into_iter().flatten() {
                let ValueDef::BlockParam(_, number) = *builder.function.def(param) else { continue };
                let Some(&argument) = given.get(number as usize) else { continue };
                let shadow = self.shadows.or_known(builder, argument);
                target.arguments.push(shadow);
            }
        }
        terminator
    }

    /// Looks at the address of an access that `memory` has guarded.
    fn guarded(&mut self, builder: &mut Builder, terminator: &Terminator) {
        let Terminator::Branch { then, .. } = terminator else { return };
        let accesses = builder.function.block(then.block).insts.clone();
        for inst in accesses {
            let pointers = match builder.function.op(inst) {
                Op::Load { pointer, .. }
                | Op::Store { pointer, .. }
                | Op::AtomicRmw { pointer, .. }
                | Op::CompareExchange { pointer, .. } => vec![*pointer],
                Op::Intrinsic { intrinsic, arguments, .. } if intrinsic.shape() == Shape::Copy => {
                    arguments[..2].to_vec()
                }
                Op::Intrinsic { intrinsic, arguments, .. } if intrinsic.shape() == Shape::Fill => {
                    arguments[..1].to_vec()
                }
                _ => continue,
            };
            for pointer in pointers {
                self.address(builder, then.block, inst, pointer);
            }
        }
    }
}

/// A shadow's type in memory: bits fill bytes.
fn in_memory(ty: &Type) -> Type {
    match ty {
        Type::Scalar(Scalar::Int(bits)) => Type::int(bits.next_multiple_of(8)),
        Type::Struct(members) => Type::Struct(members.iter().map(in_memory).collect()),
        other => other.clone(),
    }
}

/// What a shadow's address is a multiple of, where the memory's is of so much.
fn align_of(ty: &Type, align: u32) -> u32 {
    let lane = ty.scalar().map_or(1, |scalar| Type::Scalar(scalar).align() as u32);
    align.min(lane).max(1)
}

/// Code has zeros where it may take anything: what is done with it is then one thing, wherever it is looked at.
fn define_constants(function: &mut Function) {
    let mut replaced = HashMap::new();
    let open: Vec<(Value, Type, Constant)> = function
        .value_table()
        .filter_map(|(value, ty, def)| match def {
            ValueDef::Constant(constant) if shadow::has_undefined(constant) => {
                Some((value, ty.clone(), shadow::defined(constant)))
            }
            _ => None,
        })
        .collect();
    for (value, ty, constant) in open {
        replaced.insert(value, function.constant(ty, constant));
    }
    crate::builder::replace_uses(function, &replaced);
}
