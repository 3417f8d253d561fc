//! The CPU device: what `clGetDeviceInfo` tells, found out from the machine once.

use crate::platform::Extension;

/// A CPU device.
#[derive(Debug)]
pub struct Device {
    /// What `clGetDeviceInfo` tells.
    pub info: DeviceInfo,
}

/// What `clGetDeviceInfo` tells (OpenCL 1.2, table 4.3). Sizes in bytes unless said otherwise. Constant facts that
/// the C API can state by itself (CL_DEVICE_TYPE_CPU, full profile, IEEE configuration) are not repeated here.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_DEVICE_VENDOR: the CPU's.
    pub vendor: String,
    /// CL_DEVICE_VENDOR_ID: PCI id of the CPU's vendor, or 0.
    pub vendor_id: u32,
    /// CL_DEVICE_MAX_COMPUTE_UNITS: CPUs in the affinity mask, bounded by the cgroup's quota.
    pub compute_units: u32,
    /// CL_DEVICE_MAX_CLOCK_FREQUENCY in MHz; 0 when unknown.
    pub max_clock_mhz: u32,
    /// CL_DEVICE_MAX_WORK_GROUP_SIZE, in work-items.
    pub max_work_group_size: usize,
    /// CL_DEVICE_MAX_WORK_ITEM_SIZES; three dimensions.
    pub max_work_item_sizes: [usize; 3],
    /// CL_DEVICE_PREFERRED_VECTOR_WIDTH_*: 1 for all types, as kernels are vectorized across work-items.
    pub preferred_vector_width: VectorWidths,
    /// CL_DEVICE_NATIVE_VECTOR_WIDTH_*.
    pub native_vector_width: VectorWidths,
    /// CL_DEVICE_GLOBAL_MEM_SIZE: the machine's or the cgroup's.
    pub global_mem_size: u64,
    /// CL_DEVICE_MAX_MEM_ALLOC_SIZE.
    pub max_mem_alloc_size: u64,
    /// CL_DEVICE_GLOBAL_MEM_CACHE_SIZE; type CL_READ_WRITE_CACHE.
    pub cache_size: u64,
    /// CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE.
    pub cache_line_size: u32,
    /// CL_DEVICE_LOCAL_MEM_SIZE; type CL_GLOBAL, as local memory is ordinary memory.
    pub local_mem_size: u64,
    /// CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE.
    pub max_constant_buffer_size: u64,
    /// CL_DEVICE_MAX_CONSTANT_ARGS.
    pub max_constant_args: u32,
    /// CL_DEVICE_MAX_PARAMETER_SIZE.
    pub max_parameter_size: usize,
    /// CL_DEVICE_MEM_BASE_ADDR_ALIGN in bits; CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE is an eighth of it.
    pub mem_base_addr_align_bits: u32,
    /// CL_DEVICE_ADDRESS_BITS.
    pub address_bits: u32,
    /// CL_DEVICE_PROFILING_TIMER_RESOLUTION in ns.
    pub profiling_timer_resolution: usize,
    /// CL_DEVICE_PRINTF_BUFFER_SIZE.
    pub printf_buffer_size: usize,
    /// CL_DEVICE_COMPILER_AVAILABLE: OpenCL C can be compiled.
    pub compiler_available: bool,
    /// CL_DEVICE_LINKER_AVAILABLE.
    pub linker_available: bool,
    /// CL_DEVICE_SPIR_VERSIONS, space separated.
    pub spir_versions: &'static str,
    /// CL_DEVICE_EXTENSIONS.
    pub extensions: &'static [Extension],
    /// Limits of images; None when the device has none (CL_DEVICE_IMAGE_SUPPORT).
    pub images: Option<ImageLimits>,
}

/// Widths in elements, of CL_DEVICE_{PREFERRED,NATIVE}_VECTOR_WIDTH_*; 0 for a missing type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct VectorWidths {
    pub char: u32,
    pub short: u32,
    pub int: u32,
    pub long: u32,
    pub half: u32,
    pub float: u32,
    pub double: u32,
}

/// CL_DEVICE_IMAGE*: largest sizes in texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// CL_DEVICE_IMAGE2D_MAX_WIDTH and _HEIGHT.
    pub max_2d: [usize; 2],
    /// CL_DEVICE_IMAGE3D_MAX_WIDTH, _HEIGHT and _DEPTH.
    pub max_3d: [usize; 3],
    /// CL_DEVICE_IMAGE_MAX_BUFFER_SIZE.
    pub max_buffer: usize,
    /// CL_DEVICE_IMAGE_MAX_ARRAY_SIZE.
    pub max_array: usize,
    /// CL_DEVICE_MAX_READ_IMAGE_ARGS.
    pub max_read_args: u32,
    /// CL_DEVICE_MAX_WRITE_IMAGE_ARGS.
    pub max_write_args: u32,
    /// CL_DEVICE_MAX_SAMPLERS.
    pub max_samplers: u32,
}

impl Device {
    /// Looks at the machine.
    pub(crate) fn detect() -> Device {
        todo!()
    }

    /// Nanoseconds of the monotonic clock that event profiling uses.
    pub fn timer() -> u64 {
        todo!()
    }
}
