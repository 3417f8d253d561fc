//! What a user learns of an error: the context's `pfn_notify` gets its sentence, and SPIRULA_LOG's file or standard error
//! does.

use crate::setup::{Setup, status, tests};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{
    self, Buffer, Context, Device, Event, Handle, Kernel, NdRange, Object, Program, Queue, SPIR12, Sampler,
};
use spirula_tests::dispatch::on_context_destroyed;
use spirula_tests::isolate::{self, Failure, Outcome};
use spirula_tests::{call, create, icd, supervise};
use std::ffi::{CStr, c_char};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use std::{env, fs};

tests![
    calls_tell_the_context_of_their_object,
    what_concerns_no_context_is_told_to_none,
    errors_of_the_callback_are_not_told_to_it,
    builds_with_a_callback_are_told,
    failed_commands_are_told_before_the_context_ends,
    misuse,
    the_log_goes_where_its_variable_says,
    set_uid_programs_ignore_the_variable,
];

/// What a context tells, and that it is gone.
struct Told {
    receiver: Receiver<String>,
    sender: Sender<String>,
    /// The sender, for callbacks.
    data: *mut c_void,
}

impl Told {
    fn new() -> Told {
        let (sender, receiver) = channel::<String>();
        // For ever: nobody knows when the last callback returns.
        let data = std::ptr::from_mut(Box::leak(Box::new(sender.clone()))).cast();
        Told { receiver, sender, data }
    }

    /// A context that tells this, with a queue.
    fn setup(&self) -> cl::Result<Setup> {
        let device = Device::first();
        let handle = create!(clCreateContext(null(), 1, &device.raw(), Some(tell), self.data))?;
        let context = Context::from_raw(handle);
        Ok(Setup { device, queue: Queue::new(&context, device)?, context })
    }

    /// What has been told by now.
    fn now(&self) -> Vec<String> {
        self.receiver.try_iter().collect()
    }

    /// What is told next.
    fn next(&self) -> Result<String, std::sync::mpsc::RecvTimeoutError> {
        self.receiver.recv_timeout(Duration::from_secs(20))
    }
}

/// Passes a text on to the `Told` whose data this is.
fn pass_on(data: *mut c_void, text: String) {
    // SAFETY: the sender that `Told::new` leaked.
    let sender = unsafe { &*data.cast::<Sender<String>>() };
    let _ = sender.send(text); // nobody listens any more
}

extern "C" fn tell(message: *const c_char, _: *const c_void, _: size_t, data: *mut c_void) {
    // SAFETY: `errinfo` is a string.
    pass_on(data, unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned());
}

/// The start of a message, and what else is in it.
type Expected<'a> = (&'a str, &'a str);

