//! The CPU device: what `clGetDeviceInfo` tells, found out from the machine once.

use super::extensions::{Extension, OPENCL_C_FEATURES, OPENCL_C_VERSIONS, SPIR_VERSIONS, extensions_of};
use crate::execute::output::buffer::Buffers;
use crate::execute::scheduler::Scheduler;
use crate::machine::affinity::{self, Cpus, Domain};
use crate::machine::{self, CpuInfo};
use crate::memory::pipe::MAX_PACKET_SIZE;
use crate::memory::raw::PAGE;
use crate::queue::on_device;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::enqueue::MAX_QUEUES;
use spirula_interface::program::MAX_PROGRAM_DATA;
use spirula_service::settings;
use std::sync::Arc;

/// A CPU device.
#[derive(Debug)]
pub struct Device {
    /// What `clGetDeviceInfo` tells.
    pub info: DeviceInfo,
    pub(crate) scheduler: Scheduler,
    pub(crate) output_buffers: Buffers,
    /// The CPUs that its threads run on, all that the process may use if they are not bound; empty when unknown.
    cpus: Cpus,
}

/// A part of a device, for [`Device::partition`].
#[derive(Clone, Debug)]
pub struct Part {
    compute_units: u32,
    /// What its threads are bound to; None for what the whole device's are.
    cpus: Option<Cpus>,
}

impl Part {
    /// So many of the device's compute units, anywhere.
    pub fn of_size(compute_units: u32) -> Part {
        Part { compute_units, cpus: None }
    }
}

/// What `clGetDeviceInfo` tells (OpenCL 1.2, table 4.3). Sizes in bytes unless said otherwise. Constant facts that
/// the C API can state by itself (CL_DEVICE_TYPE_CPU, full profile, IEEE configuration) are not repeated here.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_DEVICE_VENDOR: the CPU's, as that vendor's own runtime for it has the name.
    pub vendor: String,
    /// CL_DEVICE_VENDOR_ID: PCI id of the CPU's vendor, or 0.
    pub vendor_id: u32,
    /// CL_DEVICE_MAX_COMPUTE_UNITS: CPUs in the affinity mask, bounded by the cgroup's quota; or SPIRULA_THREADS.
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
    /// CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE and _PREFERRED_TOTAL_SIZE.
    pub max_global_variables: usize,
    /// CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE.
    pub max_constant_buffer_size: u64,
    /// CL_DEVICE_MAX_CONSTANT_ARGS.
    pub max_constant_args: u32,
    /// CL_DEVICE_MAX_PARAMETER_SIZE.
    pub max_parameter_size: usize,
    /// CL_DEVICE_MEM_BASE_ADDR_ALIGN in bits; CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE is an eighth of it.
    pub mem_base_addr_align_bits: u32,
    /// CL_DEVICE_ADDRESS_BITS.
    pub addresses: AddressBits,
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
    /// CL_DEVICE_OPENCL_C_ALL_VERSIONS.
    pub opencl_c_versions: &'static [Extension],
    /// CL_DEVICE_OPENCL_C_FEATURES.
    pub opencl_c_features: &'static [Extension],
    /// CL_DEVICE_UUID: the same for the same processor, and for nothing else.
    pub uuid: [u8; 16],
    /// Whether kernels run in processes of their own (`SPIRULA_ISOLATE`), which have no memory but what a context made.
    pub isolated: bool,
    /// Limits of pipes.
    pub pipes: PipeLimits,
    /// Limits of queues on the device.
    pub device_queues: DeviceQueueLimits,
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
    /// CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS.
    pub max_read_write_args: u32,
    /// CL_DEVICE_MAX_SAMPLERS.
    pub max_samplers: u32,
}

/// CL_DEVICE_*PIPE*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeLimits {
    /// CL_DEVICE_MAX_PIPE_ARGS.
    pub max_args: u32,
    /// CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS: of a work-item; more work as well.
    pub max_active_reservations: u32,
    /// CL_DEVICE_PIPE_MAX_PACKET_SIZE, in bytes.
    pub max_packet_size: u32,
}

/// CL_DEVICE_*ON_DEVICE*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceQueueLimits {
    /// CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, in bytes.
    pub preferred_size: u32,
    /// CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, in bytes.
    pub max_size: u32,
    /// CL_DEVICE_MAX_ON_DEVICE_QUEUES, of a context.
    pub max_queues: u32,
    /// CL_DEVICE_MAX_ON_DEVICE_EVENTS, of a context.
    pub max_events: u32,
}

