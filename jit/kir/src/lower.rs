//! From barrier regions to the work-group function: all that a work-group does, in Kernel IR without work-items.
//!
//! `launch` reads what the caller passes, `groups` loops over the work-groups, `region` over a group's work-items (in packs,
//! then the rest of each row), and `body` copies what each of them does: queries become values, what crosses a barrier lies
//! where `layout` says, and `collectives` combines what work-items bring. Loops test at their ends, for every group has at least one work-item.

mod body;
mod collectives;
mod groups;
mod invariants;
mod launch;
mod layout;
mod region;
mod spaces;
mod sub_groups;

use crate::builder::Builder;
use crate::transform::{Region, WorkGroup};
use crate::{
    Attributes, BinaryOp, Block, Function, IntPredicate, Op, Terminator, Type, Value, WorkItemQuery,
};
use groups::PackCounts;
use launch::{Memory, Parameters, Sizes};
use layout::Layout;
use spirula_interface::options::Usual;
use sub_groups::SubGroups;

/// A kernel's work-group function, and the memory that its caller must provide.
#[derive(Clone, Debug)]
pub struct WorkGroupFunction {
    /// Its signature is [`spirula_interface::program::RawWorkGroupFn`].
    pub function: Function,
    /// What it calls for groups that are smaller than the kernel requires; with the same signature.
    pub remainder: Option<Box<Function>>,
    /// What it calls where packs don't fill the groups' rows, ids don't fit 32-bit arithmetic, or buffers overlap that were not thought to, if
    /// that is no part of it; with the same signature. Scalar code.
    pub rest: Option<Box<Function>>,
    /// Whether it calls that for launches, too, whose buffers may have memory in common.
    pub rest_overlaps: bool,
    /// What packs call in lanes.
    pub called: Vec<Function>,
    /// Bytes of private memory and of values kept over barriers, for one work-item.
    pub private_size: u64,
    /// See [`spirula_interface::program::KernelInfo::scratch_per_item`].
    pub scratch_per_item: u64,
    /// See [`spirula_interface::program::KernelInfo::scratch_fixed`].
    pub scratch_fixed: u64,
}

impl WorkGroupFunction {
    /// The parameter that is the launch.
    pub(crate) const LAUNCH: usize = 1;

    /// All its code.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        let others = [&self.remainder, &self.rest].into_iter().flat_map(|other| other.as_deref());
        others.chain(&self.called).chain([&self.function])
    }

    /// All its code.
    pub fn functions_mut(&mut self) -> impl Iterator<Item = &mut Function> {
        let others = [&mut self.remainder, &mut self.rest];
        let others = others.into_iter().flat_map(|other| other.as_deref_mut());
        others.chain(&mut self.called).chain([&mut self.function])
    }
}

/// How a work-group function is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// No private variable lies on the stack, which is outside of it.
    pub linear_memory: bool,
    /// Where launches like these always fill packs, all else is no part of the function, which calls [`WorkGroupFunction::rest`] for it.
    /// That is half of its code, or more.
    pub usual: Option<Usual>,
}

/// Writes the work-group function of that name.
pub fn lower(group: &WorkGroup, name: &str, how: How) -> WorkGroupFunction {
    let layout = Layout::new(group, how.linear_memory);
    let body = group.regions.first().map(|region| &region.body);
    let has_remainder =
        body.is_some_and(|body| body.required_work_group_size.is_some() && body.remainder_groups);
    let other = |other: Other| {
        let name = format!("{name}.{}", other.name());
        Box::new(other_function(group, &layout, &name, other))
    };
    let remainder = has_remainder.then(|| other(Other::Remainder));
    let rest = how.usual.is_some_and(|usual| has_rest(group, usual)).then(|| other(Other::Rest));
    let rest_overlaps = rest.is_some() && has_versions(group);
    let mut function = Function::callable(name, None);
    body.iter().for_each(|body| function.take_locations(body));
    let entry = function.add_block();
    let mut out = Builder { function: &mut function, at: entry };
    let parameters = Parameters::new(&mut out);
    if let Some(body) = body {
        let mut sizes = Sizes::read(&mut out, &parameters, body, group.streams);
        if let Some(remainder) = &remainder {
            let smaller = is_smaller(&mut out, &parameters, &sizes);
            leave_to(remainder, &mut out, smaller);
        }
        let filled = rest.as_ref().map(|rest| {
            let (packs, left) = groups::fill_packs(&mut out, group, &sizes, rest_overlaps);
            leave_to(rest, &mut out, left);
            if rest_overlaps {
                sizes.disjoint_buffers = out.int(1);
            }
            packs
        });
        let memory = Memory::place(&mut out, &parameters, (group, &layout), &sizes);
        let packs = filled.unwrap_or_else(|| groups::count_packs(&mut out, (group, &parameters), &sizes));
        groups::write(out, (group, &parameters), (sizes, memory, Some(packs)));
    }
    let called = body.map_or(Vec::new(), |body| body.callees.called_by(&function));
    WorkGroupFunction {
        called,
        function,
        remainder,
        rest,
        rest_overlaps,
        private_size: layout.private_size,
        scratch_per_item: layout.per_item,
        scratch_fixed: layout.fixed,
    }
}

