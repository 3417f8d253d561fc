//! `cl_program` (OpenCL 1.2, 5.6; cl_khr_spir).

use crate::abi::{Handle, Handles, HostConst, HostMut, In, IntoAbi, Out, Text};
use crate::api::context::{Context, check_notify};
use crate::api::device::Device;
use crate::callback::{ObjectNotify, Opaque};
use crate::error::{Error, OrFail, Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::program::{BinaryType, BuildNotify, BuildStatus, Program as Core};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A `cl_program`.
pub struct Program {
    /// The program itself.
    pub core: Arc<Core>,
    /// CL_PROGRAM_CONTEXT.
    pub context: Link<Context>,
    /// CL_PROGRAM_DEVICES, which all run the same code.
    pub devices: Vec<Link<Device>>,
    /// For each of these, in how many lists of builds, compilations and links it was.
    asked_for: Vec<AtomicUsize>,
    /// CL_PROGRAM_BINARY_TYPE for the others.
    given: BinaryType,
}

impl ClObject for Program {
    const NAME: &'static str = "cl_program";
    const INVALID: cl::cl_int = cl::CL_INVALID_PROGRAM;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core.context.clone())
    }
}

impl Program {
    fn new(core: Arc<Core>, context: Link<Context>, devices: Vec<Link<Device>>) -> Program {
        let asked_for = devices.iter().map(|_| AtomicUsize::new(0)).collect();
        let given = core.binary_type();
        Program { core, context, devices, asked_for, given }
    }

    /// Whether it was built, or tried to, for a device.
    pub fn is_asked_for(&self, device: &Link<Device>) -> bool {
        let own = self.devices.iter().position(|own| own.handle() == device.handle());
        own.is_some_and(|index| self.asked_for[index].load(Ordering::Relaxed) > 0)
    }

    /// Does a build for these devices; all if there are none. One that could not begin leaves the others' state alone.
    fn for_devices(
        &self,
        num_devices: u32,
        device_list: &Handles<Device>,
        build: impl FnOnce() -> Status,
    ) -> Status {
        self.check_devices(num_devices, device_list)?;
        let listed = device_list.get(num_devices)?;
        let is_meant = |own: &Link<Device>| {
            listed.is_empty() || listed.iter().any(|device| device.handle() == own.handle())
        };
        // Before the build begins: its callback may ask. Counted, for another build that runs meanwhile may be the one that counts.
        let of_device = self.devices.iter().zip(&self.asked_for);
        let meant: Vec<&AtomicUsize> =
            of_device.filter(|(own, _)| is_meant(own)).map(|(_, asked)| asked).collect();
        for asked in &meant {
            asked.fetch_add(1, Ordering::Relaxed);
        }
        build().inspect_err(|error| {
            if error.code == cl::CL_INVALID_OPERATION {
                for asked in &meant {
                    asked.fetch_sub(1, Ordering::Relaxed);
                }
            }
        })
    }

    /// Whether it is associated with a device.
    pub fn is_for(&self, device: &Link<Device>) -> bool {
        self.devices.iter().any(|own| own.handle() == device.handle())
    }

    /// One of its devices. CL_INVALID_DEVICE.
    pub fn device(&self, device: &Handle<Device>) -> Status<Link<Device>> {
        let device = self.context.device(device)?;
        fail_if(!self.is_for(&device), cl::CL_INVALID_DEVICE, "the device is none of the program's")?;
        Ok(device)
    }

    /// The checks of a build's `num_devices` and `device_list`. CL_INVALID_VALUE, CL_INVALID_DEVICE.
    fn check_devices(&self, num_devices: u32, device_list: &Handles<Device>) -> Status {
        self.context.check_devices(num_devices, device_list)?;
        for device in device_list.get(num_devices)? {
            let own = self.is_for(&device.link()?);
            fail_if(!own, cl::CL_INVALID_DEVICE, "device_list has a device that is none of the program's")?;
        }
        Ok(())
    }

    /// A handle for a new program.
    fn publish(core: Arc<Core>, context: Link<Context>) -> NewHandle {
        let devices = context.devices.clone();
        NewHandle::new(Program::new(core, context, devices))
    }

    /// A handle for a program that is linked for these devices; all if there are none.
    fn publish_linked(core: Arc<Core>, context: Link<Context>, listed: &[Opaque]) -> NewHandle {
        let devices = context.devices.clone();
        let program = Program::new(core, context, devices);
        for (own, asked) in program.devices.iter().zip(&program.asked_for) {
            let is_meant = listed.is_empty() || listed.iter().any(|device| device.get() == own.handle());
            asked.store(is_meant.into(), Ordering::Relaxed);
        }
        NewHandle::new(program)
    }
}