/// CL_DEVICE_GLOBAL_MEM_SIZE of a device of 32 bits: what is left of 4 GiB is for what launches need themselves.
const LINEAR_MEM_SIZE: u64 = 3 << 30;
/// CL_DEVICE_MAX_MEM_ALLOC_SIZE of such a device: distances within have 31 bits, as code takes for granted.
const MAX_LINEAR_ALLOC_SIZE: u64 = 1 << 30;
/// CL_DEVICE_MAX_WORK_GROUP_SIZE.
pub(crate) const MAX_WORK_GROUP_SIZE: usize = 4096;
/// CL_DEVICE_LOCAL_MEM_SIZE: lies in the caches of one CPU.
const LOCAL_MEM_SIZE: u64 = 256 << 10;
/// Alignment of sub-buffers and of OpenCL's largest type, long16 (128 bytes).
const BASE_ALIGN_BITS: u32 = 1024;
/// CL_DEVICE_PRINTF_BUFFER_SIZE, in bytes of text, whose records may be longer.
const OUTPUT_TEXT_SIZE: usize = spirula_interface::printf::BUFFER_SIZE / 16;

impl Device {
    /// Looks at the machine.
    pub(crate) fn detect(addresses: AddressBits) -> Device {
        let cpu = CpuInfo::read();
        Device::new(DeviceInfo::detect(&cpu, machine::compute_units(), addresses), affinity::allowed(), None)
    }

    fn new(info: DeviceInfo, cpus: Cpus, bound: Option<Cpus>) -> Device {
        let scheduler = Scheduler::new(info.compute_units as usize, bound);
        Device { info, scheduler, output_buffers: Buffers::default(), cpus }
    }

    /// The parts that its CPUs have by this domain; None unless there are two at least.
    pub fn parts_by(&self, domain: Domain) -> Option<Vec<Part>> {
        // With fewer compute units than CPUs (a cgroup's quota, a part by count) or more (SPIRULA_THREADS), nobody can say
        // where they are.
        let known = self.cpus.len() == self.info.compute_units as usize;
        let parts = domain.part(&self.cpus).filter(|_| known)?;
        Some(
            parts
                .into_iter()
                .map(|cpus| Part { compute_units: cpus.len() as u32, cpus: Some(cpus) })
                .collect(),
        )
    }

    /// Makes parts of this device (clCreateSubDevices); the caller has checked that there is enough of it. They share
    /// everything but their threads.
    pub fn partition(&self, parts: &[Part]) -> Vec<Arc<Device>> {
        let make = |part: &Part| {
            let bound = part.cpus.as_ref().or(self.scheduler.bound()).cloned();
            let cpus = bound.clone().unwrap_or_else(|| self.cpus.clone());
            let info = DeviceInfo { compute_units: part.compute_units, ..self.info.clone() };
            Arc::new(Device::new(info, cpus, bound))
        };
        parts.iter().map(make).collect()
    }
}

/// CL_DRIVER_UUID: the same for the same version of Spirula.
pub fn driver_uuid() -> [u8; 16] {
    uuid(&["Spirula", env!("CARGO_PKG_VERSION")])
}

