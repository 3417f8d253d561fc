//! What a compilation yields: the object file, the kernels' metadata and the launch ABI. Plain serializable data,
//! so that it can cross a process border or lie in a cache.

use crate::address_bits::AddressBits;
use crate::check::Site;
use crate::check::places::Places;
use crate::image_formats::ImageFormats;
use crate::printf::Printf;
use crate::tier::Tier;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A compiled program: object files and what the host must know to call its kernels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompiledProgram {
    /// Relocatable ELF objects for the host, which do not refer to each other.
    #[serde(deserialize_with = "few_objects")]
    pub objects: Vec<Vec<u8>>,
    /// The kernels, in the order of the module's metadata.
    pub kernels: Vec<KernelInfo>,
    /// The program-scope variables: the objects refer to one block of memory by [`DATA_SYMBOL`].
    pub data: ProgramData,
    /// Remarks and warnings, a line each; becomes part of the build log.
    pub log: String,
}

/// Reads the objects; an error if they are more than a program has. Empty ones would be many times as large in memory as they are
/// written.
fn few_objects<'d, D: Deserializer<'d>>(input: D) -> Result<Vec<Vec<u8>>, D::Error> {
    /// One for each thread that compiles, at most.
    const MOST: usize = 4096;
    struct Objects;
    impl<'d> Visitor<'d> for Objects {
        type Value = Vec<Vec<u8>>;
        fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            write!(f, "at most {MOST} objects")
        }
        fn visit_seq<A: SeqAccess<'d>>(self, mut list: A) -> Result<Vec<Vec<u8>>, A::Error> {
            let mut objects = Vec::new();
            while let Some(object) = list.next_element()? {
                if objects.len() == MOST {
                    return Err(serde::de::Error::invalid_length(MOST + 1, &self));
                }
                objects.push(object);
            }
            Ok(objects)
        }
    }
    input.deserialize_seq(Objects)
}

/// The symbol by which all objects of a program refer to its block of program-scope variables.
pub const DATA_SYMBOL: &str = "spirula.data";

/// The symbol of the linear memory that pointers of 32 bits are offsets in.
pub const MEMORY_SYMBOL: &str = "spirula.memory";

/// Bytes that a program's variables and constants may take in all. They are resident from the build on.
pub const MAX_PROGRAM_DATA: u64 = 64 << 20;

/// The most that a variable can be aligned to: a page.
pub const MAX_ALIGNMENT: u32 = 4096;

/// The block of a program's variables. It exists once for each device, whatever number of objects and variants there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramData {
    /// Bytes; 0 if nothing refers to [`DATA_SYMBOL`].
    pub size: u64,
    /// How many of them, at the beginning, are variables; behind them lie constants that pointers lead to.
    pub variables: u64,
    /// What the block's address is a multiple of; a power of two of at most [`MAX_ALIGNMENT`].
    pub align: u32,
    /// The first bytes at the beginning; the rest up to `size` is zero.
    pub image: Vec<u8>,
    /// Pointers into the block itself: at each first offset lie bytes that are to hold the address of the second, as many as
    /// `addresses` says.
    pub pointers: Vec<(u64, u64)>,
    /// What pointers are.
    pub addresses: AddressBits,
}

/// What the host knows of a compiled kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// What the application wrote.
    pub signature: KernelSignature,
    /// What the compiler made of it.
    pub code: KernelCode,
}

/// CL_DEVICE_SUB_GROUP_SIZES_INTEL (cl_intel_required_subgroup_size): what kernels may ask for.
pub const SUB_GROUP_SIZES: [u32; 5] = [4, 8, 16, 32, 64];

/// A kernel as its program declares it, with its place in the launch ABI: known before it is compiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelSignature {
    /// The name in the source.
    pub name: String,
    /// The arguments in order.
    pub arguments: Vec<ArgumentInfo>,
    /// What the runtime passes besides, behind the arguments; each kind at most once.
    pub hidden: Vec<HiddenArgument>,
    /// Bytes of the argument block; see [`ArgumentInfo::offset`].
    pub argument_block_size: u32,
    /// `reqd_work_group_size`.
    pub required_work_group_size: Option<[u32; 3]>,
    /// `intel_reqd_sub_group_size`: one of [`SUB_GROUP_SIZES`].
    pub required_sub_group_size: Option<u32>,
    /// Whether work-groups at the ends of an NDRange may be smaller than the others.
    pub remainder_groups: bool,
    /// `work_group_size_hint`.
    pub work_group_size_hint: Option<[u32; 3]>,
    /// CL_KERNEL_ATTRIBUTES, as the specification writes them.
    pub attributes: String,
    /// `-cl-denorms-are-zero`: the caller may let the processor take denormal numbers for zero.
    pub denormals_are_zero: bool,
    /// What it prints; None if it can't reach a call of printf.
    pub printf: Option<Printf>,
    /// Of a block that is enqueued, which an application can't launch: where what it captured begins, behind the block of
    /// arguments, which is longer by as much.
    pub block: Option<u32>,
    /// The checks in it, if there are any: `SPIRULA_CHECK`.
    pub sites: Vec<Site>,
    /// What of its accesses no races are looked for in, if work-items are apart there.
    pub places: Vec<Places>,
}

