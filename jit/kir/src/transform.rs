//! Passes over Kernel IR, one per file; [`crate::pipeline`] says in which order they run, and why.
//!
//! `spaces` finds out where generic pointers lead, `idle_barriers` leaves out barriers that order nothing, `components` takes small vectors apart, `shifted_sums` writes sums that are cut to 32 bits as they were meant,
//! `demanded_bits` leaves out extensions whose upper bits no counter needs, `narrow_loops` computes in 32 bits what loops are asked no more of,
//! `equal_ids` has the one work-item that a branch is for go by a number, `power_divisors` makes shifts of divisions by powers of two,
//! `small_parameters` finds out which parameters are added to ids, `loop_load_elimination` keeps
//! sums in registers, `dead_stores` removes what is stored to private variables for nobody, `uniform_loops` parts loops that are the
//! same for all work-items. `regions` cuts a kernel into what lies between its barriers: `collectives`
//! makes barriers of work-group functions, `borders` says where to cut, `context` how each value gets over.
//! `contract` decides which products and sums are one operation, and `local_volatile` has packs access local memory as any other.
//! `widen` makes a second body for packs of work-items in SIMD lanes, and `streaming` lets stores of packs go past the caches.
//! [`check`] writes checks into kernels before all of that, where they are asked for.
//! Behind [`crate::lower`], `local_atomics`, `reciprocals`, `scale`, `lookups`, `high_products`, `byte_division`, `saturation`, `narrow_conversions` and `minimum` replace operations by
//! simpler ones, the second and third by the machine's on `registers`; `elements` takes single lanes of indices rather than of addresses,
//! `shuffles` makes one of several, and `dead_code` removes what is computed for nobody. For devices of 32 bits, `linear_memory` makes
//! pointers offsets in a block of memory, and `frames` sees to it that called functions' variables lie there.
//!
//! After Meyer, Aksoy et al., "Implementation Techniques for SPMD Kernels on CPUs" (IWOCL 2023), continuation-based synchronization.

mod borders;
mod byte_division;
pub mod check;
mod collectives;
mod components;
mod context;
mod contract;
mod dead_code;
mod dead_stores;
mod demanded_bits;
mod elements;
mod equal_ids;
mod exchange_loop;
mod frames;
mod high_products;
mod idle_barriers;
pub mod legalize;
mod linear_memory;
mod local_atomics;
mod local_volatile;
mod lookups;
mod loop_exits;
mod loop_load_elimination;
mod minimum;
mod narrow_conversions;
mod narrow_loops;
mod offsets;
mod power_divisors;
mod reciprocals;
mod regions;
mod registers;
mod row_dimension;
mod saturation;
mod scale;
mod shifted_sums;
mod shuffles;
mod small_parameters;
mod spaces;
mod streaming;
mod uniform_loops;
pub mod widen;

pub use byte_division::widen_byte_divisions;
pub use components::compute_components;
pub use contract::decide_contraction;
pub use dead_code::remove_dead_code;
pub use dead_stores::remove_dead_stores;
pub use demanded_bits::count_in_demanded_bits;
pub use elements::access_by_elements;
pub use equal_ids::substitute_equal_ids;
pub use frames::pass_frames;
pub use high_products::expand_high_products;
pub use idle_barriers::remove_idle_barriers;
pub use linear_memory::{check_linear_memory, enter_linear_memory};
pub use local_atomics::expand_local_atomics;
pub use local_volatile::access_locals_plainly;
pub use lookups::expand_lookups;
pub use loop_exits::split_loop_exits;
pub use loop_load_elimination::eliminate_loop_loads;
pub use minimum::expand_minima;
pub use narrow_conversions::widen_narrow_conversions;
pub use narrow_loops::narrow_loops;
pub use power_divisors::shift_by_powers;
pub use reciprocals::expand_reciprocals;
pub use regions::form_regions;
pub(crate) use regions::{GROUP, ITEM};
pub use row_dimension::choose_row_dimension;
pub use saturation::expand_saturation;
pub use scale::expand_scales;
pub use shifted_sums::factor_shifts;
pub use shuffles::compose_shuffles;
pub use small_parameters::find_small_parameters;
pub use spaces::infer_spaces;
pub use streaming::stream_stores;
pub use uniform_loops::part_uniform_loops;

use crate::{ContextSlot, Function, ReduceOp, Type};
use spirula_interface::program::Alternative;
use std::fmt::{self, Display, Formatter};