/// A build's callback, which keeps the program's handle live until it was called.
fn build_notify(program: &Ref<Program>, pfn: ObjectNotify, user_data: Opaque) -> Status<Option<BuildNotify>> {
    let Some(callback) = pfn.bind(program.handle(), user_data) else { return Ok(None) };
    let program = program.link()?;
    Ok(Some(Box::new(move || {
        callback();
        drop(program);
    })))
}

/// clCreateProgramWithSource.
pub fn create_with_source(
    context: Handle<Context>,
    count: u32,
    strings: Out<*const c_char>,
    lengths: In<usize>,
) -> Status<NewHandle> {
    let context = context.get()?;
    fail_if(count == 0 || strings.is_null(), cl::CL_INVALID_VALUE, "count is 0 or strings is NULL")?;
    let strings = strings.as_in().texts(count);
    fail_if(strings.iter().any(Text::is_null), cl::CL_INVALID_VALUE, "an entry in strings is NULL")?;
    let lengths = lengths.list(count as usize).unwrap_or_else(|| vec![0; count as usize]);
    // "If an element in lengths is zero, its accompanying string is null-terminated."
    let source: Vec<u8> =
        strings.iter().zip(lengths).flat_map(|(text, length)| text.prefix(length)).collect();
    let core = Core::with_source(&context.core, String::from_utf8_lossy(&source).into_owned());
    Ok(Program::publish(core, context.link()?))
}

/// The checks of `num_devices` and `device_list` where there must be some. Errors: CL_INVALID_VALUE, CL_INVALID_DEVICE.
fn some_devices(context: &Context, num_devices: u32, device_list: &Handles<Device>) -> Status {
    let none = device_list.is_null() || num_devices == 0;
    fail_if(none, cl::CL_INVALID_VALUE, "device_list is NULL or num_devices is 0")?;
    context.own_devices(num_devices, device_list)
}

/// clCreateProgramWithBinary.
pub fn create_with_binary(
    context: Handle<Context>,
    num_devices: u32,
    device_list: Handles<Device>,
    lengths: In<usize>,
    binaries: Out<*const u8>,
    binary_status: Out<cl::cl_int>,
) -> Status<NewHandle> {
    let context = context.get()?;
    some_devices(&context, num_devices, &device_list)?;
    let count = num_devices as usize;
    let (lengths, binaries) = (lengths.list(count), binaries.as_in().memories(count));
    let lengths = lengths.or_fail(cl::CL_INVALID_VALUE, "lengths is NULL")?;
    let binaries = binaries.or_fail(cl::CL_INVALID_VALUE, "binaries is NULL")?;
    let missing = |(binary, length): (&HostConst, &usize)| binary.is_null() || *length == 0;
    if binaries.iter().zip(&lengths).any(missing) {
        binary_status.write_list(&vec![cl::CL_INVALID_VALUE; count]);
        return fail(cl::CL_INVALID_VALUE, "an entry in lengths is 0 or one in binaries is NULL");
    }
    // CL_INVALID_BINARY if an invalid program binary was encountered for any device. (The devices run the same code, so the
    // first is as good as the others.)
    let load = |(binary, &length): (&HostConst, &usize)| {
        let binary =
            binary.bytes(length).or_fail(cl::CL_INVALID_VALUE, "an entry in lengths is too large")?;
        Core::with_binary(&context.core, binary).map_err(Error::from)
    };
    let loaded: Vec<Status<Arc<Core>>> = binaries.iter().zip(&lengths).map(load).collect();
    let status = |core: &Status<Arc<Core>>| core.as_ref().err().map_or(cl::CL_SUCCESS, |error| error.code);
    binary_status.write_list(&loaded.iter().map(status).collect::<Vec<_>>());
    let cores = loaded.into_iter().collect::<Status<Vec<_>>>()?;
    let core = cores.into_iter().next().or_fail(cl::CL_INVALID_VALUE, "num_devices is 0")?;
    let mut devices: Vec<Link<Device>> = Vec::new();
    for device in device_list.get(num_devices)? {
        devices.push(device.link()?);
    }
    Ok(NewHandle::new(Program::new(core, context.link()?, devices)))
}

/// clCreateProgramWithBuiltInKernels: CL_DEVICE_BUILT_IN_KERNELS is empty.
pub fn create_with_built_in_kernels(
    context: Handle<Context>,
    num_devices: u32,
    device_list: Handles<Device>,
    _kernel_names: Text,
) -> Status<NewHandle> {
    some_devices(&*context.get()?, num_devices, &device_list)?;
    fail(cl::CL_INVALID_VALUE, "the devices have no built-in kernels")
}

