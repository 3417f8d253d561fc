//! `cl_kernel` (OpenCL 1.2, 5.7).

use crate::abi::{Handle, HostConst, HostMut, Out, Text};
use crate::api::device::Device;
use crate::api::memory::Mem;
use crate::api::program::Program;
use crate::api::queue::Queue;
use crate::api::sampler::Sampler;
use crate::api::svm;
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::kernel::{ArgumentValue, Kernel as Core};
use spirula_runtime::platform::device::Device as CoreDevice;
use spirula_runtime::{AccessQualifier, AddressQualifier, ArgumentKind, TypeQualifiers};
use std::ffi::c_void;
use std::sync::Arc;

/// A `cl_kernel`.
pub struct Kernel {
    /// For each kind of devices that its program was built for.
    cores: Vec<Arc<Core>>,
    /// CL_KERNEL_PROGRAM.
    pub program: Link<Program>,
}

impl ClObject for Kernel {
    const NAME: &'static str = "cl_kernel";
    const INVALID: cl::cl_int = cl::CL_INVALID_KERNEL;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core().program.context.clone())
    }
}

impl Kernel {
    /// The kernel of that name of each executable. CL_INVALID_KERNEL_NAME, CL_INVALID_PROGRAM_EXECUTABLE,
    /// CL_INVALID_KERNEL_DEFINITION if devices have different ones.
    fn named(program: &Ref<Program>, name: &str) -> Status<Kernel> {
        let (mut cores, mut why): (Vec<Arc<Core>>, _) = (Vec::new(), None);
        for part in program.cores() {
            match Core::new(part, name) {
                Ok(core) => cores.push(core),
                // That there is an executable without it tells more than that there is none.
                Err(error) if why.is_none() || part.kernel_names().is_ok() => why = Some(error),
                Err(_) => {}
            }
        }
        if let (true, Some(why)) = (cores.is_empty(), why) {
            return Err(why.into());
        }
        let kinds = |core: &Arc<Core>| -> Vec<ArgumentKind> {
            core.info.signature.arguments.iter().map(|argument| argument.kind).collect()
        };
        let differ = cores.iter().any(|core| kinds(core) != kinds(&cores[0]));
        fail_if(
            differ,
            cl::CL_INVALID_KERNEL_DEFINITION,
            "the program's devices have kernels of that name with different arguments",
        )?;
        Ok(Kernel { cores, program: program.link()? })
    }

    /// The first of the kernels that it is: they are called the same, and take the same arguments.
    pub fn core(&self) -> &Arc<Core> {
        &self.cores[0]
    }

    /// The one for a device. CL_INVALID_PROGRAM_EXECUTABLE.
    pub fn of(&self, device: &CoreDevice) -> Status<&Arc<Core>> {
        let own = self.cores.iter().find(|core| core.program.device.info.addresses == device.info.addresses);
        own.or_fail(
            cl::CL_INVALID_PROGRAM_EXECUTABLE,
            "the kernel's program was not built for the device, or has no such kernel there",
        )
    }
}

/// clCreateKernel.
pub fn create(program: Handle<Program>, kernel_name: Text) -> Status<NewHandle> {
    let program = program.get()?;
    fail_if(kernel_name.is_null(), cl::CL_INVALID_VALUE, "kernel_name is NULL")?;
    // CL_INVALID_PROGRAM_EXECUTABLE if there is no successfully built executable for program.
    // CL_INVALID_KERNEL_NAME if kernel_name is not found in program.
    // CL_INVALID_KERNEL_DEFINITION.
    Ok(NewHandle::new(Kernel::named(&program, &kernel_name.string())?))
}

/// clCreateKernelsInProgram.
pub fn create_all(
    program: Handle<Program>,
    num_kernels: u32,
    kernels: Out<*mut c_void>,
    num_kernels_ret: Out<u32>,
) -> Status {
    let program = program.get()?;
    // CL_INVALID_PROGRAM_EXECUTABLE if there is no successfully built executable for any device in program.
    let names = program.built().kernel_names()?;
    let mut all = Vec::new();
    for name in &names {
        match Kernel::named(&program, name) {
            // "Kernel objects are not created for any kernel functions that do not have the same function definition across all
            // devices."
            Err(error) if error.code == cl::CL_INVALID_KERNEL_DEFINITION => {}
            kernel => all.push(kernel?),
        }
    }
    let room = kernels.is_null() || num_kernels as usize >= all.len();
    fail_if(!room, cl::CL_INVALID_VALUE, "num_kernels is less than the number of kernels in program")?;
    num_kernels_ret.write(all.len() as u32);
    if kernels.is_null() {
        return Ok(());
    }
    kernels.write_list(&all.into_iter().map(|kernel| NewHandle::new(kernel).into_raw()).collect::<Vec<_>>());
    Ok(())
}

