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
use spirula_runtime::error::{Error as CoreError, Status as CoreStatus};
use spirula_runtime::platform::device::Device as CoreDevice;
use spirula_runtime::program::{BinaryType, BuildStatus, Program as Core};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A `cl_program`.
pub struct Program {
    /// CL_PROGRAM_CONTEXT.
    pub context: Link<Context>,
    /// For each kind of its devices, all of which run the same code.
    parts: Vec<Part>,
    /// CL_PROGRAM_DEVICES.
    pub devices: Vec<Link<Device>>,
    /// For each of these, in how many lists of builds, compilations and links it was.
    asked_for: Vec<AtomicUsize>,
}

/// A program for devices of one kind.
struct Part {
    core: Arc<Core>,
    /// CL_PROGRAM_BINARY_TYPE for devices that it was not built for.
    given: BinaryType,
}

impl ClObject for Program {
    const NAME: &'static str = "cl_program";
    const INVALID: cl::cl_int = cl::CL_INVALID_PROGRAM;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.context.core.clone())
    }
}

/// Whether a program is for devices of that kind.
fn is_for_kind(core: &Core, device: &CoreDevice) -> bool {
    core.device.info.addresses == device.info.addresses
}

impl Program {
    /// There must be one at least.
    fn new(cores: Vec<Arc<Core>>, context: Link<Context>, devices: Vec<Link<Device>>) -> Program {
        let asked_for = devices.iter().map(|_| AtomicUsize::new(0)).collect();
        let parts = cores.into_iter().map(|core| Part { given: core.binary_type(), core }).collect();
        Program { parts, context, devices, asked_for }
    }

    /// The programs that it is, one for each kind of its devices.
    pub fn cores(&self) -> impl Iterator<Item = &Arc<Core>> {
        self.parts.iter().map(|part| &part.core)
    }

    /// The first of them: what the application gave is the same in all.
    pub fn core(&self) -> &Arc<Core> {
        &self.parts[0].core
    }

    fn part(&self, device: &Link<Device>) -> &Part {
        let own = self.parts.iter().find(|part| is_for_kind(&part.core, &device.core));
        own.unwrap_or(&self.parts[0])
    }

    /// What was built of it for a device.
    pub fn of(&self, device: &Link<Device>) -> &Arc<Core> {
        &self.part(device).core
    }

    /// The first of these that has an executable, for there may be kernels of it.
    pub fn built(&self) -> &Arc<Core> {
        self.cores().find(|core| core.kernel_names().is_ok()).unwrap_or(self.core())
    }

    /// Whether it was built, or tried to, for a device, or for one that it is a part of: what runs there runs on its parts.
    pub fn is_asked_for(&self, device: &Link<Device>) -> bool {
        let was_listed = |device: &Link<Device>| {
            let own = self.devices.iter().position(|own| own.handle() == device.handle());
            own.is_some_and(|index| self.asked_for[index].load(Ordering::Relaxed) > 0)
        };
        std::iter::successors(Some(device), |device| device.parent()).any(was_listed)
    }

