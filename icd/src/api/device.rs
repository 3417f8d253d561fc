//! `cl_device_id` (OpenCL 3.0, 4.2); `sub_device.rs` has what concerns parts of devices.

use crate::abi::{Handle, HostMut, Out};
use crate::api::command_buffer;
use crate::api::platform::{PLATFORM, Platform, names};
use crate::api::semaphore;
use crate::api::sub_device::{self, Partition};
use crate::api::usm;
use crate::error::{Status, fail_if};
use crate::handle::{ClObject, Link};
use crate::info::{self, Answer, Answered, query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::machine::timer;
use spirula_runtime::platform::Platform as CorePlatform;
use spirula_runtime::platform::device::{Device as Core, DeviceInfo, ImageLimits, driver_uuid};
use spirula_runtime::{SUB_GROUP_SIZES, spirv};
use std::ffi::{CString, c_void};
use std::sync::{Arc, LazyLock};

/// A `cl_device_id`.
pub struct Device {
    /// The device itself.
    pub core: Arc<Core>,
    /// How it was made of another; none for the platform's own devices.
    pub partition: Option<Partition>,
}

impl ClObject for Device {
    const NAME: &'static str = "cl_device_id";
    const INVALID: cl::cl_int = cl::CL_INVALID_DEVICE;
    fn context(&self) -> Option<Arc<CoreContext>> {
        None
    }
}

/// Which queues can be made.
const QUEUE_PROPERTIES: cl::cl_command_queue_properties =
    cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | cl::CL_QUEUE_PROFILING_ENABLE;
/// What a single-precision number can do. Denormals are kept, division and square root are rounded correctly.
const SINGLE_FP: cl::cl_device_fp_config = cl::CL_FP_DENORM
    | cl::CL_FP_INF_NAN
    | cl::CL_FP_ROUND_TO_NEAREST
    | cl::CL_FP_FMA
    | cl::CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
/// Operations are rounded to nearest.
const HALF_FP: cl::cl_device_fp_config =
    cl::CL_FP_DENORM | cl::CL_FP_INF_NAN | cl::CL_FP_ROUND_TO_NEAREST | cl::CL_FP_FMA;
/// What cl_khr_fp64 demands of a double-precision number.
const DOUBLE_FP: cl::cl_device_fp_config = cl::CL_FP_DENORM
    | cl::CL_FP_INF_NAN
    | cl::CL_FP_ROUND_TO_NEAREST
    | cl::CL_FP_ROUND_TO_ZERO
    | cl::CL_FP_ROUND_TO_INF
    | cl::CL_FP_FMA;

/// Shared virtual memory is what a CPU has anyway.
const SVM: cl::cl_device_svm_capabilities = cl::CL_DEVICE_SVM_COARSE_GRAIN_BUFFER
    | cl::CL_DEVICE_SVM_FINE_GRAIN_BUFFER
    | cl::CL_DEVICE_SVM_FINE_GRAIN_SYSTEM
    | cl::CL_DEVICE_SVM_ATOMICS;
/// One memory with coherent caches: what is atomic is so for all of the machine.
const ATOMIC_MEMORY: cl::cl_device_atomic_capabilities = cl::CL_DEVICE_ATOMIC_ORDER_RELAXED
    | cl::CL_DEVICE_ATOMIC_ORDER_ACQ_REL
    | cl::CL_DEVICE_ATOMIC_ORDER_SEQ_CST
    | cl::CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP
    | cl::CL_DEVICE_ATOMIC_SCOPE_DEVICE
    | cl::CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES;
/// As above, of fences.
const ATOMIC_FENCE: cl::cl_device_atomic_capabilities = ATOMIC_MEMORY | cl::CL_DEVICE_ATOMIC_SCOPE_WORK_ITEM;

/// Kernels can enqueue kernels, and the default queue for them can be another.
const ENQUEUE: cl::cl_device_device_enqueue_capabilities =
    cl::CL_DEVICE_QUEUE_SUPPORTED | cl::CL_DEVICE_QUEUE_REPLACEABLE_DEFAULT;

/// What cl_ext_float_atomics asks; no header that we use has it.
const SINGLE_FP_ATOMICS: cl::cl_device_info = 0x4231;
const DOUBLE_FP_ATOMICS: cl::cl_device_info = 0x4232;
const HALF_FP_ATOMICS: cl::cl_device_info = 0x4233;
/// cl_ext_float_atomics: loads and stores, sums, extremes, in global memory and, 16 bits up, in local memory.
const FLOAT_ATOMICS: cl::cl_bitfield = 0b111 | 0b111 << 16;
/// What cl_khr_spirv_queries asks: CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS_KHR, CL_DEVICE_SPIRV_EXTENSIONS_KHR and
/// CL_DEVICE_SPIRV_CAPABILITIES_KHR.
const SPIRV_INSTRUCTION_SETS: cl::cl_device_info = 0x12B9;
const SPIRV_EXTENSIONS: cl::cl_device_info = 0x12BA;
const SPIRV_CAPABILITIES: cl::cl_device_info = 0x12BB;

/// Names that live as long as the process, as the answers to these questions point to them.
static SPIRV_NAMES: LazyLock<[Vec<CString>; 2]> = LazyLock::new(|| {
    [spirv::INSTRUCTION_SETS, spirv::EXTENSIONS]
        .map(|list| list.iter().filter_map(|&name| CString::new(name).ok()).collect())
});

/// The addresses of the names.
fn spirv_names(list: usize) -> Vec<usize> {
    SPIRV_NAMES[list].iter().map(|name| name.as_ptr().addr()).collect()
}

/// Limits that a device without images reports.
const NO_IMAGES: ImageLimits = ImageLimits {
    max_2d: [0; 2],
    max_3d: [0; 3],
    max_buffer: 0,
    max_array: 0,
    max_read_args: 0,
    max_write_args: 0,
    max_read_write_args: 0,
    max_samplers: 0,
};

/// The platform's devices of a type. Errors: CL_INVALID_DEVICE_TYPE, CL_DEVICE_NOT_FOUND.
pub fn of_type(device_type: cl::cl_device_type) -> Status<&'static [Link<Device>]> {
    const KNOWN: cl::cl_device_type = cl::CL_DEVICE_TYPE_DEFAULT
        | cl::CL_DEVICE_TYPE_CPU
        | cl::CL_DEVICE_TYPE_GPU
        | cl::CL_DEVICE_TYPE_ACCELERATOR
        | cl::CL_DEVICE_TYPE_CUSTOM;
    // (Other bits beside those: programs hand an int on that was CL_DEVICE_TYPE_ALL, whose sign fills the upper half.)
    fail_if(device_type & KNOWN == 0, cl::CL_INVALID_DEVICE_TYPE, "device_type is not a valid value")?;
    let cpu = device_type & (cl::CL_DEVICE_TYPE_DEFAULT | cl::CL_DEVICE_TYPE_CPU);
    fail_if(cpu == 0, cl::CL_DEVICE_NOT_FOUND, "all devices are CPUs")?;
    // The default device is one.
    let is_default_only = cpu == cl::CL_DEVICE_TYPE_DEFAULT;
    Ok(if is_default_only { &PLATFORM.devices[..1] } else { &PLATFORM.devices })
}