fn calls_tell_the_context_of_their_object() -> Outcome {
    let (told, others) = (Told::new(), Told::new());
    let (setup, _other) = (told.setup()?, others.setup()?);
    let (context, queue) = (&setup.context, setup.queue.raw());
    let buffer = Buffer::new(context, 0, 64)?;
    let program = setup.load("spir12/vadd.bc64")?;
    program.build(SPIR12)?;
    let kernel = Kernel::new(&program, "vadd")?;
    let sampler = Sampler::new(context, false, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST)?;
    let event = Event::user(context)?;
    event.set_status(-7777)?;
    assert_eq!(told.now(), [""; 0]);
    let check = |result: cl::Result<()>, (start, part): Expected| {
        // All of these are told before the call returns.
        let messages = told.now();
        assert!(result.is_err() && messages.len() == 1, "{start}: {messages:?}");
        assert!(
            messages[0].starts_with(start) && messages[0].contains(part),
            "{start} … {part}: {messages:?}"
        );
    };
    check(
        kernel.set(1, 0_u32),
        ("clSetKernelArg: CL_INVALID_ARG_SIZE: kernel vadd: argument 1 (b) is a buffer", "arg_size is 4"),
    );
    check(
        kernel.set_object(3, None),
        ("clSetKernelArg: CL_INVALID_ARG_INDEX: kernel vadd has 3", "argument 3"),
    );
    check(kernel.set_object(0, Some(&sampler)), ("clSetKernelArg: CL_INVALID_MEM_OBJECT: 0x", "no cl_mem"));
    check(Buffer::new(context, 0, 0).map(drop), ("clCreateBuffer: CL_INVALID_BUFFER_SIZE: ", "0 bytes"));
    let read = call!(clEnqueueReadBuffer(queue, buffer.raw(), 1, 0, 8, null_mut(), 0, null(), null_mut()));
    check(read, ("clEnqueueReadBuffer: CL_INVALID_VALUE: ", "ptr is NULL"));
    let mut bytes = [0_u8; 8];
    let to = bytes.as_mut_ptr().cast();
    let read = call!(clEnqueueReadBuffer(queue, buffer.raw(), 1, 60, 8, to, 0, null(), null_mut()));
    check(read, ("clEnqueueReadBuffer: CL_INVALID_VALUE: ", "60..+8 of an object of 64"));
    let launch = setup.queue.launch(&kernel, NdRange::new(&[4], &[4])).map(drop);
    check(launch, ("clEnqueueNDRangeKernel: CL_INVALID_KERNEL_ARGS: kernel vadd: argument 0 (a)", "not set"));
    check(buffer.info::<u32>(0xdead).map(drop), ("clGetMemObjectInfo: CL_INVALID_VALUE: ", "0xdead"));
    check(sampler.info::<u32>(0xdead).map(drop), ("clGetSamplerInfo: CL_INVALID_VALUE: ", "0xdead"));
    check(Kernel::new(&program, "vsub").map(drop), ("clCreateKernel: CL_INVALID_KERNEL_NAME: ", "vsub"));
    check(program.build("-cl-nonsense"), ("clBuildProgram: CL_INVALID_BUILD_OPTIONS: ", "-cl-nonsense"));
    check(event.set_status(0), ("clSetUserEventStatus: CL_INVALID_OPERATION: ", "before"));
    let failed = ("clWaitForEvents: CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: ", "status -7777");
    check(event.wait(), failed);
    check(setup.load("spir12/vadd.bc32").and_then(|p| p.build(SPIR12)), ("clBuildProgram: CL_", "32"));
    assert_eq!(others.now(), [""; 0], "the other context");
    Ok(())
}

fn what_concerns_no_context_is_told_to_none() -> Outcome {
    let told = Told::new();
    let setup = told.setup()?;
    assert_eq!(status(setup.device.info::<u32>(0xdead)), "CL_INVALID_VALUE");
    assert_eq!(status(call!(clWaitForEvents(0, null()))), "CL_INVALID_VALUE");
    assert_eq!(status(call!(clFinish(null_mut()))), "CL_INVALID_COMMAND_QUEUE");
    assert_eq!(status(call!(clRetainKernel(setup.device.raw()))), "CL_INVALID_KERNEL");
    assert_eq!(told.now(), [""; 0]);
    Ok(())
}

/// A callback that makes an error of its own.
extern "C" fn tell_clumsily(message: *const c_char, info: *const c_void, size: size_t, data: *mut c_void) {
    tell(message, info, size, data);
    let context = *CONTEXT.lock().expect("no panic") as Handle;
    let mut count = 0;
    let error = call!(clGetContextInfo(context, 0xdead, 0, null_mut(), &mut count));
    pass_on(data, status(error));
}

/// The context of `tell_clumsily`.
static CONTEXT: Mutex<usize> = Mutex::new(0);

fn errors_of_the_callback_are_not_told_to_it() -> Outcome {
    let told = Told::new();
    let device = Device::first().raw();
    let context =
        Context::from_raw(create!(clCreateContext(null(), 1, &device, Some(tell_clumsily), told.data))?);
    *CONTEXT.lock()? = context.raw() as usize;
    for _ in 0..2 {
        assert_eq!(status(Buffer::new(&context, 0, 0)), "CL_INVALID_BUFFER_SIZE");
        let messages = told.now();
        assert!(messages.len() == 2 && messages[0].starts_with("clCreateBuffer: "), "{messages:?}");
        assert_eq!(messages[1], "CL_INVALID_VALUE");
    }
    Ok(())
}

