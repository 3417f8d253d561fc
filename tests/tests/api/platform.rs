//! Platform, device and context: what they say of themselves, and the library's exports.

use crate::setup::{Setup, again, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, CL_DEVICE_SPIR_VERSIONS, Context, Device, NdRange, Object, Platform, Queue};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create, icd, refused};
use std::env;
use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

tests![
    strings,
    device_limits,
    compute_units,
    promised_extensions,
    queries_check_their_arguments,
    device_queries,
    contexts,
    context_errors,
    exports,
    clocks,
    what_is_missing_says_so,
];

const CL_PLATFORM_ICD_SUFFIX_KHR: cl_uint = 0x0920;

fn strings() -> Outcome {
    let (platform, device) = (Platform::only(), Device::first());
    assert_eq!(platform.info_string(CL_PLATFORM_PROFILE)?, "FULL_PROFILE");
    assert!(!platform.info_string(CL_PLATFORM_NAME)?.is_empty());
    assert!(!platform.info_string(CL_PLATFORM_VENDOR)?.is_empty());
    assert!(!platform.info_string(CL_PLATFORM_ICD_SUFFIX_KHR)?.is_empty());
    for version in [platform.info_string(CL_PLATFORM_VERSION)?, device.info_string(CL_DEVICE_VERSION)?] {
        let mut parts = version.splitn(3, ' ');
        assert_eq!(parts.next(), Some("OpenCL"), "{version:?}");
        assert!(parts.next().is_some_and(|v| v.split('.').count() == 2), "{version:?}");
        assert!(parts.next().is_some(), "{version:?} needs the space before the vendor's part");
    }
    // As Intel's runtime names its own: programs compare it.
    let is_intels = device.info::<u32>(CL_DEVICE_VENDOR_ID)? == 0x8086;
    assert_eq!(device.info_string(CL_DEVICE_VENDOR)? == "Intel(R) Corporation", is_intels);
    assert!(device.info_string(CL_DEVICE_OPENCL_C_VERSION)?.starts_with("OpenCL C "));
    assert!(platform.info_string(CL_PLATFORM_EXTENSIONS)?.split(' ').any(|e| e == "cl_khr_icd"));
    assert_eq!(device.info::<usize>(CL_DEVICE_PLATFORM)?, platform.raw() as usize);
    Ok(())
}

/// The full profile's minima (OpenCL 1.2, table 4.3).
fn device_limits() -> Outcome {
    let device = Device::first();
    assert_ne!(device.info::<u64>(CL_DEVICE_TYPE)? & CL_DEVICE_TYPE_CPU, 0);
    assert!(device.info::<u32>(CL_DEVICE_MAX_COMPUTE_UNITS)? >= 1);
    assert_eq!(device.info::<u32>(CL_DEVICE_ADDRESS_BITS)?, 64);
    assert_eq!(device.info::<u32>(CL_DEVICE_ENDIAN_LITTLE)?, CL_TRUE);
    assert!(device.info::<u32>(CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS)? >= 3);
    assert_eq!(device.info_list::<usize>(CL_DEVICE_MAX_WORK_ITEM_SIZES)?.len(), 3);
    assert!(device.info::<usize>(CL_DEVICE_MAX_WORK_GROUP_SIZE)? >= 256);
    assert!(device.info::<usize>(CL_DEVICE_MAX_PARAMETER_SIZE)? >= 1024);
    assert!(device.info::<u64>(CL_DEVICE_LOCAL_MEM_SIZE)? >= 32 << 10);
    assert!(device.info::<u64>(CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE)? >= 64 << 10);
    let (all, one) =
        (device.info::<u64>(CL_DEVICE_GLOBAL_MEM_SIZE)?, device.info::<u64>(CL_DEVICE_MAX_MEM_ALLOC_SIZE)?);
    assert!(one >= (all / 4).max(128 << 20) || one >= all / 4, "{one} of {all}");
    // sizeof(long16), in bits
    assert!(device.info::<u32>(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? >= 1024);
    assert_ne!(device.info::<u64>(CL_DEVICE_QUEUE_PROPERTIES)? & CL_QUEUE_PROFILING_ENABLE, 0);
    Ok(())
}

/// As many as SPIRULA_THREADS asks for, whatever the machine has; and all of them work.
fn compute_units() -> Outcome {
    const VARIABLE: &str = "SPIRULA_THREADS";
    let Some(asked) = env::var_os(VARIABLE) else {
        ["1", "3", "64"].into_iter().for_each(|count| again("platform::compute_units", VARIABLE, count));
        return Ok(());
    };
    let setup = Setup::new();
    let units = setup.device.info::<u32>(CL_DEVICE_MAX_COMPUTE_UNITS)?;
    assert_eq!(units.to_string(), asked.to_string_lossy());
    const ITEMS: usize = 1 << 20;
    let (from, to) = (vec![3_u8; ITEMS], vec![0_u8; ITEMS]);
    let buffers = [&from, &to].map(|data| Buffer::copy_of(&setup.context, data).expect("a buffer"));
    let kernel = setup.kernel("spir12/vadd.bc64", "copy_uchar");
    (0..2).try_for_each(|index| kernel.set_object(index, Some(&buffers[index as usize])))?;
    setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[1]))?;
    let mut got = to;
    setup.queue.read(&buffers[1], &mut got)?;
    assert_eq!(got.iter().position(|&byte| byte != 3), None);
    Ok(())
}