/// A kernel's work-group function, and what it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelCode {
    /// Its symbol in one of the objects.
    pub symbol: String,
    /// What it was made by.
    pub tier: Tier,
    /// Bytes of the kernel's own `local` variables; local arguments follow behind, each aligned to 128.
    pub static_local_size: u64,
    /// Bytes of private memory that one work-item needs.
    pub private_size: u64,
    /// Bytes of scratch for each work-item of the group (its count rounded up to a multiple of 128).
    pub scratch_per_item: u64,
    /// Bytes of scratch for the group.
    pub scratch_fixed: u64,
    /// Whether it depends on how the NDRange is divided into work-groups, or on several launches.
    pub sees_group: bool,
    /// Whether its work-groups may as well be begun in another order than that of their numbers: none can wait for what another does, or
    /// tell that it has done it.
    pub any_order: bool,
    /// Neighbouring work-items of a row that run together at most; 1 in scalar code.
    pub lanes: u32,
    /// The dimension that rows lie in: in which those are neighbours.
    pub row_dimension: u8,
    /// Whether groups whose rows are no multiple of the lanes run in baseline code; see [`crate::options::Groups::Usual`].
    pub wants_filled: bool,
    /// Whether launches do that whose buffers may have memory in common.
    pub wants_disjoint: bool,
    /// The local size that it was made for: groups of others, and smaller ones at the ends of a range, can't run in it.
    pub local_size: Option<[u32; 3]>,
    /// The images' formats that it was made for, as far as it goes by them: launches with others can't run in it.
    pub formats: ImageFormats,
    /// What might have been made instead and be as fast, by the cost model's estimates; the likeliest first. Nothing where the program
    /// could tell, or the user decided.
    pub alternatives: Vec<Alternative>,
    /// Operations of the kernel before it was lowered, or about as many as optimized code would be made of: how long it takes to make
    /// that goes by them.
    pub operations: u32,
    /// Work-items in a sub-group, where [`KernelCode::sub_group_size_in`] finds that they are packs, or would be in a kernel that could tell; a power
    /// of two up to 64.
    pub sub_group_size: u32,
    /// Whether the kernel asked for that size: rows may then end within packs.
    pub is_sub_group_size_required: bool,
}

/// Code of a kernel that runs other numbers of work-items together, and computes the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// See [`crate::options::Specialization::lanes`]; None: as the cost model chooses.
    pub lanes: Option<u32>,
    /// How long it is thought to take, in percent of the other.
    pub percent: u32,
}

impl KernelCode {
    /// Scalar code under that symbol that needs no memory, may depend on its work-group and on others', and will not get better.
    pub fn plain(symbol: impl Into<String>) -> Self {
        KernelCode {
            symbol: symbol.into(),
            tier: Tier::Optimized,
            static_local_size: 0,
            private_size: 0,
            scratch_per_item: 0,
            scratch_fixed: 0,
            sees_group: true,
            any_order: false,
            lanes: 1,
            row_dimension: 0,
            wants_filled: false,
            wants_disjoint: false,
            local_size: None,
            formats: ImageFormats::UNKNOWN,
            alternatives: Vec::new(),
            operations: 0,
            sub_group_size: 1,
            is_sub_group_size_required: false,
        }
    }

    /// Whether that launch runs in it, and in the code that it is worth having for; see [`KernelCode::wants_filled`].
    pub fn is_for(&self, launch: &Launch) -> bool {
        let row = launch.local_size.get(usize::from(self.row_dimension)).copied().unwrap_or(0);
        let fills = row.is_multiple_of(self.lanes.max(1).into());
        let sizes = [launch.local_size, launch.enqueued_local_size];
        let is_size = self.local_size.is_none_or(|size| sizes == [size.map(u64::from); 2]);
        let is_format = self.formats.are_of(&launch.formats);
        let is_usual =
            (fills || !self.wants_filled) && (launch.disjoint_buffers != 0 || !self.wants_disjoint);
        is_size && is_format && is_usual
    }