/// clGetDeviceIDs.
pub fn get_ids(
    platform: Handle<Platform>,
    device_type: cl::cl_device_type,
    num_entries: u32,
    devices: Out<*mut c_void>,
    num_devices: Out<u32>,
) -> Status {
    Platform::named(&platform)?;
    let found: Vec<_> = of_type(device_type)?.iter().map(Link::handle).collect();
    // CL_INVALID_VALUE if num_entries is equal to zero and devices is not NULL or if both num_devices and devices are
    // NULL.
    info::list_or_count(&found, num_entries, &devices, &num_devices)
}

/// clGetDeviceInfo.
pub fn get_info(
    device: Handle<Device>,
    param_name: cl::cl_device_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let device = device.get()?;
    let info = &device.core.info;
    let (native, preferred) = (&info.native_vector_width, &info.preferred_vector_width);
    let images = info.images.unwrap_or(NO_IMAGES);
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_DEVICE_TYPE => answer.value(cl::CL_DEVICE_TYPE_CPU),
        cl::CL_DEVICE_VENDOR_ID => answer.value(info.vendor_id),
        cl::CL_DEVICE_MAX_COMPUTE_UNITS => answer.value(info.compute_units),
        cl::CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS => answer.value(3_u32),
        cl::CL_DEVICE_MAX_WORK_ITEM_SIZES => answer.value(info.max_work_item_sizes),
        cl::CL_DEVICE_MAX_WORK_GROUP_SIZE => answer.value(info.max_work_group_size),
        cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR => answer.value(preferred.char),
        cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT => answer.value(preferred.short),
        cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT => answer.value(preferred.int),
        cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG => answer.value(preferred.long),
        cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF => answer.value(preferred.half),
        cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT => answer.value(preferred.float),
        cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE => answer.value(preferred.double),
        cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR => answer.value(native.char),
        cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT => answer.value(native.short),
        cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_INT => answer.value(native.int),
        cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG => answer.value(native.long),
        cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF => answer.value(native.half),
        cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT => answer.value(native.float),
        cl::CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE => answer.value(native.double),
        cl::CL_DEVICE_MAX_CLOCK_FREQUENCY => answer.value(info.max_clock_mhz),
        cl::CL_DEVICE_ADDRESS_BITS => answer.value(info.addresses.number()),
        cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE => answer.value(info.max_mem_alloc_size),
        cl::CL_DEVICE_IMAGE_SUPPORT => answer.flag(info.images.is_some()),
        cl::CL_DEVICE_MAX_READ_IMAGE_ARGS => answer.value(images.max_read_args),
        cl::CL_DEVICE_MAX_WRITE_IMAGE_ARGS => answer.value(images.max_write_args),
        cl::CL_DEVICE_IMAGE2D_MAX_WIDTH => answer.value(images.max_2d[0]),
        cl::CL_DEVICE_IMAGE2D_MAX_HEIGHT => answer.value(images.max_2d[1]),
        cl::CL_DEVICE_IMAGE3D_MAX_WIDTH => answer.value(images.max_3d[0]),
        cl::CL_DEVICE_IMAGE3D_MAX_HEIGHT => answer.value(images.max_3d[1]),
        cl::CL_DEVICE_IMAGE3D_MAX_DEPTH => answer.value(images.max_3d[2]),
        cl::CL_DEVICE_IMAGE_MAX_BUFFER_SIZE => answer.value(images.max_buffer),
        cl::CL_DEVICE_IMAGE_MAX_ARRAY_SIZE => answer.value(images.max_array),
        cl::CL_DEVICE_MAX_SAMPLERS => answer.value(images.max_samplers),
        cl::CL_DEVICE_MAX_PARAMETER_SIZE => answer.value(info.max_parameter_size),
        cl::CL_DEVICE_MEM_BASE_ADDR_ALIGN => answer.value(info.mem_base_addr_align_bits),
        cl::CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE => answer.value(info.mem_base_addr_align_bits / 8),
        cl::CL_DEVICE_SINGLE_FP_CONFIG => answer.value(SINGLE_FP),
        cl::CL_DEVICE_DOUBLE_FP_CONFIG => answer.value(DOUBLE_FP),
        cl::CL_DEVICE_HALF_FP_CONFIG => answer.value(HALF_FP),
        cl::CL_DEVICE_GLOBAL_MEM_CACHE_TYPE => answer.value(cl::CL_READ_WRITE_CACHE),
        cl::CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE => answer.value(info.cache_line_size),
        cl::CL_DEVICE_GLOBAL_MEM_CACHE_SIZE => answer.value(info.cache_size),
        cl::CL_DEVICE_GLOBAL_MEM_SIZE => answer.value(info.global_mem_size),
        cl::CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE => answer.value(info.max_constant_buffer_size),
        cl::CL_DEVICE_MAX_CONSTANT_ARGS => answer.value(info.max_constant_args),
        cl::CL_DEVICE_LOCAL_MEM_TYPE => answer.value(cl::CL_GLOBAL),
        cl::CL_DEVICE_LOCAL_MEM_SIZE => answer.value(info.local_mem_size),
        cl::CL_DEVICE_ERROR_CORRECTION_SUPPORT => answer.flag(false),
        cl::CL_DEVICE_HOST_UNIFIED_MEMORY => answer.flag(true),
        cl::CL_DEVICE_PROFILING_TIMER_RESOLUTION => answer.value(info.profiling_timer_resolution),
        cl::CL_DEVICE_ENDIAN_LITTLE => answer.flag(cfg!(target_endian = "little")),
        cl::CL_DEVICE_AVAILABLE => answer.flag(true),
        cl::CL_DEVICE_COMPILER_AVAILABLE => answer.flag(info.compiler_available),
        cl::CL_DEVICE_LINKER_AVAILABLE => answer.flag(info.linker_available),
        cl::CL_DEVICE_EXECUTION_CAPABILITIES if info.is_confined() => answer.value(cl::CL_EXEC_KERNEL),
        cl::CL_DEVICE_EXECUTION_CAPABILITIES => answer.value(cl::CL_EXEC_KERNEL | cl::CL_EXEC_NATIVE_KERNEL),
        cl::CL_DEVICE_QUEUE_PROPERTIES => answer.value(QUEUE_PROPERTIES),
        cl::CL_DEVICE_BUILT_IN_KERNELS => answer.text(""),
        cl::CL_DEVICE_PLATFORM => answer.object(&PLATFORM),
        cl::CL_DEVICE_NAME => answer.text(&info.name),
        cl::CL_DEVICE_VENDOR => answer.text(&info.vendor),
        cl::CL_DRIVER_VERSION => answer.text(CorePlatform::DRIVER_VERSION),
        cl::CL_DEVICE_PROFILE => answer.text("FULL_PROFILE"),
        cl::CL_DEVICE_VERSION => answer.text(CorePlatform::VERSION),
        cl::CL_DEVICE_OPENCL_C_VERSION => answer.text("OpenCL C 1.2 Spirula"),
        cl::CL_DEVICE_EXTENSIONS => answer.text(&names(info.extensions)),
        cl::CL_DEVICE_SPIR_VERSIONS => answer.text(info.spir_versions),
        cl::CL_DEVICE_PRINTF_BUFFER_SIZE => answer.value(info.printf_buffer_size),
        cl::CL_DEVICE_PREFERRED_INTEROP_USER_SYNC => answer.flag(true),
        _ if sub_device::PARAMETERS.contains(&param_name) => sub_device::info(&device, param_name, answer),
        _ => newer_info(info, param_name, answer),
    })
}

