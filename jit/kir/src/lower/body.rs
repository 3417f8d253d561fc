//! Lowering: what each work-item, or a pack of them, does: a region's body, copied into a loop.

use super::Lowering;
use super::launch::NO_WRAP;
use super::layout::{SCRATCH_ALIGN, element_size};
use super::region::return_exit;
use crate::analysis::ControlFlow;
use crate::transform::{ContextKind, GROUP, ITEM, Region};
use crate::{
    AccessGroup, AddressSpace, BinaryOp, Block, CastOp, ContextSlot, Function, Inst, Op, Scalar, Shape,
    Terminator, Type, Value, ValueDef, WorkItemQuery,
};

/// A body on its way.
pub(super) struct BodyCopy<'a> {
    pub body: &'a Function,
    region: &'a Region,
    /// The group of the accesses to what work-items share.
    pub parallel: Option<AccessGroup>,
    /// What became of the body's values.
    values: Vec<Option<Value>>,
    /// The new blocks of those that the entry reaches.
    blocks: Vec<Option<Block>>,
    pub flow: ControlFlow,
    item: Option<Item>,
    /// Whom it is for.
    pub kind: Kind,
}

/// For how many work-items a body is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Item,
    Pack,
    /// Less than a pack.
    Tail,
}

/// The work-item that a loop is at, or a pack's first.
#[derive(Clone, Copy)]
pub(super) struct Item {
    /// Its number in the group.
    pub linear: Value,
    /// Its local id.
    pub local: [Value; 3],
}

impl<'a> BodyCopy<'a> {
    pub fn new(body: &'a Function, region: &'a Region, parallel: Option<AccessGroup>, kind: Kind) -> Self {
        BodyCopy {
            body,
            region,
            parallel,
            values: vec![None; body.value_count()],
            blocks: vec![None; body.blocks.len()],
            flow: ControlFlow::new(body),
            item: None,
            kind,
        }
    }

    /// The work-item that it is copied for.
    pub fn item(&self) -> Item {
        self.item.unwrap_or_else(|| unreachable!("what is done once for the group has no work-item"))
    }
}

impl Lowering<'_, '_> {
    /// Copies what is done once for the group.
    pub(super) fn copy_group_block(&mut self, copy: &mut BodyCopy) {
        self.instructions(copy, GROUP);
    }

    /// Makes the work-items' blocks; returns their first.
    pub(super) fn begin_copy(&mut self, copy: &mut BodyCopy, item: Option<Item>) -> Block {
        copy.item = item;
        for block in copy.body.block_ids().skip(1).filter(|&block| copy.flow.is_reachable(block)) {
            let new = self.out.function.add_block();
            copy.blocks[block.index()] = Some(new);
            for &param in &copy.body.block(block).params {
                let ty = copy.body.ty(param).clone();
                copy.values[param.index()] = Some(self.out.function.add_block_param(new, ty));
            }
        }
        new_block(copy, ITEM)
    }

    /// Fills them; who has done everything goes to `latch`.
    pub(super) fn finish_copy(&mut self, copy: &mut BodyCopy, latch: Block) {
        // Every value is defined before it is used in this order, for definitions dominate uses.
        let order: Vec<Block> =
            copy.flow.reverse_post_order().iter().copied().filter(|&b| b != GROUP).collect();
        for block in order {
            self.out.at = new_block(copy, block);
            self.instructions(copy, block);
            self.terminator(copy, block, latch);
        }
    }

    fn terminator(&mut self, copy: &mut BodyCopy, block: Block, latch: Block) {
        let mut terminator = match &copy.body.block(block).terminator {
            Terminator::Exit(exit) => {
                if Some(*exit) != return_exit(copy.region) {
                    self.leave_by(copy, *exit);
                }
                return self.out.jump(latch, &[]);
            }
            Terminator::Return(_) => return self.out.jump(latch, &[]),
            terminator => terminator.clone(),
        };
        if let Some(condition) = terminator.condition_mut() {
            *condition = self.value(copy, *condition);
        }
        for target in terminator.targets_mut() {
            target.block = new_block(copy, target.block);
            for argument in &mut target.arguments {
                *argument = self.value(copy, *argument);
            }
        }
        self.out.function.set_terminator(self.out.at, terminator);
    }