/// clSetKernelArg.
pub fn set_arg(kernel: Handle<Kernel>, arg_index: u32, arg_size: usize, arg_value: HostConst) -> Status {
    let kernel = kernel.get()?;
    // CL_INVALID_ARG_INDEX if arg_index is not a valid argument index.
    // CL_INVALID_ARG_VALUE if arg_value … is not a valid value.
    // CL_INVALID_ARG_SIZE if arg_size does not match the size of the data type …
    let argument = kernel.core().argument(arg_index as usize, arg_size, arg_value.is_null())?;
    let value = match argument.kind() {
        ArgumentKind::Value { .. } => {
            let bytes = arg_value.bytes(arg_size);
            ArgumentValue::Bytes(bytes.or_fail(cl::CL_INVALID_ARG_VALUE, "arg_value is NULL")?)
        }
        ArgumentKind::Local => ArgumentValue::Local(arg_size),
        // CL_INVALID_MEM_OBJECT for an argument declared to be a memory object when the specified arg_value is not a
        // valid memory object. (A null pointer, or a pointer to one, is no memory at all.)
        ArgumentKind::Buffer | ArgumentKind::Image { .. } | ArgumentKind::Pipe => {
            let object = arg_value.cast::<*mut c_void>().get().filter(|object| !object.is_null());
            ArgumentValue::Memory(object.map(Ref::<Mem>::find).transpose()?.map(|mem| mem.core.clone()))
        }
        // CL_INVALID_DEVICE_QUEUE for an argument declared to be of type queue_t when the specified arg_value is not a valid
        // device queue object.
        ArgumentKind::Queue => {
            let object = arg_value.cast::<*mut c_void>().get();
            let object = object.or_fail(cl::CL_INVALID_DEVICE_QUEUE, "arg_value is NULL")?;
            let queue = Ref::<Queue>::find(object);
            let queue = queue.map_err(|error| error.with_code(cl::CL_INVALID_DEVICE_QUEUE))?;
            let on_device = queue.on_device().cloned();
            let on_device =
                on_device.or_fail(cl::CL_INVALID_DEVICE_QUEUE, "the queue is none on the device")?;
            ArgumentValue::Queue(on_device)
        }
        // CL_INVALID_SAMPLER for an argument declared to be of type sampler_t when the specified arg_value is not a valid
        // sampler object.
        ArgumentKind::Sampler => {
            let object = arg_value.cast::<*mut c_void>().get();
            let object = object.or_fail(cl::CL_INVALID_SAMPLER, "arg_value is NULL")?;
            ArgumentValue::Sampler(Ref::<Sampler>::find(object)?.core.clone())
        }
    };
    argument.set(value.clone())?;
    for other in &kernel.cores[1..] {
        other.argument(arg_index as usize, arg_size, arg_value.is_null())?.set(value.clone())?;
    }
    Ok(())
}

/// clGetKernelInfo.
pub fn get_info(
    kernel: Handle<Kernel>,
    param_name: cl::cl_kernel_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let kernel = kernel.get()?;
    let info = &kernel.core().info.signature;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_KERNEL_FUNCTION_NAME => answer.text(&info.name),
        cl::CL_KERNEL_NUM_ARGS => answer.value(info.arguments.len() as u32),
        cl::CL_KERNEL_REFERENCE_COUNT => answer.value(kernel.reference_count()),
        cl::CL_KERNEL_CONTEXT => answer.object(&kernel.program.context),
        cl::CL_KERNEL_PROGRAM => answer.object(&kernel.program),
        // "For kernels not created from OpenCL C source and the clCreateProgramWithSource API call the string returned from this
        // query will be empty."
        cl::CL_KERNEL_ATTRIBUTES if kernel.core().program.source.is_none() => answer.text(""),
        cl::CL_KERNEL_ATTRIBUTES => answer.text(&info.attributes),
        _ => unknown(param_name),
    })
}

/// CL_KERNEL_ARG_ADDRESS_*.
fn address_qualifier(qualifier: AddressQualifier) -> cl::cl_kernel_arg_address_qualifier {
    match qualifier {
        AddressQualifier::Global => cl::CL_KERNEL_ARG_ADDRESS_GLOBAL,
        AddressQualifier::Local => cl::CL_KERNEL_ARG_ADDRESS_LOCAL,
        AddressQualifier::Constant => cl::CL_KERNEL_ARG_ADDRESS_CONSTANT,
        AddressQualifier::Private => cl::CL_KERNEL_ARG_ADDRESS_PRIVATE,
    }
}