fn promised_extensions() -> Outcome {
    let device = Device::first();
    let versions = device.info_string(CL_DEVICE_SPIR_VERSIONS)?;
    assert_eq!(versions, "1.2 2.0");
    for extension in [
        "cl_khr_icd",
        "cl_khr_spir",
        "cl_khr_fp64",
        "cl_khr_byte_addressable_store",
        "cl_khr_global_int32_base_atomics",
        "cl_khr_global_int32_extended_atomics",
        "cl_khr_local_int32_base_atomics",
        "cl_khr_local_int32_extended_atomics",
        "cl_khr_int64_base_atomics",
        "cl_khr_int64_extended_atomics",
    ] {
        assert!(device.has_extension(extension), "{extension} is not reported");
    }
    assert_ne!(device.info::<u64>(CL_DEVICE_DOUBLE_FP_CONFIG)?, 0);
    Ok(())
}

fn queries_check_their_arguments() -> Outcome {
    let (platform, device) = (Platform::only().raw(), Device::first().raw());
    let mut size = 0;
    let mut small = [0u8; 1];
    let place = small.as_mut_ptr().cast();
    assert_eq!(
        status(call!(clGetPlatformInfo(platform, 0x1234_5678, 0, null_mut(), &mut size))),
        "CL_INVALID_VALUE"
    );
    assert_eq!(
        status(call!(clGetPlatformInfo(platform, CL_PLATFORM_NAME, 1, place, null_mut()))),
        "CL_INVALID_VALUE"
    );
    assert_eq!(
        status(call!(clGetDeviceInfo(device, 0x1234_5678, 0, null_mut(), &mut size))),
        "CL_INVALID_VALUE"
    );
    assert_eq!(
        status(call!(clGetDeviceInfo(device, CL_DEVICE_NAME, 1, place, null_mut()))),
        "CL_INVALID_VALUE"
    );
    assert_eq!(
        status(call!(clGetDeviceInfo(null_mut(), CL_DEVICE_NAME, 0, null_mut(), &mut size))),
        "CL_INVALID_DEVICE"
    );
    assert_eq!(small, [0], "nothing may be written where it does not fit");
    Ok(())
}

fn device_queries() -> Outcome {
    let platform = Platform::only().raw();
    let mut device = null_mut();
    let mut count = 0;
    let get = |kind, entries, devices, number| {
        status(call!(clGetDeviceIDs(platform, kind, entries, devices, number)))
    };
    assert_eq!(get(CL_DEVICE_TYPE_CPU, 1, &mut device, &mut count), "CL_SUCCESS");
    assert_eq!((device, count), (Device::first().raw(), 1));
    assert_eq!(get(CL_DEVICE_TYPE_DEFAULT, 1, &mut device, null_mut()), "CL_SUCCESS");
    assert_eq!(get(CL_DEVICE_TYPE_GPU, 1, &mut device, null_mut()), "CL_DEVICE_NOT_FOUND");
    let either = CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU;
    assert_eq!(get(either, 1, &mut device, null_mut()), "CL_SUCCESS");
    assert_eq!(get(0, 1, &mut device, null_mut()), "CL_INVALID_DEVICE_TYPE");
    assert_eq!(get(1 << 20, 1, &mut device, null_mut()), "CL_INVALID_DEVICE_TYPE");
    // CL_DEVICE_TYPE_ALL as an int, as TeaLeaf has it.
    assert_eq!(get(u64::MAX, 1, &mut device, &mut count), "CL_SUCCESS");
    assert_eq!((device, count), (Device::first().raw(), 1));
    assert_eq!(get(CL_DEVICE_TYPE_ALL, 0, &mut device, null_mut()), "CL_INVALID_VALUE");
    assert_eq!(get(CL_DEVICE_TYPE_ALL, 1, null_mut(), null_mut()), "CL_INVALID_VALUE");
    Ok(())
}