extern "C" fn built(_: cl_program, data: *mut c_void) {
    pass_on(data, "built".into());
}

fn builds_with_a_callback_are_told() -> Outcome {
    let told = Told::new();
    let setup = told.setup()?;
    let program = setup.load("spir12/unresolved.bc64")?;
    let options = c"-x spir -spir-std=1.2".as_ptr();
    let result = call!(clBuildProgram(program.raw(), 0, null(), options, Some(built), told.data));
    assert_eq!(status(result), "CL_SUCCESS", "the build began");
    let (message, end) = (told.next()?, told.next()?);
    assert!(message.starts_with("clBuildProgram: CL_BUILD_PROGRAM_FAILURE: "), "{message}");
    let log = program.log(setup.device)?;
    assert!(!log.is_empty() && message.ends_with(&log), "{message}: {log}");
    assert_eq!(end, "built");
    Ok(())
}

/// Holds up the thread of callbacks.
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

static GATE: Gate = Gate { open: Mutex::new(false), opened: Condvar::new() };

extern "C" fn wait_at_gate(_: cl_event, _: cl_int, _: *mut c_void) {
    let mut open = GATE.open.lock().expect("no panic");
    while !*open {
        open = GATE.opened.wait(open).expect("no panic");
    }
}

extern "C" fn nothing(_: *mut c_void) {}

/// Lets this process have so many bytes of memory more while `body` runs.
fn with_little_memory<T>(bytes: u64, body: impl FnOnce() -> T) -> Result<T, Failure> {
    // The least of what is seen for a while: a thread that starts maps twice what it keeps, for a moment.
    let mut pages = u64::MAX;
    for _ in 0..10 {
        let statm = fs::read_to_string("/proc/self/statm")?;
        pages = pages.min(statm.split(' ').next().unwrap_or_default().parse()?);
        std::thread::sleep(Duration::from_millis(2));
    }
    let before = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(pages * 4096 + bytes), ..before })?;
    let result = body();
    setrlimit(Resource::As, before)?;
    Ok(result)
}