/// What OpenCL 2.0 to 3.0 (table 5), cl_khr_device_uuid and cl_khr_extended_versioning added. What isn't there answers as 3.0
/// says of devices without it.
fn newer_info(info: &DeviceInfo, param_name: cl::cl_device_info, answer: Answer) -> Status<Answered> {
    match param_name {
        cl::CL_DEVICE_NUMERIC_VERSION => answer.version(CorePlatform::NUMERIC_VERSION),
        cl::CL_DEVICE_EXTENSIONS_WITH_VERSION => answer.versions(info.extensions),
        cl::CL_DEVICE_OPENCL_C_NUMERIC_VERSION_KHR => answer.version([1, 2, 0]),
        cl::CL_DEVICE_OPENCL_C_ALL_VERSIONS => answer.versions(info.opencl_c_versions),
        cl::CL_DEVICE_OPENCL_C_FEATURES => answer.versions(info.opencl_c_features),
        // None; a month and a day are never zero.
        cl::CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED => answer.text("v0000-01-01-00"),
        cl::CL_DEVICE_SVM_CAPABILITIES if !info.shares_addresses() => answer.value(0 as cl::cl_bitfield),
        // Memory that the system gave is not the executor's.
        cl::CL_DEVICE_SVM_CAPABILITIES if info.is_confined() => {
            answer.value(SVM & !cl::CL_DEVICE_SVM_FINE_GRAIN_SYSTEM)
        }
        cl::CL_DEVICE_SVM_CAPABILITIES => answer.value(SVM),
        cl::CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES => answer.value(ATOMIC_MEMORY),
        cl::CL_DEVICE_ATOMIC_FENCE_CAPABILITIES => answer.value(ATOMIC_FENCE),
        cl::CL_DEVICE_PREFERRED_PLATFORM_ATOMIC_ALIGNMENT
        | cl::CL_DEVICE_PREFERRED_GLOBAL_ATOMIC_ALIGNMENT
        // "A value of 0 … aligned to the natural size of the type."
        | cl::CL_DEVICE_PREFERRED_LOCAL_ATOMIC_ALIGNMENT => answer.value(0_u32),
        cl::CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE => {
            answer.value(info.native_vector_width.float as usize)
        }
        cl::CL_DEVICE_UUID => answer.list(&info.uuid),
        cl::CL_DRIVER_UUID => answer.list(&driver_uuid()),
        cl::CL_DEVICE_LUID_VALID => answer.flag(false),
        cl::CL_DEVICE_LUID => answer.list(&[0_u8; cl::CL_LUID_SIZE as usize]),
        cl::CL_DEVICE_NODE_MASK => answer.value(0_u32),
        // SPIR is none of them, but a binary.
        cl::CL_DEVICE_IL_VERSION => answer.text(spirv::VERSION_NAMES),
        cl::CL_DEVICE_ILS_WITH_VERSION => answer.versions(spirv::VERSIONS),
        SPIRV_INSTRUCTION_SETS => answer.list(&spirv_names(0)),
        SPIRV_EXTENSIONS => answer.list(&spirv_names(1)),
        SPIRV_CAPABILITIES => answer.list(&spirv::CAPABILITIES.iter().map(|row| row.0).collect::<Vec<_>>()),
        cl::CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION => answer.versions(&[]),
        cl::CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS => {
            answer.value(info.images.map_or(0, |images| images.max_read_write_args))
        }
        // 2-D images from buffers, in texels: any place will do.
        cl::CL_DEVICE_IMAGE_PITCH_ALIGNMENT | cl::CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT => {
            answer.value(u32::from(info.images.is_some()))
        }
        // One may be as large as all of a program's.
        cl::CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE | cl::CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE => {
            answer.value(info.max_global_variables)
        }
        cl::CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES => answer.value(QUEUE_PROPERTIES),
        cl::CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES => answer.value(ENQUEUE),
        cl::CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE => answer.value(info.device_queues.preferred_size),
        cl::CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE => answer.value(info.device_queues.max_size),
        cl::CL_DEVICE_MAX_ON_DEVICE_QUEUES => answer.value(info.device_queues.max_queues),
        cl::CL_DEVICE_MAX_ON_DEVICE_EVENTS => answer.value(info.device_queues.max_events),
        cl::CL_DEVICE_PIPE_SUPPORT => answer.flag(true),
        cl::CL_DEVICE_MAX_PIPE_ARGS => answer.value(info.pipes.max_args),
        cl::CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS => answer.value(info.pipes.max_active_reservations),
        cl::CL_DEVICE_PIPE_MAX_PACKET_SIZE => answer.value(info.pipes.max_packet_size),
        cl::CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT => answer.flag(true),
        // Each work-item may be one, where rows end within packs.
        cl::CL_DEVICE_MAX_NUM_SUB_GROUPS => answer.value(info.max_work_group_size as u32),
        cl::CL_DEVICE_SUB_GROUP_SIZES_INTEL => answer.list(&SUB_GROUP_SIZES.map(|size| size as usize)),
        // Sub-groups run one after the other.
        cl::CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS => answer.flag(false),
        cl::CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT => {
            answer.flag(info.has_feature("__opencl_c_work_group_collective_functions"))
        }
        cl::CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT => {
            answer.flag(info.has_feature("__opencl_c_generic_address_space"))
        }
        _ => extension_info(info, param_name, answer),
    }
}

