//! Parts of devices (OpenCL 3.0, 4.3): so many of its compute units, or those that share something. Each has its own threads.

use crate::abi::{Handle, In, Out};
use crate::api::device::Device;
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{Link, NewHandle, Ref};
use crate::info::{Answer, Answered, unknown};
use opencl_sys as cl;
use spirula_runtime::machine::affinity::Domain;
use spirula_runtime::platform::device::Part;
use std::ffi::c_void;

/// How a device was made of another.
pub struct Partition {
    /// CL_DEVICE_PARENT_DEVICE.
    parent: Link<Device>,
    /// CL_DEVICE_PARTITION_TYPE: clCreateSubDevices' properties with the closing zero.
    properties: Vec<cl::cl_device_partition_property>,
}

impl Device {
    /// What it is a part of.
    pub fn parent(&self) -> Option<&Link<Device>> {
        self.partition.as_ref().map(|partition| &partition.parent)
    }
}

/// What [`info`] answers.
pub const PARAMETERS: [cl::cl_device_info; 6] = [
    cl::CL_DEVICE_PARENT_DEVICE,
    cl::CL_DEVICE_PARTITION_MAX_SUB_DEVICES,
    cl::CL_DEVICE_PARTITION_PROPERTIES,
    cl::CL_DEVICE_PARTITION_AFFINITY_DOMAIN,
    cl::CL_DEVICE_PARTITION_TYPE,
    cl::CL_DEVICE_REFERENCE_COUNT,
];

/// clGetDeviceInfo of [`PARAMETERS`].
pub fn info(device: &Ref<Device>, param_name: cl::cl_device_info, answer: Answer) -> Status<Answered> {
    let partition = device.partition.as_ref();
    let compute_units = device.core.info.compute_units;
    match param_name {
        cl::CL_DEVICE_PARENT_DEVICE => answer.optional(partition.map(|partition| &partition.parent)),
        cl::CL_DEVICE_PARTITION_MAX_SUB_DEVICES => answer.value(compute_units),
        // "If the device cannot be partitioned …, a value of 0 will be returned."
        cl::CL_DEVICE_PARTITION_PROPERTIES if compute_units == 1 => {
            answer.value::<cl::cl_device_partition_property>(0)
        }
        cl::CL_DEVICE_PARTITION_PROPERTIES => {
            let by_affinity =
                Some(cl::CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN).filter(|_| domains(device) != 0);
            let always = [cl::CL_DEVICE_PARTITION_EQUALLY, cl::CL_DEVICE_PARTITION_BY_COUNTS];
            answer.list(&always.into_iter().chain(by_affinity).collect::<Vec<_>>())
        }
        // "If the device does not support any affinity domains, a value of 0 will be returned."
        cl::CL_DEVICE_PARTITION_AFFINITY_DOMAIN => answer.value(domains(device)),
        cl::CL_DEVICE_PARTITION_TYPE => match partition {
            Some(partition) => answer.list(&partition.properties),
            None => answer.value::<cl::cl_device_partition_property>(0),
        },
        // "If the device is a root-level device, a reference count of one is returned."
        cl::CL_DEVICE_REFERENCE_COUNT => {
            answer.value(if partition.is_some() { device.reference_count() } else { 1 })
        }
        _ => unknown(param_name),
    }
}

/// The bits of the domains, from the largest to the smallest.
const DOMAINS: [(cl::cl_device_affinity_domain, Domain); 5] = [
    (cl::CL_DEVICE_AFFINITY_DOMAIN_NUMA, Domain::Numa),
    (cl::CL_DEVICE_AFFINITY_DOMAIN_L4_CACHE, Domain::L4Cache),
    (cl::CL_DEVICE_AFFINITY_DOMAIN_L3_CACHE, Domain::L3Cache),
    (cl::CL_DEVICE_AFFINITY_DOMAIN_L2_CACHE, Domain::L2Cache),
    (cl::CL_DEVICE_AFFINITY_DOMAIN_L1_CACHE, Domain::L1Cache),
];

/// CL_DEVICE_PARTITION_AFFINITY_DOMAIN: the domains that the device has several of.
fn domains(device: &Device) -> cl::cl_device_affinity_domain {
    let several = DOMAINS.iter().filter(|(_, domain)| device.core.parts_by(*domain).is_some());
    let bits = several.fold(0, |bits, (bit, _)| bits | bit);
    if bits == 0 { 0 } else { bits | cl::CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE }
}

/// The domain that a bit names, the first possible one for NEXT_PARTITIONABLE, as its bit; and the device's parts by it.
fn parts_by(
    device: &Device,
    asked: cl::cl_device_affinity_domain,
) -> Option<(cl::cl_device_affinity_domain, Vec<Part>)> {
    let next = asked == cl::CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE;
    let mut named = DOMAINS.iter().filter(|(bit, _)| next || *bit == asked);
    named.find_map(|&(bit, domain)| Some((bit, device.core.parts_by(domain)?)))
}

/// The properties as CL_DEVICE_PARTITION_TYPE tells them, and the parts that they ask for.
type Request = (Vec<cl::cl_device_partition_property>, Vec<Part>);

