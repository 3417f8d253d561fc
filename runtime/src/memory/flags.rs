//! `cl_mem_flags` and `cl_map_flags`; the bits are OpenCL's.

use crate::error::{Result, Status};

bitflags::bitflags! {
    /// `cl_mem_flags`. `from_bits` refuses unknown bits (CL_INVALID_VALUE).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct MemFlags: u64 {
        /// Kernels read and write; the default.
        const READ_WRITE = 1;
        /// Kernels write.
        const WRITE_ONLY = 1 << 1;
        /// Kernels read.
        const READ_ONLY = 1 << 2;
        /// The application's memory is the storage.
        const USE_HOST_PTR = 1 << 3;
        /// Storage that the host can map; all of ours is.
        const ALLOC_HOST_PTR = 1 << 4;
        /// Filled from the application's memory at creation.
        const COPY_HOST_PTR = 1 << 5;
        /// The host only writes.
        const HOST_WRITE_ONLY = 1 << 7;
        /// The host only reads.
        const HOST_READ_ONLY = 1 << 8;
        /// The host does neither.
        const HOST_NO_ACCESS = 1 << 9;
    }

    /// `cl_map_flags`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct MapFlags: u64 {
        /// The host will read.
        const READ = 1;
        /// The host will write.
        const WRITE = 1 << 1;
        /// The host will overwrite all of it.
        const WRITE_INVALIDATE_REGION = 1 << 2;
    }
}

impl MapFlags {
    /// WRITE_INVALIDATE_REGION excludes READ and WRITE.
    pub fn is_consistent(self) -> bool {
        !self.contains(MapFlags::WRITE_INVALIDATE_REGION)
            || !self.intersects(MapFlags::READ | MapFlags::WRITE)
    }
}

impl MemFlags {
    /// How kernels use it: one of these at most.
    pub const KERNEL_ACCESS: MemFlags =
        MemFlags::READ_WRITE.union(MemFlags::WRITE_ONLY).union(MemFlags::READ_ONLY);
    /// How the host uses it: one of these at most.
    pub const HOST_ACCESS: MemFlags =
        MemFlags::HOST_WRITE_ONLY.union(MemFlags::HOST_READ_ONLY).union(MemFlags::HOST_NO_ACCESS);
    /// Where the storage comes from.
    pub const HOST_MEMORY: MemFlags =
        MemFlags::USE_HOST_PTR.union(MemFlags::ALLOC_HOST_PTR).union(MemFlags::COPY_HOST_PTR);

    /// CL_INVALID_VALUE for flags that exclude each other; fills in the default access (OpenCL 1.2, table 5.3).
    pub(crate) fn checked_for_creation(self) -> Result<MemFlags> {
        self.check_exclusive()?;
        let alone = MemFlags::ALLOC_HOST_PTR | MemFlags::COPY_HOST_PTR;
        if self.contains(MemFlags::USE_HOST_PTR) && self.intersects(alone) {
            return Err(
                Status::InvalidValue.because("CL_MEM_USE_HOST_PTR excludes ALLOC_HOST_PTR and COPY_HOST_PTR")
            );
        }
        Ok(if self.intersects(Self::KERNEL_ACCESS) { self } else { self | MemFlags::READ_WRITE })
    }

    fn check_exclusive(self) -> Result<()> {
        for group in [Self::KERNEL_ACCESS, Self::HOST_ACCESS] {
            if (self & group).bits().count_ones() > 1 {
                return Err(Status::InvalidValue.because(format!("{:?} exclude each other", self & group)));
            }
        }
        Ok(())
    }

    /// A sub-buffer's (or buffer image's) flags: its own where given, else the parent's. CL_INVALID_VALUE where they ask
    /// for more than the parent has (OpenCL 1.2, table 5.3 and clCreateSubBuffer).
    pub(crate) fn inherited_from(self, parent: MemFlags) -> Result<MemFlags> {
        self.check_exclusive()?;
        if self.intersects(Self::HOST_MEMORY) {
            return Err(Status::InvalidValue
                .because("host pointer flags for an object that shares its parent's memory"));
        }
        let refused = [
            (MemFlags::WRITE_ONLY, MemFlags::READ_WRITE | MemFlags::READ_ONLY),
            (MemFlags::READ_ONLY, MemFlags::READ_WRITE | MemFlags::WRITE_ONLY),
            (MemFlags::HOST_WRITE_ONLY, MemFlags::HOST_READ_ONLY),
            (MemFlags::HOST_READ_ONLY, MemFlags::HOST_WRITE_ONLY),
            (MemFlags::HOST_NO_ACCESS, MemFlags::HOST_READ_ONLY | MemFlags::HOST_WRITE_ONLY),
        ];
        if refused.iter().any(|&(of, asked)| parent.contains(of) && self.intersects(asked)) {
            return Err(Status::InvalidValue.because(format!("{self:?} of a parent with {parent:?}")));
        }
        let inherit = |group| if self.intersects(group) { self & group } else { parent & group };
        Ok(inherit(Self::KERNEL_ACCESS) | inherit(Self::HOST_ACCESS) | parent & Self::HOST_MEMORY)
    }
}
