//! `cl_mem_flags` and `cl_map_flags`; the bits are OpenCL's.

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