    /// A region with one exit leaves by that.
    fn leave_by(&mut self, copy: &BodyCopy, exit: u32) {
        if copy.region.exits.len() > 1 {
            self.set_exit(exit);
        }
    }

    /// What became of a body's value.
    fn value(&mut self, copy: &mut BodyCopy, old: Value) -> Value {
        if let Some(new) = copy.values[old.index()] {
            return new;
        }
        let new = match copy.body.def(old) {
            ValueDef::Param(number) => self.memory.arguments[*number as usize],
            ValueDef::Constant(constant) => {
                self.out.function.constant(copy.body.ty(old).clone(), constant.clone())
            }
            _ => unreachable!("{old} is used before it is defined"),
        };
        copy.values[old.index()] = Some(new);
        new
    }

    fn instructions(&mut self, copy: &mut BodyCopy, block: Block) {
        for &inst in &copy.body.block(block).insts {
            self.out.function.at_location = copy.body.location(inst);
            self.instruction(copy, inst);
        }
        self.out.function.at_location = None;
    }

    fn instruction(&mut self, copy: &mut BodyCopy, inst: Inst) {
        let (body, result) = (copy.body, copy.body.result(inst));
        let ty = || result.map_or(Type::BOOL, |value| body.ty(value).clone());
        let new = match body.op(inst) {
            Op::WorkItem { query, dimension } => Some(self.query(copy, *query, usize::from(*dimension))),
            Op::SlotAddress(slot) => self.memory.slots[slot.index()],
            Op::LocalAddress { offset } => Some(self.out.offset(self.memory.local_memory, *offset)),
            Op::SetExit(exit) => {
                self.leave_by(copy, *exit);
                None
            }
            Op::ContextLoad(slot) => Some(self.context_load(copy, *slot, ty())),
            &Op::ContextScan { slot, inclusive, value } => {
                let value = self.value(copy, value);
                Some(self.scan(slot, inclusive, value))
            }
            Op::ContextStore(slot, value) => {
                let value = self.value(copy, *value);
                self.context_store(copy, *slot, value);
                None
            }
            Op::ContextAddress(slot) => {
                let place = self.context_element(copy, *slot);
                Some(self.out.cast(CastOp::AddrSpaceCast, ty(), place))
            }
            Op::Intrinsic { intrinsic, arguments, .. } if intrinsic.shape() == Shape::SpaceTest => {
                let pointer = self.value(copy, arguments[0]);
                Some(self.memory.spaces.test(&mut self.out, *intrinsic, pointer))
            }
            Op::SubGroup { op, arguments } => {
                let value = self.value(copy, arguments[0]);
                Some(self.alone(*op, value))
            }
            op => {
                let mut op = op.clone();
                for operand in op.operands_mut() {
                    *operand = self.value(copy, *operand);
                }
                let group = shared_memory(self.out.function, &op).and(copy.parallel);
                let new = result.map(|_| self.out.push(ty(), op.clone()));
                if new.is_none() {
                    self.out.effect(op);
                }
                self.set_access_group(group);
                new
            }
        };
        if let Some(result) = result {
            copy.values[result.index()] = new;
        }
    }

    /// Puts the instruction that was written last into a group.
    fn set_access_group(&mut self, group: Option<AccessGroup>) {
        if let (Some(_), Some(&last)) = (group, self.out.function.block(self.out.at).insts.last()) {
            self.out.function.set_access_group(last, group);
        }
    }

    fn query(&mut self, copy: &BodyCopy, query: WorkItemQuery, d: usize) -> Value {
        if query.sees_sub_groups() {
            return self.sub_group_query(copy, query);
        }
        match query {
            // Known for the whole group, and asked for once for it.
            WorkItemQuery::GlobalId if !copy.body.extends_in(d as u8) => self.bases[d],
            WorkItemQuery::LocalId if !copy.body.extends_in(d as u8) => self.out.int(0),
            WorkItemQuery::GlobalId => {
                let local = copy.item().local[d];
                self.out.binary(BinaryOp::Add, NO_WRAP, self.bases[d], local)
            }
            WorkItemQuery::LocalId => copy.item().local[d],
            WorkItemQuery::GroupId => {
                self.out.binary(BinaryOp::Add, NO_WRAP, self.ids[d], self.sizes.first_group[d])
            }
            WorkItemQuery::EnqueuedLocalSize => self.sizes.enqueued_local_size[d],
            WorkItemQuery::LocalSize => self.sizes.local_size[d],
            WorkItemQuery::GlobalSize => self.sizes.global_size[d],
            WorkItemQuery::NumGroups => self.sizes.total_groups[d],
            WorkItemQuery::GlobalOffset => self.sizes.global_offset[d],
            WorkItemQuery::WorkDim => self.sizes.work_dim,
            WorkItemQuery::DisjointBuffers => self.sizes.disjoint_buffers,
            WorkItemQuery::CachedStores => match self.sizes.cached_stores {
                Some(value) => value,
                None => unreachable!("asked for where stores may go past the caches only"),
            },
            _ => unreachable!("asked of sub-groups above"),
        }
    }