fn failed_commands_are_told_before_the_context_ends() -> Outcome {
    let told = Told::new();
    let setup = told.setup()?;
    let sender = told.sender.clone();
    let gone = Box::new(move || drop(sender.send("gone".into())));
    assert_eq!(on_context_destroyed(&setup.context, gone), CL_SUCCESS);
    if !compiles_sources()? {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    // 64 MiB of private memory: more than the C library can find where it has reserved some already.
    let source = "kernel void hungry(global int *p) {\n\
                  volatile int own[16 << 20]; own[p[0]] = 1; p[0] = own[p[0] + 1024]; }";
    let program = Program::from_source(&setup.context, source)?;
    program.build("")?;
    let kernel = Kernel::new(&program, "hungry")?;
    let buffer = Buffer::copy_of(&setup.context, &[0_i32])?;
    kernel.set_object(0, Some(&buffer))?;
    // The queue's thread and that of callbacks are there before memory gets scarce; the latter is busy for long.
    let mut event = null_mut();
    let (queue, none) = (setup.queue.raw(), null_mut());
    call!(clEnqueueNativeKernel(queue, Some(nothing), none, 0, 0, null(), null(), 0, null(), &mut event))?;
    let first = Event::from_raw(event);
    call!(clSetEventCallback(first.raw(), CL_COMPLETE, Some(wait_at_gate), null_mut()))?;
    setup.queue.finish()?;
    let launched = with_little_memory(20 << 20, || {
        let event = setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
        setup.queue.finish().map(|()| event)
    })??;
    assert_eq!(launched.status()?, CL_OUT_OF_RESOURCES);
    drop((first, launched, kernel, program, buffer, setup));
    assert_eq!(told.now(), [""; 0], "the callbacks' thread is held up");
    *GATE.open.lock()? = true;
    GATE.opened.notify_all();
    let message = told.next()?;
    let start = "CL_COMMAND_NDRANGE_KERNEL ended with CL_OUT_OF_RESOURCES: kernel hungry: ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(told.next()?, "gone");
    Ok(())
}

fn compiles_sources() -> cl::Result<bool> {
    Ok(Device::first().info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? == CL_TRUE)
}

/// Errors and builds for the log to tell of.
fn misuse() -> Outcome {
    let setup = Setup::new();
    assert_eq!(status(Buffer::new(&setup.context, 0, 0)), "CL_INVALID_BUFFER_SIZE");
    assert_eq!(status(setup.kernel("spir12/vadd.bc64", "vadd").set(0, 1_u8)), "CL_INVALID_ARG_SIZE");
    assert_eq!(status(setup.load("spir12/unresolved.bc64")?.build(SPIR12)), "CL_BUILD_PROGRAM_FAILURE");
    Ok(())
}

const BUFFER_ERROR: &str = "error: clCreateBuffer: CL_INVALID_BUFFER_SIZE: ";
const ARGUMENT_ERROR: &str =
    "error: clSetKernelArg: CL_INVALID_ARG_SIZE: kernel vadd: argument 0 (a) is a buffer";
const BUILD_ERROR: &str = "error: clBuildProgram: CL_BUILD_PROGRAM_FAILURE: ";
const BUILD: &str = "info: clBuildProgram of ";

/// Runs a test of this file with a value of SPIRULA_LOG; what it writes to standard error.
fn logged(test: &str, setting: Option<&str>) -> Result<String, Failure> {
    let mut command = isolate::child(&format!("errors::{test}"))?;
    match setting {
        Some(setting) => command.env("SPIRULA_LOG", setting),
        None => command.env_remove("SPIRULA_LOG"),
    };
    run(&mut command).map(|(_, stderr)| stderr)
}

/// What a program that must succeed writes to standard output and standard error.
fn run(command: &mut Command) -> Result<(String, String), Failure> {
    let done = supervise::run(command, Duration::from_secs(60))?;
    let [stdout, stderr] = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    match done.status.is_some_and(|status| status.success()) {
        true => Ok((stdout, stderr)),
        false => Err(Failure::Failed(stderr)),
    }
}

/// The log's lines in a text, without what names the process.
fn lines(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("spirula[")?.split_once("] ").map(|parts| parts.1))
        .collect()
}

/// Whether these are the lines, by their beginnings.
fn check_lines(text: &str, beginnings: &[&str]) {
    let lines = lines(text);
    let same = lines.len() == beginnings.len()
        && lines.iter().zip(beginnings).all(|(line, beginning)| line.starts_with(beginning));
    assert!(same, "{beginnings:#?} expected:\n{text}");
}