    /// [`Launch::numbered_along`] for such groups: neighbouring groups are to access neighbouring memory, as work-items of a row do, unless a
    /// group may wait for one of a smaller number.
    pub fn numbered_along(&self, local_size: [u64; 3]) -> [u64; 3] {
        let rows = usize::from(self.row_dimension);
        let extends = |dimension: usize| local_size.get(dimension).is_some_and(|&size| size > 1);
        let first = match self.any_order {
            true => std::iter::once(rows).chain(0..3).find(|&dimension| extends(dimension)).unwrap_or(rows),
            false => 0,
        };
        std::array::from_fn(|dimension| if dimension == first { u64::MAX } else { 0 })
    }

    /// Work-items in all sub-groups but the last of a work-group of that size: a pack, unless rows of it end within packs. Of a
    /// kernel that asked for its size, but the last of each row.
    pub fn sub_group_size_in(&self, local_size: [u64; 3]) -> u32 {
        let [x, y, z] = local_size;
        let fits = x.is_multiple_of(self.sub_group_size.max(1).into()) || y.saturating_mul(z) == 1;
        if fits || self.is_sub_group_size_required { self.sub_group_size.max(1) } else { 1 }
    }

    /// Sub-groups of a work-group of that size.
    pub fn sub_groups_in(&self, local_size: [u64; 3]) -> u64 {
        let [x, y, z] = local_size;
        let size = u64::from(self.sub_group_size_in(local_size));
        // A row that has no whole number of them is the only one, unless its kernel asked for the size.
        x.div_ceil(size).saturating_mul(y.saturating_mul(z))
    }

    /// Bytes of scratch that a work-group of `items` work-items needs; a number that doesn't fit is the largest.
    pub fn scratch_size(&self, items: u64) -> u64 {
        let padded = items.checked_next_multiple_of(128).unwrap_or(u64::MAX);
        self.scratch_per_item.saturating_mul(padded).saturating_add(self.scratch_fixed)
    }
}

impl KernelSignature {
    /// Where the hidden argument of that kind lies in the argument block, if the kernel takes it.
    pub fn hidden_offset(&self, kind: HiddenKind) -> Option<u32> {
        self.hidden.iter().find(|argument| argument.kind == kind).map(|argument| argument.offset)
    }

    /// Makes the kernel take a hidden argument, behind all others, unless it does so already.
    pub fn take_hidden(&mut self, kind: HiddenKind) {
        if self.hidden_offset(kind).is_none() {
            let offset = self.argument_block_size.next_multiple_of(HiddenArgument::BYTES);
            self.hidden.push(HiddenArgument { kind, offset });
            self.argument_block_size = offset + HiddenArgument::BYTES;
        }
    }
}

/// An address that the runtime puts into the argument block for the kernel's own use: the application sees none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenArgument {
    /// What it is the address of.
    pub kind: HiddenKind,
    /// Where it lies in the argument block, in bytes.
    pub offset: u32,
}

impl HiddenArgument {
    /// Bytes of its value.
    pub const BYTES: u32 = 8;
}

/// What a hidden argument is the address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HiddenKind {
    /// The buffer that printf writes to; see [`crate::printf`].
    PrintfBuffer,
    /// The launch's [`crate::enqueue::Parent`], for kernels that enqueue kernels or use their events.
    Parent,
    /// The launch's [`crate::check::Block`], for kernels that are checked.
    Checks,
}

/// A kernel argument (OpenCL 1.2, 5.7.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgumentInfo {
    /// How its value is passed.
    pub kind: ArgumentKind,
    /// Where its value lies in the argument block, in bytes.
    pub offset: u32,
    /// `kernel_arg_addr_space`.
    pub address_space: AddressQualifier,
    /// `kernel_arg_access_qual`.
    pub access: AccessQualifier,
    /// `kernel_arg_type`, as in the metadata.
    pub type_name: String,
    /// `const`, `restrict`, `volatile`, `pipe`.
    pub type_qualifiers: TypeQualifiers,
    /// Only when the module was compiled with `-cl-kernel-arg-info`.
    pub name: Option<String>,
}