    /// The address of this work-item's element of a slot's array.
    fn context_element(&mut self, copy: &BodyCopy, slot: ContextSlot) -> Value {
        let item = copy.item();
        let size = element_size(&self.group.context[slot.0 as usize]);
        self.out.element(self.memory.context[slot.0 as usize], item.linear, size, 0)
    }

    fn context_load(&mut self, copy: &BodyCopy, slot: ContextSlot, ty: Type) -> Value {
        let (ContextKind::Varying(kind) | ContextKind::Affine { ty: kind, .. }) =
            &self.group.context[slot.0 as usize]
        else {
            return self.load_kept(slot, ty);
        };
        let align = kind.align().min(SCRATCH_ALIGN) as u32;
        let place = self.context_element(copy, slot);
        let bytes = self.out.load(in_memory(&ty), place, align);
        self.set_access_group(copy.parallel);
        self.as_value(bytes, ty)
    }

    fn context_store(&mut self, copy: &BodyCopy, slot: ContextSlot, value: Value) {
        if let ContextKind::Reduction(op, _) = self.group.context[slot.0 as usize] {
            return self.accumulate(slot, op, value);
        }
        let (place, align, group) = match &self.group.context[slot.0 as usize] {
            ContextKind::Varying(kind) | ContextKind::Affine { ty: kind, .. } => {
                (self.context_element(copy, slot), kind.align(), copy.parallel)
            }
            _ => (self.memory.context[slot.0 as usize], self.out.ty(value).align(), None),
        };
        let ty = self.out.ty(value);
        let bytes = match in_memory(&ty) {
            bytes if bytes != ty => self.out.cast(CastOp::ZExt, bytes, value),
            _ => value,
        };
        self.out.store(place, bytes, align.min(SCRATCH_ALIGN) as u32);
        self.set_access_group(group);
    }

    /// The group's one value of a slot.
    pub(super) fn load_kept(&mut self, slot: ContextSlot, ty: Type) -> Value {
        let align = ty.align().min(SCRATCH_ALIGN) as u32;
        let bytes = self.out.load(in_memory(&ty), self.memory.context[slot.0 as usize], align);
        self.as_value(bytes, ty)
    }

    fn as_value(&mut self, bytes: Value, ty: Type) -> Value {
        if self.out.ty(bytes) == ty { bytes } else { self.out.cast(CastOp::Trunc, ty, bytes) }
    }
}

fn new_block(copy: &BodyCopy, old: Block) -> Block {
    copy.blocks[old.index()].unwrap_or_else(|| unreachable!("{old} is reached, so it was made"))
}

/// A condition takes a byte in memory.
fn in_memory(ty: &Type) -> Type {
    match ty.scalar() {
        Some(Scalar::Int(1)) => ty.with_scalar(Scalar::Int(8)),
        _ => ty.clone(),
    }
}

/// The space of an access to memory that work-items share.
fn shared_memory(function: &Function, op: &Op) -> Option<AddressSpace> {
    let pointer = match op {
        Op::Load { pointer, .. }
        | Op::Store { pointer, .. }
        | Op::NontemporalStore { pointer, .. }
        | Op::MaskedLoad { pointer, .. }
        | Op::MaskedStore { pointer, .. } => *pointer,
        _ => return None,
    };
    match function.ty(pointer).scalar() {
        Some(Scalar::Pointer(
            space @ (AddressSpace::Global | AddressSpace::Constant | AddressSpace::Local),
        )) => Some(space),
        _ => None,
    }
}