/// What extensions added: cl_khr_command_buffer, cl_khr_semaphore, cl_khr_integer_dot_product, cl_ext_float_atomics and cl_intel_unified_shared_memory.
fn extension_info(info: &DeviceInfo, param_name: cl::cl_device_info, answer: Answer) -> Status<Answered> {
    match param_name {
        cl::CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR => answer.value(command_buffer::CAPABILITIES),
        cl::CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR => answer.value(QUEUE_PROPERTIES),
        cl::CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR => answer.value(0 as cl::cl_bitfield),
        cl::CL_DEVICE_SEMAPHORE_TYPES_KHR => answer.list(&semaphore::TYPES),
        cl::CL_DEVICE_INTEGER_DOT_PRODUCT_CAPABILITIES_KHR => answer.value(
            cl::CL_DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT_PACKED_KHR
                | cl::CL_DEVICE_INTEGER_DOT_PRODUCT_INPUT_4x8BIT_KHR,
        ),
        // No operand's signs are quicker than others by an instruction of their own: six `cl_bool`.
        cl::CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_8BIT_KHR
        | cl::CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED_KHR => {
            answer.value([cl::CL_FALSE; 6])
        }
        SINGLE_FP_ATOMICS | DOUBLE_FP_ATOMICS => answer.value(FLOAT_ATOMICS),
        cl::CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL if info.is_confined() => {
            answer.value(0 as cl::cl_bitfield)
        }
        cl::CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL
        | cl::CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL
        | cl::CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
        | cl::CL_DEVICE_CROSS_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
            if !info.shares_addresses() =>
        {
            answer.value(0 as cl::cl_bitfield)
        }
        cl::CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL
        | cl::CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL
        | cl::CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
        | cl::CL_DEVICE_CROSS_DEVICE_SHARED_MEM_CAPABILITIES_INTEL
        | cl::CL_DEVICE_SHARED_SYSTEM_MEM_CAPABILITIES_INTEL => answer.value(usm::EVERY_ACCESS),
        HALF_FP_ATOMICS => answer.value(0 as cl::cl_bitfield),
        _ => unknown(param_name),
    }
}

/// clGetDeviceAndHostTimer (OpenCL 2.1): device and host have one clock.
pub fn device_and_host_timer(
    device: Handle<Device>,
    device_timestamp: Out<u64>,
    host_timestamp: Out<u64>,
) -> Status {
    device.get()?;
    let nowhere = device_timestamp.is_null() || host_timestamp.is_null();
    fail_if(nowhere, cl::CL_INVALID_VALUE, "device_timestamp or host_timestamp is NULL")?;
    let now = timer();
    device_timestamp.write(now);
    host_timestamp.write(now);
    Ok(())
}

/// clGetHostTimer (OpenCL 2.1).
pub fn host_timer(device: Handle<Device>, host_timestamp: Out<u64>) -> Status {
    device.get()?;
    fail_if(host_timestamp.is_null(), cl::CL_INVALID_VALUE, "host_timestamp is NULL")?;
    host_timestamp.write(timer());
    Ok(())
}