fn contexts() -> Outcome {
    let (platform, device) = (Platform::only().raw(), Device::first());
    let context = Context::new(device)?;
    assert_eq!(context.info::<u32>(CL_CONTEXT_REFERENCE_COUNT)?, 1);
    let second = context.clone();
    assert_eq!(context.info::<u32>(CL_CONTEXT_REFERENCE_COUNT)?, 2);
    drop(second);
    assert_eq!(context.info::<u32>(CL_CONTEXT_REFERENCE_COUNT)?, 1);
    assert_eq!(context.info::<u32>(CL_CONTEXT_NUM_DEVICES)?, 1);
    assert_eq!(context.info_list::<usize>(CL_CONTEXT_DEVICES)?, [device.raw() as usize]);

    let properties = [CL_CONTEXT_PLATFORM as isize, platform as isize, 0];
    let kind = CL_DEVICE_TYPE_CPU;
    let typed = create!(clCreateContextFromType(properties.as_ptr(), kind, None, null_mut()))?;
    assert_eq!(Context::from_raw(typed).info_list::<isize>(CL_CONTEXT_PROPERTIES)?, properties);
    let gpu = create!(clCreateContextFromType(properties.as_ptr(), CL_DEVICE_TYPE_GPU, None, null_mut()));
    assert_eq!(status(gpu), "CL_DEVICE_NOT_FOUND");
    Ok(())
}

/// Asked directly: a loader answers some of these by itself.
fn context_errors() -> Outcome {
    let (platform, device) = (Platform::only().raw(), Device::first().raw());
    let of = |properties: *const isize, count, devices: *const cl_device_id| {
        refused!(clCreateContext(properties, count, devices, None, null_mut()))
    };
    assert_eq!(of(null(), 0, &device), "CL_INVALID_VALUE");
    assert_eq!(of(null(), 1, null()), "CL_INVALID_VALUE");
    assert_eq!(of(null(), 1, &platform), "CL_INVALID_DEVICE");
    let with = |properties: &[isize]| of(properties.as_ptr(), 1, &device);
    let (name, own) = (CL_CONTEXT_PLATFORM as isize, platform.addr() as isize);
    assert_eq!(with(&[0x4321, 1, 0]), "CL_INVALID_PROPERTY");
    assert_eq!(with(&[name, own, name, own, 0]), "CL_INVALID_PROPERTY", "twice");
    assert_eq!(with(&[name, 0, 0]), "CL_INVALID_PLATFORM");
    assert_eq!(with(&[name, device.addr() as isize, 0]), "CL_INVALID_PLATFORM");
    Ok(())
}

/// What loaders look up by name: ocl-icd and Khronos's ask for these.
fn exports() -> Outcome {
    type GetAddress = unsafe extern "C" fn(*const c_char) -> *mut c_void;
    type GetPlatforms = unsafe extern "C" fn(cl_uint, *mut cl_platform_id, *mut cl_uint) -> cl_int;
    let _setup = Setup::new();
    // SAFETY: the library is loaded already; its initializers have run.
    let library = unsafe { libloading::Library::new(icd::library()?) }?;
    // SAFETY: the functions have these types (cl_khr_icd).
    unsafe {
        let address = library.get::<GetAddress>(b"clGetExtensionFunctionAddress")?;
        let platforms = library.get::<GetPlatforms>(b"clIcdGetPlatformIDsKHR")?;
        for name in [c"clIcdGetPlatformIDsKHR", c"clGetPlatformInfo"] {
            assert!(!address(name.as_ptr()).is_null(), "{name:?}");
        }
        let unknown: &CStr = c"clNoSuchFunctionSPIRULA";
        assert!(address(unknown.as_ptr()).is_null());
        let mut count = 0;
        assert_eq!(platforms(0, null_mut(), &mut count), CL_SUCCESS);
        assert_eq!(count, 1);
        let mut entry = null_mut();
        assert_eq!(platforms(0, null_mut(), null_mut()), CL_INVALID_VALUE);
        assert_eq!(platforms(0, &mut entry, null_mut()), CL_INVALID_VALUE);
    }
    Ok(())
}

/// Device and host have one clock.
fn clocks() -> Outcome {
    let (device, mut times) = (Device::first().raw(), [0; 4]);
    let [first, host, second, alone] = &mut times;
    call!(clGetDeviceAndHostTimer(device, first, host))?;
    call!(clGetHostTimer(device, alone))?;
    call!(clGetDeviceAndHostTimer(device, second, &mut 0))?;
    let [first, host, second, alone] = times;
    assert!(0 < first && first == host && host <= alone && alone <= second, "{times:?}");
    Ok(())
}

/// What is optional, and which the device says it has not.
fn what_is_missing_says_so() -> Outcome {
    let setup = Setup::new();
    let (context, device) = (setup.context.raw(), setup.device.raw());
    let queue = |name, value| {
        let properties = [cl_queue_properties::from(name), value, 0];
        create!(clCreateCommandQueueWithProperties(context, device, properties.as_ptr())).map(Queue::from_raw)
    };
    queue(CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE)?;
    assert_eq!(status(queue(CL_QUEUE_SIZE, 1024)), "CL_INVALID_VALUE", "of a host's queue");
    Ok(())
}