/// Whether there is code for packs, and beside it such as no launch runs that is like others. (Of sizes that a kernel requires it is known
/// which runs; what is left of a row is a sub-group as well; and whether rows share sets of the cache, launches that are alike may differ in:
/// what runs then is to be as good as the rest.)
fn has_rest(group: &WorkGroup, usual: Usual) -> bool {
    let is_free = |body: &Function| body.required_work_group_size.is_none();
    let mut packs = group.regions.iter().filter_map(|region| region.wide.as_ref()).peekable();
    packs.peek().is_some()
        && packs.all(|wide| usual.rows.is_multiple_of(wide.lanes) && wide.rows.is_empty())
        && (usual.disjoint || !has_versions(group))
        && group.sub_group_size <= 1
        && (usual.size.is_some() || is_free(&group.regions[0].body))
}

/// Whether there are packs, or versions of loops, for buffers that have no memory in common.
fn has_versions(group: &WorkGroup) -> bool {
    let asks = |op: &Op| matches!(op, Op::WorkItem { query: WorkItemQuery::DisjointBuffers, .. });
    let has_loops = |region: &Region| region.body.insts().any(|inst| asks(region.body.op(inst)));
    let has_packs = |region: &Region| region.wide.as_ref().is_some_and(|wide| wide.disjoint);
    group.regions.iter().any(|region| has_packs(region) || has_loops(region))
}

/// What a work-group function may call to do its work.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    /// For groups of any size up to the required one. It stays a call: beside it, the code for whole groups would have fewer
    /// registers.
    Remainder,
    /// For launches whose rows don't fill packs, or that packs are not for.
    Rest,
}

impl Other {
    fn name(self) -> &'static str {
        match self {
            Other::Remainder => "remainder",
            Other::Rest => "rest",
        }
    }
}

fn other_function(group: &WorkGroup, layout: &Layout, name: &str, other: Other) -> Function {
    let mut function = Function::callable(name, None);
    function.attributes = Attributes { noinline: true, cold: true, ..Attributes::default() };
    function.take_locations(&group.regions[0].body);
    let entry = function.add_block();
    let mut out = Builder { function: &mut function, at: entry };
    let parameters = Parameters::new(&mut out);
    let usual = Sizes::read(&mut out, &parameters, &group.regions[0].body, group.streams);
    let memory = Memory::place(&mut out, &parameters, (group, layout), &usual);
    let sizes = if other == Other::Remainder { usual.of_remainder(&mut out, &parameters) } else { usual };
    // Smaller groups are few: they do without packs, unless these are sub-groups.
    let packs =
        (group.sub_group_size > 1).then(|| groups::count_packs(&mut out, (group, &parameters), &sizes));
    groups::write(out, (group, &parameters), (sizes, memory, packs));
    function
}

/// Whether the launch's groups are smaller than the required size.
fn is_smaller(out: &mut Builder, parameters: &Parameters, required: &Sizes) -> Value {
    let actual = required.of_remainder(out, parameters);
    let mut smaller = out.function.int(Type::BOOL, 0);
    for (actual, required) in actual.local_size.into_iter().zip(required.local_size) {
        let differs = out.compare(IntPredicate::Ne, actual, required);
        smaller = out.binary(BinaryOp::Or, 0, smaller, differs);
    }
    smaller
}

/// Ends the function that `out` writes with a call of the other one on that condition.
fn leave_to(other: &Function, out: &mut Builder, condition: Value) {
    let [leave, stay] = std::array::from_fn(|_| out.function.add_block());
    out.branch(condition, (leave, &[]), (stay, &[]));
    out.at = leave;
    let arguments = out.function.params.iter().map(|param| param.value).collect();
    out.effect(Op::Call {
        function: other.name.as_str().into(),
        pure: false,
        nocapture: false,
        nosync: false,
        arguments,
    });
    out.function.set_terminator(leave, Terminator::Return(None));
    out.at = stay;
}

/// The work-group function being written, within the loop over work-groups.
struct Lowering<'a, 'f> {
    group: &'a WorkGroup,
    sizes: Sizes,
    memory: Memory,
    /// How many work-items of a row go in packs; none if there is to be scalar code only.
    packs: Option<PackCounts>,
    sub_groups: SubGroups,
    /// The work-group's id, and its first work-item's global id.
    ids: [Value; 3],
    bases: [Value; 3],
    /// The block that each region ends with.
    ends: Vec<Block>,
    out: Builder<'f>,
}