/// How an argument's value is laid out in the argument block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgumentKind {
    /// The bytes that `clSetKernelArg` was given: `size` of them.
    Value {
        /// Bytes, also what `clSetKernelArg` must be given.
        size: u32,
    },
    /// A `global` or `constant` pointer: 8 bytes, the host address or null.
    Buffer,
    /// A `local` pointer: 8 bytes, the offset into the group's local memory.
    Local,
    /// An image: 8 bytes, the address of an [`crate::ImageDescriptor`].
    Image {
        /// Its dimensions.
        kind: ImageKind,
        /// Whether it is one of OpenCL 2.0's depth images.
        is_depth: bool,
    },
    /// A pipe: 8 bytes, the address of a [`crate::Pipe`].
    Pipe,
    /// A queue on the device: 8 bytes, the address of a [`crate::enqueue::Queue`].
    Queue,
    /// A sampler: 4 bytes, SPIR's sampler bits (addressing 0 2 4 6 8, filter 0x10/0x20, normalized 1).
    Sampler,
}

impl ArgumentKind {
    /// Bytes that it takes in the argument block.
    pub fn block_size(self) -> u32 {
        match self {
            ArgumentKind::Value { size } => size,
            ArgumentKind::Sampler => 4,
            _ => 8,
        }
    }
}

/// The image types of OpenCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ImageKind {
    Image1d,
    Image1dBuffer,
    Image1dArray,
    Image2d,
    Image2dArray,
    Image3d,
}

/// CL_KERNEL_ARG_ADDRESS_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum AddressQualifier {
    Private,
    Global,
    Constant,
    Local,
}

/// CL_KERNEL_ARG_ACCESS_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum AccessQualifier {
    None,
    ReadOnly,
    WriteOnly,
    ReadWrite,
}

/// CL_KERNEL_ARG_TYPE_*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TypeQualifiers {
    pub is_const: bool,
    pub is_restrict: bool,
    pub is_volatile: bool,
    pub is_pipe: bool,
}

/// The NDRange that a work-group function is called for, or the part of it whose groups are of one size. Dimensions beyond
/// `work_dim` have size 1 and offset 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// 1 to 3.
    pub work_dim: u32,
    /// 1 if the buffers don't fit in the last cache, so that stores may go past it; else 0.
    pub streams: u32,
    /// 1 if no two of the kernel's buffers have memory in common, as far as is known; else 0.
    pub disjoint_buffers: u64,
    /// `global_work_offset`.
    pub global_offset: [u64; 3],
    /// `global_work_size`.
    pub global_size: [u64; 3],
    /// The size of this part's groups.
    pub local_size: [u64; 3],
    /// This part's work-groups in each dimension.
    pub group_count: [u64; 3],
    /// `local_work_size`: the size of all groups but those at the NDRange's ends, which may be smaller.
    pub enqueued_local_size: [u64; 3],
    /// The id of this part's first group.
    pub first_group: [u64; 3],
    /// The NDRange's work-groups in each dimension.
    pub total_groups: [u64; 3],
    /// All ones for the dimension in which groups are numbered first, and 0 for the others, which follow in their order. All code of a kernel
    /// numbers the groups of a launch alike, for it may take another's place between any two of them.
    pub numbered_along: [u64; 3],
    /// What the work-group function is given.
    pub memory: MemorySizes,
    /// Of the kernel's images.
    pub formats: ImageFormats,
}

/// Bytes of the memory that a work-group function is given: by their place pointers tell which memory they lead to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySizes {
    /// `local_memory`, with the local arguments.
    pub local: u64,
    /// `scratch`.
    pub scratch: u64,
    /// `arguments`.
    pub arguments: u64,
}

impl Launch {
    /// An NDRange that groups of that size divide.
    pub fn whole(
        work_dim: u32,
        global_offset: [u64; 3],
        global_size: [u64; 3],
        local_size: [u64; 3],
    ) -> Launch {
        let groups = std::array::from_fn(|d| global_size[d] / local_size[d]);
        Launch {
            work_dim,
            streams: 0,
            disjoint_buffers: 0,
            global_offset,
            global_size,
            local_size,
            group_count: groups,
            enqueued_local_size: local_size,
            first_group: [0; 3],
            total_groups: groups,
            numbered_along: [u64::MAX, 0, 0],
            memory: MemorySizes::default(),
            formats: ImageFormats::UNKNOWN,
        }
    }

