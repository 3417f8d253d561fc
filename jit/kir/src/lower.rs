//! From barrier regions to the work-group function: all that a work-group does, in Kernel IR without work-items.
//!
//! `launch` reads what the caller passes, `groups` loops over the work-groups, `region` over a group's work-items (in packs,
//! then the rest of each row), and `body` copies what each of them does: queries become values, what crosses a barrier lies
//! where `layout` says, and `collectives` combines what work-items bring. Loops test at their ends, for every group has at least one work-item.

mod body;
mod collectives;
mod groups;
mod launch;
mod layout;
mod region;
mod spaces;
mod sub_groups;

use crate::builder::Builder;
use crate::transform::WorkGroup;
use crate::{Block, Function, Value};
use launch::{Memory, Sizes};
use layout::Layout;
use std::collections::BTreeMap;
use sub_groups::SubGroups;

/// A kernel's work-group function, and the memory that its caller must provide.
#[derive(Clone, Debug)]
pub struct WorkGroupFunction {
    /// Its signature is [`spirula_interface::program::RawWorkGroupFn`].
    pub function: Function,
    /// Bytes of private memory and of values kept over barriers, for one work-item.
    pub private_size: u64,
    /// See [`spirula_interface::program::KernelInfo::scratch_per_item`].
    pub scratch_per_item: u64,
    /// See [`spirula_interface::program::KernelInfo::scratch_fixed`].
    pub scratch_fixed: u64,
}

/// Writes the work-group function of that name.
pub fn lower(group: &WorkGroup, name: &str) -> WorkGroupFunction {
    let layout = Layout::new(group);
    let mut function = Function::callable(name, None);
    let entry = function.add_block();
    let mut out = Builder { function: &mut function, at: entry };
    let parameters = launch::Parameters::new(&mut out);
    if let Some(first) = group.regions.first() {
        let sizes = Sizes::read(&mut out, &parameters, &first.body, group.streams);
        let memory = Memory::place(&mut out, &parameters, (group, &layout), &sizes);
        if first.body.required_work_group_size.is_some() && first.body.remainder_groups {
            let (sizes, smaller) = sizes.of_remainder(&mut out, &parameters);
            let [remainder, whole] = std::array::from_fn(|_| out.function.add_block());
            out.branch(smaller, (remainder, &[]), (whole, &[]));
            out.at = whole;
            // They are few: they do without packs, unless these are sub-groups.
            let mut out = Builder { function: out.function, at: remainder };
            let packs = (group.sub_group_size > 1).then(|| groups::count_packs(&mut out, group, &sizes));
            groups::write(out, (group, &parameters), (sizes, memory.clone(), packs));
        }
        let packs = groups::count_packs(&mut out, group, &sizes);
        groups::write(out, (group, &parameters), (sizes, memory, Some(packs)));
    }
    WorkGroupFunction {
        function,
        private_size: layout.private_size,
        scratch_per_item: layout.per_item,
        scratch_fixed: layout.fixed,
    }
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