/// clCreateProgramWithIL (OpenCL 2.1).
pub fn create_with_il(context: Handle<Context>, il: HostConst, length: usize) -> Status<NewHandle> {
    let context = context.get()?;
    let bytes = il.bytes(length).filter(|bytes| !bytes.is_empty());
    let bytes = bytes.or_fail(cl::CL_INVALID_VALUE, "il is NULL or length is 0")?;
    // CL_INVALID_VALUE if it doesn't contain well-formed intermediate language.
    Ok(Program::publish(Core::with_il(&context.core, bytes)?, context.link()?))
}

/// clBuildProgram.
pub fn build(
    program: Handle<Program>,
    num_devices: u32,
    device_list: Handles<Device>,
    options: Text,
    pfn_notify: ObjectNotify,
    user_data: Opaque,
) -> Status {
    let program = program.get()?;
    check_notify(pfn_notify.is_null(), user_data)?;
    program.for_devices(num_devices, &device_list, || {
        // CL_INVALID_BINARY, CL_INVALID_BUILD_OPTIONS, CL_INVALID_OPERATION, CL_COMPILER_NOT_AVAILABLE,
        // CL_BUILD_PROGRAM_FAILURE.
        Ok(program.core.build(&options.string(), build_notify(&program, pfn_notify, user_data)?)?)
    })
}

/// clCompileProgram.
#[allow(clippy::too_many_arguments)]
pub fn compile(
    program: Handle<Program>,
    num_devices: u32,
    device_list: Handles<Device>,
    options: Text,
    num_input_headers: u32,
    input_headers: Handles<Program>,
    header_include_names: Out<*const c_char>,
    pfn_notify: ObjectNotify,
    user_data: Opaque,
) -> Status {
    let program = program.get()?;
    let none = num_input_headers == 0;
    let agree = input_headers.is_null() == none && header_include_names.is_null() == none;
    fail_if(
        !agree,
        cl::CL_INVALID_VALUE,
        "input_headers or header_include_names is NULL where num_input_headers is not 0, or the other way round",
    )?;
    check_notify(pfn_notify.is_null(), user_data)?;
    let names = header_include_names.as_in().texts(num_input_headers);
    let headers: Vec<_> = input_headers.get(num_input_headers)?;
    let headers: Vec<_> =
        names.iter().zip(headers).map(|(name, header)| (name.string(), header.core.clone())).collect();
    program.for_devices(num_devices, &device_list, || {
        // CL_INVALID_COMPILER_OPTIONS, CL_INVALID_OPERATION, CL_COMPILER_NOT_AVAILABLE, CL_COMPILE_PROGRAM_FAILURE.
        Ok(program.core.compile(
            &options.string(),
            &headers,
            build_notify(&program, pfn_notify, user_data)?,
        )?)
    })
}

/// A link's callback.
type LinkNotify = Box<dyn FnOnce(&Arc<Core>) + Send>;

/// What clLinkProgram returns: a program even if the link failed, for the sake of its log.
pub struct Linked(*mut c_void, Option<Error>);

impl IntoAbi for Linked {
    type Raw = *mut c_void;
    const FAILED: *mut c_void = std::ptr::null_mut();
    fn into_abi(self) -> *mut c_void {
        self.0
    }
    fn error(&self) -> Option<&Error> {
        self.1.as_ref()
    }
}

/// clLinkProgram.
#[allow(clippy::too_many_arguments)]
pub fn link(
    context: Handle<Context>,
    num_devices: u32,
    device_list: Handles<Device>,
    options: Text,
    num_input_programs: u32,
    input_programs: Handles<Program>,
    pfn_notify: ObjectNotify,
    user_data: Opaque,
) -> Status<Linked> {
    let context = context.get()?;
    context.check_devices(num_devices, &device_list)?;
    let nothing = num_input_programs == 0 || input_programs.is_null();
    fail_if(nothing, cl::CL_INVALID_VALUE, "num_input_programs is 0 or input_programs is NULL")?;
    // CL_INVALID_PROGRAM if programs specified in input_programs are not valid program objects.
    let inputs: Vec<_> =
        input_programs.get(num_input_programs)?.iter().map(|input| input.core.clone()).collect();
    check_notify(pfn_notify.is_null(), user_data)?;
    // The callback may come before this function has returned; whoever is first makes the handle.
    let handle: Arc<OnceLock<Opaque>> = Arc::default();
    let listed: Vec<Opaque> =
        device_list.get(num_devices)?.iter().map(|device| Opaque::new(device.handle())).collect();
    let publish = {
        let context = context.link()?;
        move |core: &Arc<Core>| {
            let make =
                || Opaque::new(Program::publish_linked(core.clone(), context.clone(), &listed).into_raw());
            handle.get_or_init(make).get()
        }
    };
    let notify = (!pfn_notify.is_null()).then(|| -> LinkNotify {
        let publish = publish.clone();
        Box::new(move |core| {
            if let Some(callback) = pfn_notify.bind(publish(core), user_data) {
                callback();
            }
        })
    });
    // CL_INVALID_LINKER_OPTIONS, CL_INVALID_OPERATION, CL_LINKER_NOT_AVAILABLE: no program. CL_LINK_PROGRAM_FAILURE.
    let (core, linked) = Core::link(&context.core, &options.string(), &inputs, notify)?;
    Ok(Linked(publish(&core), linked.err().map(Error::from)))
}