    /// The NDRange in groups of that size, of which none is 0, as parts whose groups are of one size: the whole groups first,
    /// if there are any, then the smaller ones at the ends of each dimension. Nothing of an empty NDRange.
    pub fn divided(
        work_dim: u32,
        global_offset: [u64; 3],
        global_size: [u64; 3],
        local_size: [u64; 3],
    ) -> Vec<Launch> {
        let per_axis = |of: fn(u64, u64) -> u64| std::array::from_fn(|d| of(global_size[d], local_size[d]));
        if !global_size.contains(&0) && (0..3).all(|d| global_size[d].is_multiple_of(local_size[d])) {
            return vec![Launch::whole(work_dim, global_offset, global_size, local_size)];
        }
        let (whole, rest): ([u64; 3], [u64; 3]) = (per_axis(|g, l| g / l), per_axis(|g, l| g % l));
        let part = |at_end: u32| {
            let ends = |d: usize| at_end & (1 << d) != 0;
            let choose = |end: [u64; 3], else_: [u64; 3]| -> [u64; 3] {
                std::array::from_fn(|d| if ends(d) { end[d] } else { else_[d] })
            };
            Launch {
                local_size: choose(rest, local_size),
                group_count: choose([1; 3], whole),
                first_group: choose(whole, [0; 3]),
                total_groups: per_axis(u64::div_ceil),
                ..Launch::whole(work_dim, global_offset, global_size, local_size)
            }
        };
        let parts = (0..8).map(part);
        parts.filter(|part| !part.local_size.contains(&0) && !part.group_count.contains(&0)).collect()
    }
}

/// The C signature of a work-group function. It runs the work-groups `first_group..end_group` in linear order
/// (dimension 0 fastest), one after the other, with one block of local memory and one of scratch, both aligned
/// to 128 bytes.
pub type RawWorkGroupFn = unsafe extern "C" fn(
    arguments: *const u8,
    launch: *const Launch,
    first_group: u64,
    end_group: u64,
    local_memory: *mut u8,
    scratch: *mut u8,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbered_along_rows() {
        let along = |row_dimension, any_order, local_size| {
            let code = KernelCode { row_dimension, any_order, ..KernelCode::plain("k") };
            code.numbered_along(local_size).map(|mask| mask != 0)
        };
        assert_eq!(along(0, true, [64, 4, 1]), [true, false, false]);
        assert_eq!(along(1, true, [64, 4, 1]), [false, true, false]);
        assert_eq!(along(1, true, [64, 1, 1]), [true, false, false], "they are one item wide");
        assert_eq!(along(0, true, [1, 1, 64]), [false, false, true]);
        assert_eq!(along(2, true, [1, 1, 1]), [false, false, true]);
        assert_eq!(along(2, false, [1, 1, 64]), [true, false, false], "some may wait for others");
    }

    #[test]
    fn every_work_item_of_a_range_is_in_one_part() {
        for (global, local) in [
            ([7, 5, 1], [3, 2, 1]),
            ([5, 1, 1], [8, 1, 1]),
            ([6, 4, 2], [3, 2, 1]),
            ([7, 9, 5], [4, 4, 4]),
            ([3, 3, 3], [4, 4, 4]),
        ] {
            let mut seen = vec![0; global.iter().product::<u64>() as usize];
            for part in Launch::divided(3, [10, 20, 30], global, local) {
                let end: [u64; 3] = std::array::from_fn(|d| part.first_group[d] + part.group_count[d]);
                for (x, y, z) in (part.first_group[2]..end[2])
                    .flat_map(|z| (part.first_group[1]..end[1]).map(move |y| (y, z)))
                    .flat_map(|(y, z)| (part.first_group[0]..end[0]).map(move |x| (x, y, z)))
                {
                    let group = [x, y, z];
                    assert!((0..3).all(|d| group[d] < part.total_groups[d]), "{part:?}");
                    for item in 0..part.local_size.iter().product::<u64>() {
                        let [w, h, _] = part.local_size;
                        let local_id = [item % w, item / w % h, item / w / h];
                        let id: [u64; 3] = std::array::from_fn(|d| group[d] * local[d] + local_id[d]);
                        seen[((id[2] * global[1] + id[1]) * global[0] + id[0]) as usize] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{global:?} {local:?}: {seen:?}");
        }
        assert!(Launch::divided(1, [0; 3], [0, 1, 1], [4, 1, 1]).is_empty());
        assert_eq!(Launch::divided(2, [0; 3], [8, 6, 1], [4, 2, 1]).len(), 1);
    }
}