/// What `properties` ask of a device.
fn request(properties: &In<cl::cl_device_partition_property>, device: &Device) -> Status<Request> {
    let compute_units = device.core.info.compute_units;
    fail_if(properties.is_null(), cl::CL_INVALID_VALUE, "properties is NULL")?;
    fail_if(compute_units == 1, cl::CL_INVALID_VALUE, "a device of one compute unit has no parts")?;
    match properties.get() {
        Some(cl::CL_DEVICE_PARTITION_EQUALLY) => {
            let list = properties.list(3).unwrap_or_default();
            check_end(&list)?;
            let Ok(each @ 1..) = u32::try_from(list[1]) else {
                return fail(cl::CL_INVALID_VALUE, format!("parts of {} compute units", list[1]));
            };
            fail_if(
                each > compute_units,
                cl::CL_INVALID_DEVICE_PARTITION_COUNT,
                "more compute units in a part than CL_DEVICE_MAX_COMPUTE_UNITS",
            )?;
            // CL_DEVICE_PARTITION_FAILED if the partition name is supported by the implementation but in_device could not be
            // further partitioned.
            let whole = each > compute_units / 2;
            fail_if(whole, cl::CL_DEVICE_PARTITION_FAILED, "there would be fewer than two parts")?;
            Ok((list, vec![Part::of_size(each); (compute_units / each) as usize]))
        }
        Some(cl::CL_DEVICE_PARTITION_BY_COUNTS) => {
            let counts = properties.rest_until_zero(1);
            // CL_INVALID_DEVICE_PARTITION_COUNT if … the number of sub-devices requested exceeds
            // CL_DEVICE_PARTITION_MAX_SUB_DEVICES or the total number of compute units requested exceeds
            // CL_DEVICE_MAX_COMPUTE_UNITS, or the number of compute units requested for one or more sub-devices is less than
            // zero.
            let valid = |&count: &isize| (1..=compute_units as isize).contains(&count);
            let fits = !counts.is_empty()
                && counts.len() <= compute_units as usize
                && counts.iter().all(valid)
                && counts.iter().sum::<isize>() <= compute_units as isize;
            if !fits {
                let detail = format!("parts of {counts:?} compute units, where there are {compute_units}");
                return fail(cl::CL_INVALID_DEVICE_PARTITION_COUNT, detail);
            }
            // The list's own end, and the properties'.
            let list = [&[cl::CL_DEVICE_PARTITION_BY_COUNTS], &*counts, &[0, 0]].concat();
            Ok((list, counts.into_iter().map(|count| Part::of_size(count as u32)).collect()))
        }
        Some(cl::CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN) => {
            let list = properties.list(3).unwrap_or_default();
            check_end(&list)?;
            let parts = u64::try_from(list[1]).ok().and_then(|asked| parts_by(device, asked));
            let (bit, parts) =
                parts.or_fail(cl::CL_INVALID_VALUE, "the device has no two parts by this affinity domain")?;
            // "The user may determine what happened": which domain the next partitionable one was.
            Ok((vec![list[0], bit as cl::cl_device_partition_property, 0], parts))
        }
        name => fail(cl::CL_INVALID_VALUE, format!("{name:x?} is no way to part a device")),
    }
}

/// A way to part a device, and its one value, must be all that is asked for.
fn check_end(list: &[cl::cl_device_partition_property]) -> Status {
    fail_if(list[2] != 0, cl::CL_INVALID_VALUE, "the properties do not end behind the first one's value")
}

/// clCreateSubDevices.
pub fn create_sub_devices(
    in_device: Handle<Device>,
    properties: In<cl::cl_device_partition_property>,
    num_devices: u32,
    out_devices: Out<*mut c_void>,
    num_devices_ret: Out<u32>,
) -> Status {
    let device = in_device.get()?;
    let (properties, parts) = request(&properties, &device)?;
    let room = out_devices.is_null() || num_devices as usize >= parts.len();
    fail_if(!room, cl::CL_INVALID_VALUE, "num_devices is less than the number of sub-devices")?;
    num_devices_ret.write(parts.len() as u32);
    if out_devices.is_null() {
        return Ok(());
    }
    let mut made = Vec::new();
    for core in device.core.partition(&parts) {
        let partition = Some(Partition { parent: device.link()?, properties: properties.clone() });
        made.push(NewHandle::new(Device { core, partition }));
    }
    out_devices.write_list(&made.into_iter().map(NewHandle::into_raw).collect::<Vec<_>>());
    Ok(())
}

/// clCreateSubDevicesEXT: cl_ext_device_fission is not reported.
pub fn create_sub_devices_ext(
    in_device: Handle<Device>,
    _properties: In<u64>,
    _num_entries: u32,
    _out_devices: Out<*mut c_void>,
    _num_devices: Out<u32>,
) -> Status {
    in_device.get()?;
    fail(cl::CL_INVALID_VALUE, "cl_ext_device_fission is not supported: clCreateSubDevices is")
}

/// clRetainDevice, clRetainDeviceEXT: "if device is a root level device …, the device reference count remains unchanged".
pub fn retain(device: Handle<Device>) -> Status {
    let device = device.get()?;
    if device.partition.is_some() { device.retain() } else { Ok(()) }
}

/// clReleaseDevice, clReleaseDeviceEXT: as above.
pub fn release(device: Handle<Device>) -> Status {
    let device = device.get()?;
    if device.partition.is_some() { device.release() } else { Ok(()) }
}