    /// Does a build for these devices; all if there are none. One that could not begin leaves the others' state alone.
    ///
    /// It has ended, and `notify` was called, when this returns: applications free what their callback takes after clBuildProgram, or
    /// create kernels, though the specification lets a build with a callback go on.
    fn for_devices(
        &self,
        num_devices: u32,
        device_list: &Handles<Device>,
        notify: Notify,
        build: impl Fn(&Arc<Core>) -> Result<(), CoreError>,
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
        let is_of_kind =
            |core: &&Arc<Core>| self.devices.iter().any(|own| is_meant(own) && is_for_kind(core, &own.core));
        let cores: Vec<&Arc<Core>> = self.cores().filter(is_of_kind).collect();
        one_by_one(&cores, build, |result| notify.tell(&self.context, result))
            .map_err(Error::from)
            .inspect_err(|error| {
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

    /// A handle for a new program, which `make` makes for a kind of devices.
    fn publish(
        context: &Ref<Context>,
        make: impl Fn(&Arc<CoreDevice>) -> Result<Arc<Core>, CoreError>,
    ) -> Status<NewHandle> {
        let cores = context.core.kinds().iter().map(make).collect::<Result<Vec<_>, _>>()?;
        Ok(NewHandle::new(Program::new(cores, context.link()?, context.devices.clone())))
    }

    /// A handle for a program that is linked for these devices; all if there are none.
    fn publish_linked(cores: Vec<Arc<Core>>, context: Link<Context>, listed: &[Opaque]) -> NewHandle {
        let devices = context.devices.clone();
        let program = Program::new(cores, context, devices);
        for (own, asked) in program.devices.iter().zip(&program.asked_for) {
            let is_meant = listed.is_empty() || listed.iter().any(|device| device.get() == own.handle());
            let is_linked = program.cores().any(|core| is_for_kind(core, &own.core));
            asked.store((is_meant && is_linked).into(), Ordering::Relaxed);
        }
        NewHandle::new(program)
    }
}

/// Builds for one kind of devices after the other, and tells of the end. An error, the first one, ends neither, unless it is one of a
/// build that could not begin.
fn one_by_one(
    cores: &[&Arc<Core>],
    build: impl Fn(&Arc<Core>) -> Result<(), CoreError>,
    tell: impl FnOnce(Result<(), CoreError>) -> Result<(), CoreError>,
) -> Result<(), CoreError> {
    use CoreStatus::{CompilerNotAvailable, InvalidBuildOptions, InvalidCompilerOptions, InvalidOperation};
    let mut first = Ok(());
    for core in cores {
        let result = build(core);
        let status = result.as_ref().err().map(|error| error.status);
        first = first.and(result);
        if let Some(CompilerNotAvailable | InvalidBuildOptions | InvalidCompilerOptions | InvalidOperation) =
            status
        {
            return first;
        }
    }
    tell(first)
}

/// The callback of a build, a compilation or a link.
struct Notify {
    /// Whose it is.
    function: &'static str,
    callback: Option<Box<dyn FnOnce() + Send>>,
}

impl Notify {
    fn new(function: &'static str, pfn: ObjectNotify, object: *mut c_void, user_data: Opaque) -> Self {
        Notify { function, callback: pfn.bind(object, user_data) }
    }

    /// Says how it ended to the callback, if there is one, else to the caller. Never to both: applications take an error for a build
    /// that did not begin, whose callback's data is still theirs to free.
    fn tell(self, context: &Context, result: Result<(), CoreError>) -> Result<(), CoreError> {
        let Some(callback) = self.callback else { return result };
        if let Err(error) = result {
            context.core.report(format_args!("{}: {error}", self.function));
        }
        callback();
        Ok(())
    }
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
    let source = String::from_utf8_lossy(&source).into_owned();
    Program::publish(&context, |device| Ok(Core::with_source(&context.core, device, source.clone())))
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
    let mut devices: Vec<Link<Device>> = Vec::new();
    for device in device_list.get(num_devices)? {
        devices.push(device.link()?);
    }
    // CL_INVALID_BINARY if an invalid program binary was encountered for any device.
    let load = |((binary, &length), device): ((&HostConst, &usize), &Link<Device>)| {
        let binary =
            binary.bytes(length).or_fail(cl::CL_INVALID_VALUE, "an entry in lengths is too large")?;
        Core::with_binary(&context.core, &device.core, binary).map_err(Error::from)
    };
    let loaded: Vec<Status<Arc<Core>>> = binaries.iter().zip(&lengths).zip(&devices).map(load).collect();
    let status = |core: &Status<Arc<Core>>| core.as_ref().err().map_or(cl::CL_SUCCESS, |error| error.code);
    binary_status.write_list(&loaded.iter().map(status).collect::<Vec<_>>());
    // Devices of one kind run the same code, so the first is as good as the others.
    let mut cores: Vec<Arc<Core>> = Vec::new();
    for core in loaded {
        let core = core?;
        if cores.iter().all(|other| !is_for_kind(other, &core.device)) {
            cores.push(core);
        }
    }
    Ok(NewHandle::new(Program::new(cores, context.link()?, devices)))
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
    Program::publish(&context, |device| Core::with_il(&context.core, device, bytes))
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
    // Live for the callback, whatever the application releases.
    let _live = program.link()?;
    let notify = Notify::new("clBuildProgram", pfn_notify, program.handle(), user_data);
    // CL_INVALID_BINARY, CL_INVALID_BUILD_OPTIONS, CL_INVALID_OPERATION, CL_COMPILER_NOT_AVAILABLE, CL_BUILD_PROGRAM_FAILURE.
    program.for_devices(num_devices, &device_list, notify, |core| core.build(&options.string()))
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
        names.iter().zip(headers).map(|(name, header)| (name.string(), header.core().clone())).collect();
    // Live for the callback, whatever the application releases.
    let _live = program.link()?;
    let notify = Notify::new("clCompileProgram", pfn_notify, program.handle(), user_data);
    // CL_INVALID_COMPILER_OPTIONS, CL_INVALID_OPERATION, CL_COMPILER_NOT_AVAILABLE, CL_COMPILE_PROGRAM_FAILURE.
    program.for_devices(num_devices, &device_list, notify, |core| core.compile(&options.string(), &headers))
}

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
    let inputs = input_programs.get(num_input_programs)?;
    check_notify(pfn_notify.is_null(), user_data)?;
    let listed: Vec<Opaque> =
        device_list.get(num_devices)?.iter().map(|device| Opaque::new(device.handle())).collect();
    let kinds = kinds_to_link(&context, &listed, &inputs)?;
    let mut cores = Vec::new();
    let mut result = Ok(());
    for (device, inputs) in &kinds {
        // CL_INVALID_LINKER_OPTIONS, CL_INVALID_OPERATION, CL_LINKER_NOT_AVAILABLE: no program. CL_LINK_PROGRAM_FAILURE.
        let (core, linked) = Core::link(&context.core, device, &options.string(), inputs)?;
        cores.push(core);
        result = result.and(linked);
    }
    let handle = Program::publish_linked(cores, context.link()?, &listed).into_raw();
    let result = Notify::new("clLinkProgram", pfn_notify, handle, user_data).tell(&context, result);
    Ok(Linked(handle, result.err().map(Error::from)))
}

/// A device of a kind, and the programs for it that are to be linked.
type ToLink = (Arc<CoreDevice>, Vec<Arc<Core>>);

/// The kinds of devices, of those in a list or of all, that programs are linked for, and what they are for each: a kind that none
/// of them was compiled for is left out. CL_INVALID_OPERATION if some were and others not.
fn kinds_to_link(context: &Context, listed: &[Opaque], inputs: &[Ref<Program>]) -> Status<Vec<ToLink>> {
    let is_meant = |device: &&Link<Device>| {
        listed.is_empty() || listed.iter().any(|listed| listed.get() == device.handle())
    };
    let mut kinds: Vec<ToLink> = Vec::new();
    for device in context.devices.iter().filter(is_meant) {
        if kinds.iter().all(|(other, _)| other.info.addresses != device.core.info.addresses) {
            let of_kind =
                |input: &Ref<Program>| input.cores().find(|core| is_for_kind(core, &device.core)).cloned();
            kinds.push((device.core.clone(), inputs.iter().filter_map(of_kind).collect()));
        }
    }
    let is_compiled =
        |core: &Arc<Core>| matches!(core.binary_type(), BinaryType::CompiledObject | BinaryType::Library);
    let several = kinds.len() > 1;
    let is_for_none = |(_, cores): &ToLink| !cores.iter().any(is_compiled);
    // What none was compiled for at all is for the link to refuse.
    if several && !kinds.iter().all(is_for_none) {
        kinds.retain(|kind| !is_for_none(kind));
    } else {
        kinds.truncate(1);
    }
    let is_partial = kinds.iter().any(|(_, cores)| cores.len() < inputs.len());
    fail_if(
        is_partial,
        cl::CL_INVALID_OPERATION,
        "a program in input_programs is not for a device that the others are linked for",
    )?;
    Ok(kinds)
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
    let core = program.core();
    let binaries = || program.devices.iter().map(|device| program.of(device).binary());
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_PROGRAM_REFERENCE_COUNT => answer.value(program.reference_count()),
        cl::CL_PROGRAM_CONTEXT => answer.object(&program.context),
        cl::CL_PROGRAM_NUM_DEVICES => answer.value(program.devices.len() as u32),
        cl::CL_PROGRAM_DEVICES => answer.objects(&program.devices),
        cl::CL_PROGRAM_SOURCE => answer.text(core.source.as_deref().unwrap_or_default()),
        cl::CL_PROGRAM_BINARY_SIZES => {
            answer.list(&binaries().map(|binary| binary.len()).collect::<Vec<_>>())
        }
        cl::CL_PROGRAM_BINARIES => answer.scattered(&binaries().collect::<Vec<_>>()),
        // "If program is created with clCreateProgramWithSource, … Binary": nothing.
        cl::CL_PROGRAM_IL => answer.list(&core.il()),
        cl::CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT | cl::CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT => {
            answer.flag(false)
        }
        // CL_INVALID_PROGRAM_EXECUTABLE if … a successfully built executable … is not there.
        cl::CL_PROGRAM_NUM_KERNELS => answer.value(program.built().kernel_names()?.len()),
        cl::CL_PROGRAM_KERNEL_NAMES => answer.text(&program.built().kernel_names()?.join(";")),
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
    let Part { core, given } = program.part(&device);
    let asked = program.is_asked_for(&device);
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        // Nothing was done for this device, whatever was for others.
        cl::CL_PROGRAM_BUILD_STATUS if !asked => answer.value(BuildStatus::None as cl::cl_build_status),
        cl::CL_PROGRAM_BUILD_OPTIONS | cl::CL_PROGRAM_BUILD_LOG if !asked => answer.text(""),
        cl::CL_PROGRAM_BINARY_TYPE if !asked => answer.value(*given as cl::cl_program_binary_type),
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
    for core in program.cores() {
        core.specialize(spec_id, value)?;
    }
    Ok(())
}
