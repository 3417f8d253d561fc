//! Lowering: what the caller passes, and where a work-group's memory lies.

use super::collectives::{alignment, in_lanes};
use super::groups::in_dimensions;
use super::layout::{Layout, SCRATCH_ALIGN, SlotPlace};
use super::spaces::Spaces;
use crate::analysis::{ID_LIMIT, id_limit};
use crate::builder::Builder;
use crate::transform::{ContextKind, WorkGroup};
use crate::{
    AddressSpace, BinaryOp, CastOp, ContextSlot, Flags, Function, IntPredicate, Op, Passing, Promises,
    SMALL_LIMIT, Slot, Type, Value,
};
use spirula_interface::program::Launch;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

pub(super) use crate::builder::NO_WRAP;

/// The work-group function's parameters: those of [`spirula_interface::program::RawWorkGroupFn`].
pub(super) struct Parameters {
    pub arguments: Value,
    pub launch: Value,
    pub first_group: Value,
    pub end_group: Value,
    pub local_memory: Value,
    pub scratch: Value,
}

impl Parameters {
    pub fn new(out: &mut Builder) -> Self {
        let promises =
            |readonly, align| Promises { noalias: true, nonnull: true, readonly, align, nocapture: false };
        let mut pointer = |space, readonly, align| {
            out.function.add_argument(Type::pointer(space), promises(readonly, align))
        };
        // Generic: a kernel's `byval` parameters are private addresses in the argument block.
        let arguments = pointer(AddressSpace::Generic, true, SCRATCH_ALIGN as u32);
        let launch = pointer(AddressSpace::Generic, true, align_of::<Launch>() as u32);
        let [first_group, end_group] =
            [0, 1].map(|_| out.function.add_argument(Type::I64, Promises::default()));
        let mut pointer =
            |space| out.function.add_argument(Type::pointer(space), promises(false, SCRATCH_ALIGN as u32));
        let local_memory = pointer(AddressSpace::Local);
        let scratch = pointer(AddressSpace::Context);
        Parameters { arguments, launch, first_group, end_group, local_memory, scratch }
    }
}

/// The launch's sizes; the group's are constants if the kernel requires them.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub work_dim: Value,
    pub global_offset: [Value; 3],
    pub global_size: [Value; 3],
    pub local_size: [Value; 3],
    /// The dimensions, from the one that rows lie in outwards.
    pub order: [usize; 3],
    pub group_count: [Value; 3],
    pub enqueued_local_size: [Value; 3],
    pub first_group: [Value; 3],
    pub total_groups: [Value; 3],
    /// See [`Launch::numbered_along`].
    pub numbered_along: [Value; 3],
    /// 0 if stores may go past the caches, else -1; only where some may.
    pub cached_stores: Option<Value>,
    /// Whether the parameters are small that packs expect to be.
    pub small_parameters: Value,
    /// 1 if no two buffers have memory in common.
    pub disjoint_buffers: Value,
    /// The group's work-items, rounded up to whole lines of every context array.
    padded_items: Value,
}