fn the_log_goes_where_its_variable_says() -> Outcome {
    let errors = [BUFFER_ERROR, ARGUMENT_ERROR, BUILD_ERROR];
    let all = [BUFFER_ERROR, BUILD, ARGUMENT_ERROR, BUILD, BUILD_ERROR];
    for nothing in [None, Some(""), Some("off")] {
        check_lines(&logged("misuse", nothing)?, &[]);
    }
    check_lines(&logged("misuse", Some("error"))?, &errors);
    let on_stderr = logged("misuse", Some("info"))?;
    check_lines(&on_stderr, &all);
    assert!(on_stderr.contains(" bytes of SPIR took "), "{on_stderr}");
    assert!(on_stderr.contains(": kernels vadd, saxpy4, daxpy, copy_uchar\n"), "{on_stderr}");
    assert!(on_stderr.contains(": CL_BUILD_PROGRAM_FAILURE\n"), "{on_stderr}");

    // Also what the application keeps to itself.
    let mut remarks = isolate::child("errors::misuse")?;
    let (_, remarked) = run(remarks.env("SPIRULA_LOG", "info").env("SPIRULA_REMARKS", "1"))?;
    check_lines(&remarked, &all);
    assert!(remarked.contains("\n    ") && remarked.matches("saxpy4").count() > 2, "{remarked}");

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("log");
    let setting = |level: &str| format!("{level}:{}", file.display());
    check_lines(&logged("misuse", Some(&setting("error")))?, &[]);
    check_lines(&fs::read_to_string(&file)?, &errors);
    check_lines(&logged("misuse", Some(&setting("info")))?, &[]);
    check_lines(&fs::read_to_string(&file)?, &[&errors[..], &all].concat());
    if compiles_sources()? {
        fs::remove_file(&file)?;
        logged("failed_commands_are_told_before_the_context_ends", Some(&setting("error")))?;
        let failed = "error: CL_COMMAND_NDRANGE_KERNEL ended with CL_OUT_OF_RESOURCES: kernel hungry: ";
        check_lines(&fs::read_to_string(&file)?, &[failed]);
    }

    check_lines(&logged("misuse", Some("loud"))?, &["error: SPIRULA_LOG=\"loud\" is not understood"]);
    let nowhere = logged("misuse", Some("error:/nowhere/at/all"))?;
    check_lines(&nowhere, &[&["error: can't write the log to \"/nowhere/at/all\""], &errors[..]].concat());
    Ok(())
}

/// Tells a set-uid copy of this program which library to use.
const COPY: &str = "SPIRULA_TEST_COPY";
/// A user without rights.
const NOBODY: u32 = 65534;

fn set_uid_programs_ignore_the_variable() -> Outcome {
    if let Some(library) = env::var_os(COPY) {
        return make_an_error_with(Path::new(&library));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::Skipped("only root can give a program to another user".into()));
    }
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let (program, library) = (folder.path().join("program"), folder.path().join("library.so"));
    fs::copy(env::current_exe()?, &program)?;
    fs::copy(icd::library()?, &library)?;
    chown(&program, Some(NOBODY), Some(NOBODY))?;
    let log = |mode: u32| -> Result<(String, String), Failure> {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode))?;
        let file: PathBuf = folder.path().join(format!("log-{mode:o}"));
        let mut command = Command::new(&program);
        command.env("SPIRULA_TEST", "errors::set_uid_programs_ignore_the_variable").env(COPY, &library);
        let (user, _) = run(command.env("SPIRULA_LOG", format!("error:{}", file.display())))?;
        Ok((user, fs::read_to_string(&file).unwrap_or_default()))
    };
    let (user, text) = log(0o755)?;
    assert_eq!(user, "root");
    check_lines(&text, &["error: clGetPlatformIDs: CL_INVALID_VALUE: "]);
    let (user, text) = log(0o4755)?;
    match user.as_str() {
        "root" => Err(Failure::Skipped("the temporary folder's file system has no set-uid programs".into())),
        _ => {
            assert_eq!((user.as_str(), text.as_str()), ("another", ""));
            Ok(())
        }
    }
}

/// Makes an error with this library, without a loader, and prints who this program is.
fn make_an_error_with(library: &Path) -> Outcome {
    type GetPlatformIds = unsafe extern "C" fn(cl_uint, *mut Handle, *mut cl_uint) -> cl_int;
    // SAFETY: the library under test, whose initializers are none that matter.
    let library = unsafe { libloading::Library::new(library) }?;
    // SAFETY: cl_khr_icd: the function has this signature; it takes null for both results.
    let status = unsafe {
        let get = library.get::<GetPlatformIds>(c"clIcdGetPlatformIDsKHR".to_bytes_with_nul())?;
        get(0, null_mut(), null_mut())
    };
    assert_eq!(status, CL_INVALID_VALUE);
    print!("{}", if rustix::process::geteuid().is_root() { "root" } else { "another" });
    Ok(())
}
