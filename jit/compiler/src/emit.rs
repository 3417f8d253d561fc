//! From barrier regions to a work-group function: LLVM IR text. Address spaces end here; what they say about aliasing
//! becomes metadata. Text keeps this a pure function that golden tests can read; LLVM's parser is a small part of a build.

mod instruction;
mod layout;
mod local_atomic;
mod reciprocal_root;
mod region;
mod streaming;
mod types;
mod work_group;

#[cfg(test)]
mod tests;

use spirula_kir::Function;
use spirula_kir::analysis::sees_group;
use spirula_kir::transform::widen::{VectorTarget, choose};
use spirula_kir::transform::{form_regions, stream_stores};

/// A kernel's work-group function and what the host must provide for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// LLVM IR: the definition of `symbol` and declarations of what it uses.
    pub ir: String,
    /// The work-group function; its signature is [`spirula_interface::program::RawWorkGroupFn`].
    pub symbol: String,
    /// Bytes of static local memory.
    pub static_local_size: u64,
    /// Bytes of private memory and of values kept over barriers, for one work-item.
    pub private_size: u64,
    /// See [`spirula_interface::program::KernelInfo::scratch_per_item`].
    pub scratch_per_item: u64,
    /// See [`spirula_interface::program::KernelInfo::scratch_fixed`].
    pub scratch_fixed: u64,
    /// See [`spirula_interface::program::KernelInfo::sees_group`].
    pub sees_group: bool,
    /// See [`spirula_interface::program::KernelInfo::lanes`].
    pub lanes: u32,
    /// What was decided, a line each.
    pub remarks: Vec<String>,
}

/// Lowers one kernel to its work-group function of that symbol.
pub fn lower(kernel: Function, symbol: &str, target: VectorTarget) -> Lowered {
    let (name, local_size) = (kernel.name.clone(), kernel.local_size);
    let sees_group = sees_group(&kernel);
    let mut group = form_regions(kernel);
    let mut remarks = Vec::new();
    for (number, region) in group.regions.iter_mut().enumerate() {
        let choice = choose(region, &group.context, target);
        remarks.push(format!("kernel {name}: region {number}: {}", choice.reason));
        region.wide = choice.wide;
    }
    stream_stores(&mut group);
    if group.streams {
        remarks.push(format!("kernel {name}: stores to buffers that are never read may go past the caches"));
    }
    let layout = layout::Layout::new(&group);
    let ir = work_group::emit(&group, &layout, symbol, target);
    let wide_regions = group.regions.iter().filter_map(|region| region.wide.as_ref());
    let (count, kept) = (group.regions.len(), group.context.len());
    remarks.insert(0, format!("kernel {name}: {count} barrier region(s), {kept} context slot(s)"));
    Lowered {
        ir,
        symbol: symbol.to_owned(),
        static_local_size: local_size,
        private_size: layout.private_size,
        scratch_per_item: layout.per_item,
        scratch_fixed: layout.fixed,
        sees_group,
        lanes: wide_regions.map(|wide| wide.lanes).max().unwrap_or(1),
        remarks,
    }
}