impl Sizes {
    pub fn read(out: &mut Builder, parameters: &Parameters, body: &Function, streams: bool) -> Self {
        let launch = parameters.launch;
        let mut field = |ty: Type, offset: usize| {
            let align = ty.align() as u32;
            let place = out.offset(launch, offset as u64);
            out.load(ty, place, align)
        };
        let work_dim = field(Type::I32, offset_of!(Launch, work_dim));
        let disjoint_buffers = field(Type::I64, offset_of!(Launch, disjoint_buffers));
        let mut vector = |start: usize| [0, 8, 16].map(|at| field(Type::I64, start + at));
        let global_offset = vector(offset_of!(Launch, global_offset));
        let global_size = vector(offset_of!(Launch, global_size));
        let group_count = vector(offset_of!(Launch, group_count));
        let first_group = vector(offset_of!(Launch, first_group));
        let total_groups = vector(offset_of!(Launch, total_groups));
        let numbered_along = vector(offset_of!(Launch, numbered_along));
        let (local_size, enqueued_local_size) = match body.required_work_group_size {
            Some(required) => {
                let size = required.map(|size| out.int(size.into()));
                (size, size)
            }
            None => (vector(offset_of!(Launch, local_size)), vector(offset_of!(Launch, enqueued_local_size))),
        };
        let small_parameters = small_parameters(out, parameters, body);
        let small_parameters = small_group_starts(out, body, total_groups, small_parameters);
        let small_parameters = small_ids(out, body, (global_offset, global_size), small_parameters);
        let cached_stores = streams.then(|| {
            let place = out.offset(launch, offset_of!(Launch, streams) as u64);
            let wanted = out.load(Type::I32, place, 4);
            let wanted = out.cast(CastOp::ZExt, Type::I64, wanted);
            let one = out.int(1);
            out.binary(BinaryOp::Sub, Flags::NSW, wanted, one)
        });
        let row = out.binary(BinaryOp::Mul, NO_WRAP, local_size[0], local_size[1]);
        let items = out.binary(BinaryOp::Mul, NO_WRAP, row, local_size[2]);
        let (most, mask) = (out.int(SCRATCH_ALIGN - 1), out.int(SCRATCH_ALIGN.wrapping_neg()));
        let up = out.binary(BinaryOp::Add, NO_WRAP, items, most);
        let padded_items = out.binary(BinaryOp::And, 0, up, mask);
        Sizes {
            work_dim,
            global_offset,
            global_size,
            local_size,
            order: body.dimension_order(),
            group_count,
            enqueued_local_size,
            first_group,
            total_groups,
            numbered_along,
            cached_stores,
            small_parameters,
            disjoint_buffers,
            padded_items,
        }
    }

    /// A group's sizes, from the length of its rows outwards.
    pub fn by_row(&self) -> [Value; 3] {
        self.order.map(|d| self.local_size[d])
    }

    /// A local id, of a work-item's places from the one in its row outwards.
    pub fn local_id(&self, places: [Value; 3]) -> [Value; 3] {
        in_dimensions(self.order, places)
    }

    /// The same for a part of the NDRange whose groups are smaller than the required size. Their scratch memory is laid out
    /// as for whole groups.
    pub fn of_remainder(&self, out: &mut Builder, parameters: &Parameters) -> Self {
        let local_size = [0, 8, 16].map(|at| {
            let place = out.offset(parameters.launch, (offset_of!(Launch, local_size) + at) as u64);
            out.load(Type::I64, place, 8)
        });
        Sizes { local_size, ..*self }
    }
}

/// Whether they are within [`SMALL_LIMIT`].
fn small_parameters(out: &mut Builder, parameters: &Parameters, body: &Function) -> Value {
    let mut all = out.function.int(Type::BOOL, 1);
    for number in 0..body.params.len() {
        if body.params[number].passing != Passing::Small {
            continue;
        }
        let value = argument(out, parameters, body, number);
        let [limit, range] =
            [SMALL_LIMIT, 2 * SMALL_LIMIT].map(|bits| out.function.int(Type::I32, bits as u128));
        let above = out.binary(BinaryOp::Add, 0, value, limit);
        let fits = out.compare(IntPredicate::Ult, above, range);
        all = out.binary(BinaryOp::And, 0, all, fits);
    }
    all
}

/// The same, and whether groups' numbers are so small that their products in indices are ids' size.
fn small_group_starts(out: &mut Builder, body: &Function, groups: [Value; 3], small: Value) -> Value {
    let factors = groups.into_iter().zip(body.group_factors).filter(|(_, factor)| *factor > 1);
    factors.fold(small, |before, (count, factor)| {
        let limit = out.int(ID_LIMIT as u64 / u64::from(factor));
        let fits = out.compare(IntPredicate::Ule, count, limit);
        out.binary(BinaryOp::And, 0, before, fits)
    })
}

/// The same, and whether ids are so small that their products in indices are ids' size.
fn small_ids(
    out: &mut Builder,
    body: &Function,
    (offsets, sizes): ([Value; 3], [Value; 3]),
    small: Value,
) -> Value {
    if body.id_factor <= 1 {
        return small;
    }
    let limit = out.int(id_limit(body) as u64 / 2);
    offsets.into_iter().chain(sizes).fold(small, |before, size| {
        let fits = out.compare(IntPredicate::Ule, size, limit);
        out.binary(BinaryOp::And, 0, before, fits)
    })
}

