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
use crate::transform::WorkGroup;
use crate::{Attributes, BinaryOp, Block, Function, IntPredicate, Op, Terminator, Type, Value};
use launch::{Memory, Parameters, Sizes};
use layout::Layout;
use std::collections::BTreeMap;
use sub_groups::SubGroups;

/// A kernel's work-group function, and the memory that its caller must provide.
#[derive(Clone, Debug)]
pub struct WorkGroupFunction {
    /// Its signature is [`spirula_interface::program::RawWorkGroupFn`].
    pub function: Function,
    /// What it calls for groups that are smaller than the kernel requires; with the same signature.
    pub remainder: Option<Box<Function>>,
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
        self.remainder.as_deref().into_iter().chain([&self.function])
    }

    /// All its code.
    pub fn functions_mut(&mut self) -> impl Iterator<Item = &mut Function> {
        self.remainder.as_deref_mut().into_iter().chain([&mut self.function])
    }
}

/// Writes the work-group function of that name. In linear memory no private variable lies on the stack, which is outside of it.
pub fn lower(group: &WorkGroup, name: &str, linear_memory: bool) -> WorkGroupFunction {
    let layout = Layout::new(group, linear_memory);
    let body = group.regions.first().map(|region| &region.body);
    let has_remainder =
        body.is_some_and(|body| body.required_work_group_size.is_some() && body.remainder_groups);
    let remainder =
        has_remainder.then(|| Box::new(remainder_function(group, &layout, &format!("{name}.remainder"))));
    let mut function = Function::callable(name, None);
    body.iter().for_each(|body| function.take_locations(body));
    let entry = function.add_block();
    let mut out = Builder { function: &mut function, at: entry };
    let parameters = Parameters::new(&mut out);
    if let Some(body) = body {
        let sizes = Sizes::read(&mut out, &parameters, body, group.streams);
        if let Some(remainder) = &remainder {
            leave_smaller_groups_to(remainder, &mut out, (&parameters, &sizes));
        }
        let memory = Memory::place(&mut out, &parameters, (group, &layout), &sizes);
        let packs = groups::count_packs(&mut out, group, &sizes);
        groups::write(out, (group, &parameters), (sizes, memory, Some(packs)));
    }
    WorkGroupFunction {
        function,
        remainder,
        private_size: layout.private_size,
        scratch_per_item: layout.per_item,
        scratch_fixed: layout.fixed,
    }
}

/// The same for groups of any size, up to the required one. It stays a call: beside it, the code for whole groups would have
/// fewer registers.
fn remainder_function(group: &WorkGroup, layout: &Layout, name: &str) -> Function {
    let mut function = Function::callable(name, None);
    function.attributes = Attributes { noinline: true, cold: true, ..Attributes::default() };
    function.take_locations(&group.regions[0].body);
    let entry = function.add_block();
    let mut out = Builder { function: &mut function, at: entry };
    let parameters = Parameters::new(&mut out);
    let required = Sizes::read(&mut out, &parameters, &group.regions[0].body, group.streams);
    let memory = Memory::place(&mut out, &parameters, (group, layout), &required);
    let sizes = required.of_remainder(&mut out, &parameters);
    // They are few: they do without packs, unless these are sub-groups.
    let packs = (group.sub_group_size > 1).then(|| groups::count_packs(&mut out, group, &sizes));
    groups::write(out, (group, &parameters), (sizes, memory, packs));
    function
}

/// Ends the function that `out` writes with a call of `remainder` if the launch's groups are smaller than the required size.
fn leave_smaller_groups_to(
    remainder: &Function,
    out: &mut Builder,
    (parameters, required): (&Parameters, &Sizes),
) {
    let actual = required.of_remainder(out, parameters);
    let mut smaller = out.function.int(Type::BOOL, 0);
    for (actual, required) in actual.local_size.into_iter().zip(required.local_size) {
        let differs = out.compare(IntPredicate::Ne, actual, required);
        smaller = out.binary(BinaryOp::Or, 0, smaller, differs);
    }
    let [smaller_groups, whole_groups] = std::array::from_fn(|_| out.function.add_block());
    out.branch(smaller, (smaller_groups, &[]), (whole_groups, &[]));
    out.at = smaller_groups;
    let arguments = out.function.params.iter().map(|param| param.value).collect();
    out.effect(Op::Call {
        function: remainder.name.as_str().into(),
        pure: false,
        nocapture: false,
        nosync: false,
        arguments,
    });
    out.function.set_terminator(smaller_groups, Terminator::Return(None));
    out.at = whole_groups;
}

/// The work-group function being written, within the loop over work-groups.
struct Lowering<'a, 'f> {
    group: &'a WorkGroup,
    sizes: Sizes,
    memory: Memory,
    /// How many work-items of a row go in packs, by number of lanes; none if there is to be scalar code only.
    packs: Option<BTreeMap<u32, Value>>,
    sub_groups: SubGroups,
    /// The work-group's id, and its first work-item's global id.
    ids: [Value; 3],
    bases: [Value; 3],
    /// The block that each region ends with.
    ends: Vec<Block>,
    out: Builder<'f>,
}