/// What a context slot holds.
#[derive(Clone, Debug, PartialEq)]
pub enum ContextKind {
    /// One value for the work-group.
    Uniform(Type),
    /// One value for each work-item.
    Varying(Type),
    /// One value for each work-item, of which neighbours in dimension 0 lie `stride` apart: a pack needs the first one's.
    #[allow(missing_docs)]
    Affine { ty: Type, stride: i64, exact: bool },
    /// What packs are given as an argument: a pointer into private memory that lies interleaved, in elements of so many bytes
    /// (`widen/slots.rs`). Where lanes' pointers are neighbours, a pack has the first one's.
    #[allow(missing_docs)]
    Interleaved { ty: Type, element: u64, neighbours: bool },
    /// The combination of all work-items' values, and places to combine them in until all are there.
    Reduction(ReduceOp, Type),
    /// What the work-items that come before one have left.
    Carry(ReduceOp, Type),
    /// A memory block for each work-item.
    #[allow(missing_docs)]
    Memory { size: u64, align: u32 },
}

/// A kernel cut into barrier regions: what a work-group does, one region after the other.
#[derive(Clone, Debug)]
pub struct WorkGroup {
    /// What crosses the regions' borders.
    pub context: Vec<ContextKind>,
    /// The work-group starts with the first.
    pub regions: Vec<Region>,
    /// Whether some store may go past the caches.
    pub streams: bool,
    /// Work-items in a sub-group; 1 if none is used, too.
    pub sub_group_size: u32,
    /// What packs might have been made of other sizes.
    pub alternatives: Vec<Alternative>,
}

/// What every work-item does between two borders.
#[derive(Clone, Debug)]
pub struct Region {
    /// Block 0 runs once for the work-group, before the work-items; each of them starts at block 1.
    pub body: Function,
    /// Where the group goes by [`crate::Terminator::Exit`]. Work-items that return early leave by the `Return`
    /// exit; the group follows the others.
    pub exits: Vec<RegionExit>,
    /// All work-items would do the same and nothing else: the body runs once for the group.
    pub once: bool,
    /// The same for packs of work-items, where that pays; `body` does the rest of a row.
    pub wide: Option<widen::WideBody>,
    /// The same for less than a pack at the end of a row, where sub-groups are packs, or packs wide.
    pub tail: Option<widen::WideBody>,
}

/// What the work-group does after a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum RegionExit {
    Return,
    Region(usize),
    /// The region of the case that the uniform value equals.
    Choice {
        condition: ContextSlot,
        cases: Vec<(u128, usize)>,
        default: usize,
    },
}

impl Display for WorkGroup {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        for (i, kind) in self.context.iter().enumerate() {
            match kind {
                ContextKind::Uniform(ty) => writeln!(f, "context #{i}: uniform {ty}")?,
                ContextKind::Varying(ty) => writeln!(f, "context #{i}: varying {ty}")?,
                ContextKind::Affine { ty, stride, exact } => {
                    let exact = if *exact { " exact" } else { "" };
                    writeln!(f, "context #{i}: affine {ty}, stride {stride}{exact}")?;
                }
                ContextKind::Interleaved { ty, element, neighbours } => {
                    let neighbours = if *neighbours { " neighbours" } else { "" };
                    writeln!(f, "context #{i}: interleaved {ty}, element {element}{neighbours}")?;
                }
                ContextKind::Reduction(op, ty) => writeln!(f, "context #{i}: reduction {} {ty}", op.name())?,
                ContextKind::Carry(op, ty) => writeln!(f, "context #{i}: carry {} {ty}", op.name())?,
                ContextKind::Memory { size, align } => {
                    writeln!(f, "context #{i}: memory {size} align {align}")?
                }
            }
        }
        for (i, region) in self.regions.iter().enumerate() {
            writeln!(f, "region {i}{}", if region.once { " once" } else { "" })?;
            for (k, exit) in region.exits.iter().enumerate() {
                match exit {
                    RegionExit::Return => writeln!(f, "exit {k}: return")?,
                    RegionExit::Region(r) => writeln!(f, "exit {k}: region {r}")?,
                    RegionExit::Choice { condition, cases, default } => {
                        write!(f, "exit {k}: choice #{}", condition.0)?;
                        cases.iter().try_for_each(|(v, r)| write!(f, ", {v}: region {r}"))?;
                        writeln!(f, ", default: region {default}")?;
                    }
                }
            }
            write!(f, "{}", region.body)?;
            if let Some(wide) = &region.wide {
                write!(f, "{} lanes\n{}", wide.lanes, wide.body)?;
            }
            if let Some(tail) = &region.tail {
                write!(f, "up to {} lanes\n{}", tail.lanes, tail.body)?;
            }
        }
        Ok(())
    }
}