/// CL_KERNEL_ARG_ACCESS_*.
fn access_qualifier(qualifier: AccessQualifier) -> cl::cl_kernel_arg_access_qualifier {
    match qualifier {
        AccessQualifier::ReadOnly => cl::CL_KERNEL_ARG_ACCESS_READ_ONLY,
        AccessQualifier::WriteOnly => cl::CL_KERNEL_ARG_ACCESS_WRITE_ONLY,
        AccessQualifier::ReadWrite => cl::CL_KERNEL_ARG_ACCESS_READ_WRITE,
        AccessQualifier::None => cl::CL_KERNEL_ARG_ACCESS_NONE,
    }
}

/// CL_KERNEL_ARG_TYPE_*: a bitfield.
fn type_qualifier(qualifiers: TypeQualifiers) -> cl::cl_bitfield {
    [
        (qualifiers.is_const, cl::CL_KERNEL_ARG_TYPE_CONST),
        (qualifiers.is_restrict, cl::CL_KERNEL_ARG_TYPE_RESTRICT),
        (qualifiers.is_volatile, cl::CL_KERNEL_ARG_TYPE_VOLATILE),
        (qualifiers.is_pipe, cl::CL_KERNEL_ARG_TYPE_PIPE),
    ]
    .into_iter()
    .map(|(set, bit)| if set { cl::cl_bitfield::from(bit) } else { 0 })
    .sum()
}

/// clGetKernelArgInfo.
pub fn get_arg_info(
    kernel: Handle<Kernel>,
    arg_index: u32,
    param_name: cl::cl_kernel_arg_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let kernel = kernel.get()?;
    let argument = kernel.core().info.signature.arguments.get(arg_index as usize);
    let argument = argument.or_fail(cl::CL_INVALID_ARG_INDEX, "arg_index is not a valid argument index")?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_KERNEL_ARG_ADDRESS_QUALIFIER => answer.value(address_qualifier(argument.address_space)),
        cl::CL_KERNEL_ARG_ACCESS_QUALIFIER => answer.value(access_qualifier(argument.access)),
        cl::CL_KERNEL_ARG_TYPE_NAME => answer.text(&argument.type_name),
        cl::CL_KERNEL_ARG_TYPE_QUALIFIER => answer.value(type_qualifier(argument.type_qualifiers)),
        cl::CL_KERNEL_ARG_NAME => match &argument.name {
            Some(name) => answer.text(name),
            None => fail(
                cl::CL_KERNEL_ARG_INFO_NOT_AVAILABLE,
                "SPIR has arguments' names only when it was made with -cl-kernel-arg-info",
            ),
        },
        _ => unknown(param_name),
    })
}

/// CL_INVALID_DEVICE if device is not in the list of devices associated with kernel or if device is NULL but there is more than
/// one device associated with kernel; else the kernel there, as far as there is one.
fn on_device<'k>(kernel: &'k Kernel, device: &Handle<Device>) -> Status<&'k Arc<Core>> {
    if device.is_null() {
        let several = kernel.program.devices.len() > 1;
        fail_if(several, cl::CL_INVALID_DEVICE, "device is NULL, but the kernel has more than one")?;
        return Ok(kernel.core());
    }
    kernel.of(&kernel.program.device(device)?.core)
}

/// clGetKernelWorkGroupInfo.
pub fn get_work_group_info(
    kernel: Handle<Kernel>,
    device: Handle<Device>,
    param_name: cl::cl_kernel_work_group_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let kernel = kernel.get()?;
    let info = on_device(&kernel, &device)?.work_group_info();
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_KERNEL_WORK_GROUP_SIZE => answer.value(info.work_group_size),
        cl::CL_KERNEL_COMPILE_WORK_GROUP_SIZE => answer.value(info.compile_work_group_size),
        cl::CL_KERNEL_LOCAL_MEM_SIZE => answer.value(info.local_mem_size),
        cl::CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE => answer.value(info.preferred_multiple),
        cl::CL_KERNEL_PRIVATE_MEM_SIZE => answer.value(info.private_mem_size),
        // What doesn't fit registers is on the stack, of which nobody need know.
        cl::CL_KERNEL_SPILL_MEM_SIZE_INTEL => answer.value(0_u64),
        // CL_INVALID_VALUE if param_name is CL_KERNEL_GLOBAL_WORK_SIZE and device is not a custom device or kernel is not
        // a built-in kernel.
        _ => unknown(param_name),
    })
}