/// A UUID (version 8, RFC 9562) of a text.
fn uuid(parts: &[&str]) -> [u8; 16] {
    // FNV-1a, which stays the same from build to build.
    let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul((1 << 88) + 0x13b);
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let mut bytes = parts.join("\n").as_bytes().iter().fold(start, step).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// A vendor's name and PCI number from the name that its processors tell. Programs compare the name: OpenCV has its fast kernels for
/// "Intel(R) Corporation" alone, whose runtime for CPUs says so, while AMD's said what the processor does.
fn vendor(told: &str) -> (&str, u32) {
    match told {
        "GenuineIntel" => ("Intel(R) Corporation", 0x8086),
        "AuthenticAMD" => (told, 0x1022),
        other => (other, 0),
    }
}

impl DeviceInfo {
    /// Whether kernels have no memory but what a context made.
    pub fn is_confined(&self) -> bool {
        self.isolated || self.addresses.is_linear()
    }

    /// Whether the application's pointers mean the same to kernels: without it there is no shared virtual memory.
    pub fn shares_addresses(&self) -> bool {
        !self.addresses.is_linear()
    }

    /// Whether it has a feature of OpenCL C 3.0, by its name.
    pub fn has_feature(&self, name: &str) -> bool {
        self.opencl_c_features.iter().any(|feature| feature.name == name)
    }

    fn detect(cpu: &CpuInfo, compute_units: usize, addresses: AddressBits) -> DeviceInfo {
        let (cache_size, cache_line_size) = machine::cache(cpu);
        let memory = machine::memory_size();
        let (global_mem_size, max_mem_alloc_size, kind) = match addresses {
            AddressBits::Bits64 => (memory, (memory / 2).max(128 << 20), ""),
            AddressBits::Bits32 => {
                let memory = memory.min(LINEAR_MEM_SIZE);
                (memory, (memory / 2).clamp(128 << 20, MAX_LINEAR_ALLOC_SIZE), ", 32 bits")
            }
        };
        let page = PAGE as u64;
        let (vendor, vendor_id) = vendor(cpu.field("vendor_id").unwrap_or(std::env::consts::ARCH));
        let model = cpu.field("model name").unwrap_or(std::env::consts::ARCH);
        DeviceInfo {
            name: format!("{model} (Spirula{kind})"),
            vendor: vendor.to_string(),
            vendor_id,
            compute_units: compute_units as u32,
            max_clock_mhz: machine::max_clock_mhz(cpu),
            max_work_group_size: MAX_WORK_GROUP_SIZE,
            max_work_item_sizes: [MAX_WORK_GROUP_SIZE; 3],
            preferred_vector_width: VectorWidths::of_registers(0),
            native_vector_width: VectorWidths::of_registers(machine::vector_bytes()),
            global_mem_size,
            max_mem_alloc_size: max_mem_alloc_size / page * page,
            cache_size,
            cache_line_size,
            local_mem_size: LOCAL_MEM_SIZE,
            max_global_variables: MAX_PROGRAM_DATA as usize,
            max_constant_buffer_size: 128 << 10,
            max_constant_args: 128,
            max_parameter_size: 4096,
            mem_base_addr_align_bits: BASE_ALIGN_BITS,
            addresses,
            profiling_timer_resolution: 1,
            printf_buffer_size: OUTPUT_TEXT_SIZE,
            compiler_available: spirula_service::find_clang().is_some(),
            linker_available: true,
            spir_versions: SPIR_VERSIONS,
            extensions: extensions_of(addresses),
            opencl_c_versions: OPENCL_C_VERSIONS,
            opencl_c_features: OPENCL_C_FEATURES,
            uuid: uuid(&[vendor, model, kind][..if kind.is_empty() { 2 } else { 3 }]),
            isolated: settings::get().isolate,
            pipes: PipeLimits {
                max_args: 128,
                max_active_reservations: 256,
                max_packet_size: MAX_PACKET_SIZE,
            },
            device_queues: DeviceQueueLimits {
                preferred_size: on_device::PREFERRED_SIZE,
                max_size: on_device::MAX_SIZE,
                // One place is the default queue's: applications count it apart, as does Khronos's `device_queue`.
                max_queues: MAX_QUEUES as u32 - 1,
                max_events: on_device::MAX_EVENTS,
            },
            images: Some(ImageLimits {
                max_2d: [16384, 16384],
                max_3d: [2048, 2048, 2048],
                max_buffer: if addresses.is_linear() { 1 << 26 } else { 1 << 27 },
                max_array: 2048,
                max_read_args: 128,
                max_write_args: 64,
                max_read_write_args: 64,
                max_samplers: 32,
            }),
        }
    }
}

impl VectorWidths {
    /// Elements that a register of `bytes` holds, at least one.
    fn of_registers(bytes: u32) -> VectorWidths {
        let width = |element: u32| (bytes / element).clamp(1, 16);
        VectorWidths {
            char: width(1),
            short: width(2),
            int: width(4),
            long: width(8),
            half: width(2),
            float: width(4),
            double: width(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_reach_the_full_profiles_minimums() {
        let info = &Device::detect(AddressBits::Bits64).info;
        assert!(info.max_mem_alloc_size >= (info.global_mem_size / 4).max(128 << 20));
        assert!(info.local_mem_size >= 32 << 10 && info.max_constant_buffer_size >= 64 << 10);
        assert!(info.max_parameter_size >= 1024 && info.max_constant_args >= 8);
        let images = info.images.unwrap();
        assert!(images.max_2d[0] >= 8192 && images.max_3d[2] >= 2048 && images.max_buffer >= 65536);
        assert!(images.max_read_args >= 128 && images.max_write_args >= 8 && images.max_samplers >= 16);
        assert!(info.printf_buffer_size >= 1 << 20);
        assert!(info.compute_units >= 1 && !info.name.is_empty());
    }
}