/// Where everything lies.
#[derive(Clone)]
pub(super) struct Memory {
    pub local_memory: Value,
    /// The kernel's parameters.
    pub arguments: Vec<Value>,
    /// Each context slot's array, or the place of its one value.
    pub context: Vec<Value>,
    /// Where packs of so many lanes, or single work-items, combine values for a reduction.
    pub partial: BTreeMap<(ContextSlot, u32), Value>,
    /// The private slots' addresses; none if no region uses it.
    pub slots: Vec<Option<Value>>,
    /// Where a region says by which of several exits the group leaves it.
    pub exit: Option<Value>,
    /// By which a generic pointer's address space is told.
    pub spaces: Spaces,
}

impl Memory {
    pub fn place(
        out: &mut Builder,
        parameters: &Parameters,
        (group, layout): (&WorkGroup, &Layout),
        sizes: &Sizes,
    ) -> Self {
        let body = &group.regions[0].body;
        let arguments = (0..body.params.len()).map(|n| argument(out, parameters, body, n)).collect();
        let context = (group.context.iter().enumerate()).map(|(i, kind)| match kind {
            ContextKind::Uniform(ty) | ContextKind::Reduction(_, ty) | ContextKind::Carry(_, ty) => {
                stack_slot(out, ty.size(), ty.align().min(SCRATCH_ALIGN) as u32)
            }
            _ => match layout.before(ContextSlot(i as u32)) {
                0 => parameters.scratch,
                before => out.element(parameters.scratch, sizes.padded_items, before, 0),
            },
        });
        let context = context.collect();
        let widths: BTreeSet<u32> =
            group.regions.iter().filter_map(|r| Some(r.wide.as_ref()?.lanes)).chain([1]).collect();
        let mut partial = BTreeMap::new();
        for (i, kind) in group.context.iter().enumerate() {
            let ContextKind::Reduction(_, ty) = kind else { continue };
            for &lanes in &widths {
                let ty = in_lanes(ty, lanes);
                let place = stack_slot(out, ty.size(), alignment(&ty));
                partial.insert((ContextSlot(i as u32), lanes), place);
            }
        }
        let slots = (0..body.slots.len()).map(|i| match layout.slot(Slot(i as u32)) {
            SlotPlace::Nowhere => None,
            SlotPlace::Stack { size, align } => Some(stack_slot(out, size, align)),
            SlotPlace::Scratch(at) => {
                let place = out.element(parameters.scratch, sizes.padded_items, layout.per_item, at);
                Some(out.cast(CastOp::AddrSpaceCast, Type::PRIVATE_POINTER, place))
            }
        });
        let slots = slots.collect();
        let exit = group.regions.iter().any(|r| r.exits.len() > 1).then(|| stack_slot(out, 4, 4));
        let spaces = Spaces::read(out, parameters, group);
        let local_memory = parameters.local_memory;
        Memory { local_memory, arguments, context, partial, slots, exit, spaces }
    }
}

fn stack_slot(out: &mut Builder, size: u64, align: u32) -> Value {
    let slot = out.function.add_slot(size, align);
    out.push(Type::PRIVATE_POINTER, Op::SlotAddress(slot))
}

/// A kernel's parameter, from the argument block.
pub(super) fn argument(out: &mut Builder, parameters: &Parameters, body: &Function, number: usize) -> Value {
    let param = &body.params[number];
    let ty = body.ty(param.value).clone();
    let place = out.offset(parameters.arguments, param.offset.into());
    match param.passing {
        Passing::ByAddress => out.cast(CastOp::AddrSpaceCast, ty, place),
        Passing::LocalOffset => {
            let offset = out.load(Type::I64, place, 8);
            out.element(parameters.local_memory, offset, 1, 0)
        }
        Passing::Direct | Passing::Small | Passing::Argument(_) => {
            let offset_align = 1 << param.offset.trailing_zeros().min(7);
            let align = ty.align().min(offset_align) as u32;
            out.load(ty, place, align)
        }
    }
}