/// clGetProgramInfo.
pub fn get_info(
    program: Handle<Program>,
    param_name: cl::cl_program_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let program = program.get()?;
    let core = &program.core;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_PROGRAM_REFERENCE_COUNT => answer.value(program.reference_count()),
        cl::CL_PROGRAM_CONTEXT => answer.object(&program.context),
        cl::CL_PROGRAM_NUM_DEVICES => answer.value(program.devices.len() as u32),
        cl::CL_PROGRAM_DEVICES => answer.objects(&program.devices),
        cl::CL_PROGRAM_SOURCE => answer.text(core.source.as_deref().unwrap_or_default()),
        // One for each device, all of which run the same code.
        cl::CL_PROGRAM_BINARY_SIZES => answer.list(&vec![core.binary().len(); program.devices.len()]),
        cl::CL_PROGRAM_BINARIES => answer.scattered(&vec![core.binary(); program.devices.len()]),
        // "If program is created with clCreateProgramWithSource, … Binary": nothing.
        cl::CL_PROGRAM_IL => answer.list(&core.il()),
        cl::CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT | cl::CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => {
            answer.flag(false)
        }
        // CL_INVALID_PROGRAM_EXECUTABLE if … a successfully built executable … is not there.
        cl::CL_PROGRAM_NUM_KERNELS => answer.value(core.kernel_names()?.len()),
        cl::CL_PROGRAM_KERNEL_NAMES => answer.text(&core.kernel_names()?.join(";")),
        _ => unknown(param_name),
    })
}

/// clGetProgramBuildInfo.
pub fn get_build_info(
    program: Handle<Program>,
    device: Handle<Device>,
    param_name: cl::cl_program_build_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let program = program.get()?;
    // CL_INVALID_DEVICE if device is not in the list of devices associated with program.
    let device = program.device(&device)?;
    let core = &program.core;
    let asked = program.is_asked_for(&device);
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        // Nothing was done for this device, whatever was for others.
        cl::CL_PROGRAM_BUILD_STATUS if !asked => answer.value(BuildStatus::None as cl::cl_build_status),
        cl::CL_PROGRAM_BUILD_OPTIONS | cl::CL_PROGRAM_BUILD_LOG if !asked => answer.text(""),
        cl::CL_PROGRAM_BINARY_TYPE if !asked => answer.value(program.given as cl::cl_program_binary_type),
        cl::CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE if !asked => answer.value(0_usize),
        cl::CL_PROGRAM_BUILD_STATUS => answer.value(core.build_status() as cl::cl_build_status),
        cl::CL_PROGRAM_BUILD_OPTIONS => answer.text(&core.build_options()),
        cl::CL_PROGRAM_BUILD_LOG => answer.text(&core.build_log()),
        cl::CL_PROGRAM_BINARY_TYPE => answer.value(core.binary_type() as cl::cl_program_binary_type),
        cl::CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE => answer.value(core.variables_size()),
        _ => unknown(param_name),
    })
}

/// clSetProgramReleaseCallback (OpenCL 2.2).
pub fn set_release_callback(program: Handle<Program>, _notify: ObjectNotify, _user_data: Opaque) -> Status {
    program.get()?;
    fail(cl::CL_INVALID_OPERATION, "no device supports destructors of program scope global variables")
}

/// clSetProgramSpecializationConstant (OpenCL 2.2).
pub fn set_specialization_constant(
    program: Handle<Program>,
    spec_id: u32,
    spec_size: usize,
    spec_value: HostConst,
) -> Status {
    let program = program.get()?;
    let value = spec_value.bytes(spec_size).or_fail(cl::CL_INVALID_VALUE, "spec_value is NULL")?;
    // CL_INVALID_PROGRAM, CL_INVALID_SPEC_ID, CL_INVALID_VALUE.
    Ok(program.core.specialize(spec_id, value)?)
}