/// clCloneKernel (OpenCL 2.1).
pub fn clone(source_kernel: Handle<Kernel>) -> Status<NewHandle> {
    // CL_INVALID_KERNEL if source_kernel is not a valid kernel object.
    let source = source_kernel.get()?;
    let cores = source.cores.iter().map(|core| core.duplicate()).collect();
    Ok(NewHandle::new(Kernel { cores, program: source.program.clone() }))
}

/// clGetKernelSubGroupInfo (OpenCL 2.1).
#[allow(clippy::too_many_arguments)]
pub fn get_sub_group_info(
    kernel: Handle<Kernel>,
    device: Handle<Device>,
    param_name: cl::cl_kernel_sub_group_info,
    input_value_size: usize,
    input_value: HostConst,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let kernel = kernel.get()?;
    let core = on_device(&kernel, &device)?;
    // CL_INVALID_VALUE if … input_value_size is not valid, or if input_value is NULL where there must be one.
    let input = |most: usize| -> Status<Vec<usize>> {
        let count = input_value_size / size_of::<usize>();
        let fits = input_value_size.is_multiple_of(size_of::<usize>()) && (1..=most).contains(&count);
        fail_if(!fits, cl::CL_INVALID_VALUE, "input_value_size is no number of sizes that param_name takes")?;
        input_value.cast::<usize>().list(count).or_fail(cl::CL_INVALID_VALUE, "input_value is NULL")
    };
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE => answer.value(core.sub_group_size(&input(3)?)),
        cl::CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE => answer.value(core.sub_group_count(&input(3)?)),
        cl::CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT => {
            let local = core.local_size_of_sub_groups(input(1)?[0]);
            // As many dimensions as there is room for: all of the work-items, or none.
            let dimensions = (param_value_size / size_of::<usize>()).clamp(1, 3);
            let flat = local[dimensions..].iter().all(|&size| size <= 1);
            answer.list(if flat { &local[..dimensions] } else { &[0; 3][..dimensions] })
        }
        cl::CL_KERNEL_MAX_NUM_SUB_GROUPS => answer.value(core.max_sub_groups()),
        // Only SPIR-V can require a number.
        cl::CL_KERNEL_COMPILE_NUM_SUB_GROUPS => answer.value(0_usize),
        cl::CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL => answer.value(core.required_sub_group_size()),
        _ => unknown(param_name),
    })
}

/// clSetKernelArgSVMPointer (OpenCL 2.0). Any address will do: CL_DEVICE_SVM_FINE_GRAIN_SYSTEM.
pub fn set_arg_svm_pointer(kernel: Handle<Kernel>, arg_index: u32, arg_value: HostConst) -> Status {
    let kernel = kernel.get()?;
    svm::in_context(&kernel.core().program.context)?;
    // CL_INVALID_ARG_INDEX if arg_index is not a valid argument index. CL_INVALID_ARG_VALUE if arg_value … is not a valid
    // value: such as for an argument that is no pointer to global or constant memory.
    let address = arg_value.address().expose_provenance();
    for core in &kernel.cores {
        core.set_address(arg_index as usize, address)?;
    }
    Ok(())
}

/// clSetKernelExecInfo (OpenCL 2.0): what it tells, nobody needs to know, but it may not be possible.
pub fn set_exec_info(
    kernel: Handle<Kernel>,
    param_name: cl::cl_kernel_exec_info,
    param_value_size: usize,
    param_value: HostConst,
) -> Status {
    let kernel = kernel.get()?;
    svm::in_context(&kernel.core().program.context)?;
    // (No pointers at all take back those given before.)
    let fits = match param_name {
        cl::CL_KERNEL_EXEC_INFO_SVM_PTRS | cl::CL_KERNEL_EXEC_INFO_USM_PTRS_INTEL => {
            param_value_size.is_multiple_of(size_of::<*mut c_void>())
                && param_value.is_null() == (param_value_size == 0)
        }
        cl::CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM
        | cl::CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL
        | cl::CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL
        | cl::CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL => {
            param_value_size == size_of::<cl::cl_bool>() && !param_value.is_null()
        }
        _ => false,
    };
    fail_if(
        !fits,
        cl::CL_INVALID_VALUE,
        "param_name is not valid, or its value is NULL or has not its size",
    )?;
    // CL_INVALID_OPERATION if … CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM and param_value is CL_TRUE but no devices … support
    // fine-grain system SVM allocations.
    let is_system = param_name == cl::CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM
        && param_value.bytes(param_value_size).is_some_and(|value| value.iter().any(|&byte| byte != 0));
    fail_if(
        is_system && kernel.cores.iter().all(|core| core.program.device.info.is_confined()),
        cl::CL_INVALID_OPERATION,
        "the device's kernels are confined to their context's memory; they can't use the system's",
    )
}
