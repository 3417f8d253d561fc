//! Programs: binaries good and bad, builds, logs, links and what they yield.

use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{
    Buffer, CL_PROGRAM_BINARY_TYPE_INTERMEDIATE, Kernel, NdRange, Object, Program, SPIR12, code_name,
};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create, fixtures};
use std::ffi::c_char;
use std::ptr::{null, null_mut};

tests![
    sources_and_binaries,
    not_spir_at_all,
    truncated,
    corrupted,
    bits32,
    wrong_spir_std,
    wrong_options,
    standard_options,
    unresolved_function,
    wrapped_bitcode,
    status_and_type,
    binaries_round_trip,
    compiled_binaries_round_trip,
    names_and_kernels,
    kernels_need_an_executable,
    no_rebuild_under_kernels,
    build_callback,
    program_outlives_its_handle,
    link_library,
    link_errors,
];

/// The binary's fate: the error's name and what the log says (empty if no program was made).
fn fate(setup: &Setup, binary: &[u8], options: &str) -> (String, String) {
    match Program::from_binary(&setup.context, setup.device, binary) {
        Err(e) => (code_name(e.code), String::new()),
        Ok(program) => {
            let built = status(program.build(options));
            (built, program.log(setup.device).unwrap_or_default())
        }
    }
}

/// A damaged file is CL_INVALID_BINARY at creation, or fails to build with a log.
fn assert_refused(setup: &Setup, binary: &[u8], what: &str) {
    let (code, log) = fate(setup, binary, SPIR12);
    match code.as_str() {
        "CL_INVALID_BINARY" => {}
        "CL_BUILD_PROGRAM_FAILURE" => assert!(!log.trim().is_empty(), "{what}: the log is empty"),
        other => panic!("{what}: {other}, log {log:?}"),
    }
}

/// Adds one to each of four ints with the program's kernel "copy_uchar", and checks that it ran.
fn assert_runs(setup: &Setup, program: &Program) -> Outcome {
    let input: Vec<u8> = (1..=16).collect();
    let (from, to) = (Buffer::copy_of(&setup.context, &input)?, Buffer::copy_of(&setup.context, &[0u8; 16])?);
    let kernel = Kernel::new(program, "copy_uchar")?;
    kernel.set_object(0, Some(&from))?;
    kernel.set_object(1, Some(&to))?;
    setup.queue.launch(&kernel, NdRange::new(&[16], &[4]))?;
    let mut output = vec![0u8; 16];
    setup.queue.read(&to, &mut output)?;
    assert_eq!(output, input);
    Ok(())
}

/// What programs are made of; nothing is built.
fn sources_and_binaries() -> Outcome {
    let setup = Setup::new();
    let context = setup.context.raw();
    let source = |count, pieces: &mut [*const c_char], lengths: *const usize| {
        let pieces = if pieces.is_empty() { null_mut() } else { pieces.as_mut_ptr() };
        create!(clCreateProgramWithSource(context, count, pieces, lengths)).map(Program::from_raw)
    };
    let text = c"kernel void nothing() {} and what is beyond its length".as_ptr();
    let program = source(1, &mut [text], &24)?;
    assert_eq!(program.info_string(CL_PROGRAM_SOURCE)?, "kernel void nothing() {}");
    assert_eq!(status(source(0, &mut [text], null())), "CL_INVALID_VALUE");
    assert_eq!(status(source(1, &mut [], null())), "CL_INVALID_VALUE");
    assert_eq!(status(source(1, &mut [null()], null())), "CL_INVALID_VALUE");
    let device = setup.device.raw();
    let binary = |length: usize, start: *const u8| {
        let mut code = 1;
        let made = create!(clCreateProgramWithBinary(context, 1, &device, &length, &start, &mut code));
        (status(made.map(Program::from_raw)), code_name(code))
    };
    let both = |name: &str| (name.to_string(), name.to_string());
    assert_eq!(binary(0, b"x".as_ptr()), both("CL_INVALID_VALUE"));
    assert_eq!(binary(1, null()), both("CL_INVALID_VALUE"));
    assert_eq!(binary(7, b"garbage".as_ptr()), both("CL_INVALID_BINARY"));
    Ok(())
}

fn not_spir_at_all() -> Outcome {
    let setup = Setup::new();
    assert_refused(&setup, b"This is no bitcode, but some text of a fair length.", "text");
    assert_refused(&setup, &[0; 64], "zeros");
    assert_refused(&setup, b"BC\xc0\xde", "the magic number alone");
    let device = setup.device.raw();
    let create = |count, length: usize, start: *const u8| {
        let mut codes = [1; 1];
        let context = setup.context.raw();
        let call =
            create!(clCreateProgramWithBinary(context, count, &device, &length, &start, codes.as_mut_ptr()));
        status(call.map(Program::from_raw))
    };
    assert_eq!(create(1, 0, b"BC\xc0\xde".as_ptr()), "CL_INVALID_VALUE");
    assert_eq!(create(1, 4, null()), "CL_INVALID_VALUE");
    assert_eq!(create(0, 4, b"BC\xc0\xde".as_ptr()), "CL_INVALID_VALUE");
    Ok(())
}

fn truncated() -> Outcome {
    let setup = Setup::new();
    let binary = fixtures::load("spir12/vadd.bc64");
    for keep in [1, 2, 3, 5, 7] {
        assert_refused(&setup, &binary[..binary.len() * keep / 8], &format!("{keep} eighths"));
    }
    Ok(())
}

fn corrupted() -> Outcome {
    let setup = Setup::new();
    let mut binary = fixtures::load("spir12/vadd.bc64");
    let middle = binary.len() / 4..binary.len() / 4 + 256;
    binary[middle].fill(0xff);
    assert_refused(&setup, &binary, "256 bytes overwritten");
    Ok(())
}

fn bits32() -> Outcome {
    let setup = Setup::new();
    let (code, log) = fate(&setup, &fixtures::load("spir12/vadd.bc32"), SPIR12);
    assert!(["CL_INVALID_BINARY", "CL_BUILD_PROGRAM_FAILURE"].contains(&code.as_str()), "{code}: {log}");
    if code == "CL_BUILD_PROGRAM_FAILURE" {
        assert!(log.contains("32"), "the log must name the cause: {log:?}");
    }
    Ok(())
}

fn wrong_spir_std() -> Outcome {
    let setup = Setup::new();
    let binary = fixtures::load("spir12/vadd.bc64");
    let (code, log) = fate(&setup, &binary, "-x spir -spir-std=9.7");
    let known = ["CL_INVALID_BUILD_OPTIONS", "CL_BUILD_PROGRAM_FAILURE", "CL_INVALID_BINARY"];
    assert!(known.contains(&code.as_str()), "{code}: {log}");
    assert!(log.contains("9.7"), "the log must name the version: {log:?}");
    let (code, log) = fate(&setup, &fixtures::load("spir20/generic.bc64"), SPIR12);
    assert!(known.contains(&code.as_str()) && log.contains("2.0"), "{code}: {log:?}");
    Ok(())
}

fn wrong_options() -> Outcome {
    let setup = Setup::new();
    let program = setup.load("spir12/vadd.bc64")?;
    for options in ["-x spir -spir-std=1.2 -cl-no-such-option", "-x cobol"] {
        assert_eq!(status(program.build(options)), "CL_INVALID_BUILD_OPTIONS", "{options}");
    }
    let devices = setup.device.raw();
    let build = |count, list: *const cl_device_id| {
        status(call!(clBuildProgram(program.raw(), count, list, c"".as_ptr(), None, null_mut())))
    };
    assert_eq!(build(1, null()), "CL_INVALID_VALUE");
    assert_eq!(build(0, &devices), "CL_INVALID_VALUE");
    assert_eq!(build(1, &setup.context.raw()), "CL_INVALID_DEVICE");
    program.build(SPIR12)?;
    assert_runs(&setup, &program)
}

fn standard_options() -> Outcome {
    let setup = Setup::new();
    for option in [
        "-cl-single-precision-constant",
        "-cl-denorms-are-zero",
        "-cl-fp32-correctly-rounded-divide-sqrt",
        "-cl-opt-disable",
        "-cl-mad-enable",
        "-cl-no-signed-zeros",
        "-cl-unsafe-math-optimizations",
        "-cl-finite-math-only",
        "-cl-fast-relaxed-math",
        "-w",
        "-cl-kernel-arg-info",
    ] {
        let program = setup.load("spir12/vadd.bc64")?;
        let options = format!("{SPIR12} {option}");
        program.build(&options).map_err(|e| format!("{option}: {e}"))?;
        assert_eq!(program.build_info_string(setup.device, CL_PROGRAM_BUILD_OPTIONS)?, options);
        assert_runs(&setup, &program).map_err(|e| format!("{option}: {e:?}"))?;
    }
    Ok(())
}

fn unresolved_function() -> Outcome {
    let setup = Setup::new();
    let (code, log) = fate(&setup, &fixtures::load("spir12/unresolved.bc64"), SPIR12);
    assert_eq!(code, "CL_BUILD_PROGRAM_FAILURE");
    assert!(log.contains("nowhere_to_be_found(int)"), "the signature, demangled: {log:?}");
    assert!(log.contains("lost"), "the kernel that needs it: {log:?}");
    Ok(())
}

fn wrapped_bitcode() -> Outcome {
    let setup = Setup::new();
    let bitcode = fixtures::load("spir12/vadd.bc64");
    assert_eq!(bitcode[..2], *b"BC", "the fixture is raw");
    const HEADER: u32 = 20;
    let mut wrapped = Vec::new();
    for word in [0x0B17_C0DE, 0, HEADER, bitcode.len() as u32, 0] {
        wrapped.extend(u32::to_le_bytes(word));
    }
    wrapped.extend(&bitcode);
    wrapped.resize(wrapped.len().next_multiple_of(16), 0);
    let program = Program::from_binary(&setup.context, setup.device, &wrapped)?;
    program.build(SPIR12)?;
    assert_runs(&setup, &program)?;
    let outside = u32::to_le_bytes(bitcode.len() as u32 * 2);
    wrapped[12..16].copy_from_slice(&outside);
    assert_refused(&setup, &wrapped, "a wrapper whose contents reach beyond the file");
    Ok(())
}

fn status_and_type() -> Outcome {
    let setup = Setup::new();
    let state = |p: &Program| p.build_info::<cl_build_status>(setup.device, CL_PROGRAM_BUILD_STATUS);
    let kind = |p: &Program| p.build_info::<u32>(setup.device, CL_PROGRAM_BINARY_TYPE);
    let program = setup.load("spir12/vadd.bc64")?;
    assert_eq!((state(&program)?, kind(&program)?), (CL_BUILD_NONE, CL_PROGRAM_BINARY_TYPE_INTERMEDIATE));
    program.compile(SPIR12)?;
    assert_eq!(
        (state(&program)?, kind(&program)?),
        (CL_BUILD_SUCCESS, CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT as u32)
    );
    program.build(SPIR12)?;
    assert_eq!(
        (state(&program)?, kind(&program)?),
        (CL_BUILD_SUCCESS, CL_PROGRAM_BINARY_TYPE_EXECUTABLE as u32)
    );
    let broken = setup.load("spir12/unresolved.bc64")?;
    assert!(broken.build(SPIR12).is_err());
    assert_eq!(state(&broken)?, CL_BUILD_ERROR);
    assert_eq!(program.info::<u32>(CL_PROGRAM_NUM_DEVICES)?, 1);
    assert_eq!(program.info_list::<usize>(CL_PROGRAM_DEVICES)?, [setup.device.raw() as usize]);
    assert_eq!(program.info::<usize>(CL_PROGRAM_CONTEXT)?, setup.context.raw() as usize);
    assert_eq!(program.info::<u32>(CL_PROGRAM_REFERENCE_COUNT)?, 1);
    Ok(())
}

fn binaries_round_trip() -> Outcome {
    let setup = Setup::new();
    let binary = setup.program("spir12/vadd.bc64").binary()?;
    assert!(!binary.is_empty());
    let again = Program::from_binary(&setup.context, setup.device, &binary)?;
    let kind = again.build_info::<u32>(setup.device, CL_PROGRAM_BINARY_TYPE)?;
    assert_eq!(kind, CL_PROGRAM_BINARY_TYPE_EXECUTABLE as u32);
    again.build("")?;
    assert_runs(&setup, &again)?;
    assert_eq!(again.binary()?, binary);
    for keep in [binary.len() / 2, binary.len() - 1] {
        assert_refused(&setup, &binary[..keep], "a truncated executable");
    }
    Ok(())
}

fn compiled_binaries_round_trip() -> Outcome {
    let setup = Setup::new();
    let reload = |fixture: &str| {
        let program = setup.load(fixture)?;
        program.compile(SPIR12)?;
        Program::from_binary(&setup.context, setup.device, &program.binary()?)
    };
    let (main, library) = (reload("spir12/link_main.bc64")?, reload("spir12/link_lib.bc64")?);
    let kind = main.build_info::<u32>(setup.device, CL_PROGRAM_BINARY_TYPE)?;
    assert_eq!(kind, CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT as u32);
    let linked = Program::link(&setup.context, "", &[&main, &library])?;
    Kernel::new(&linked, "user")?;
    Kernel::new(&linked, "lib_kernel")?;
    Ok(())
}

fn names_and_kernels() -> Outcome {
    let setup = Setup::new();
    let program = setup.program("spir12/vadd.bc64");
    let names = program.info_string(CL_PROGRAM_KERNEL_NAMES)?;
    let mut names: Vec<&str> = names.split(';').collect();
    assert_eq!(program.info::<usize>(CL_PROGRAM_NUM_KERNELS)?, 4);
    let kernels = program.kernels()?;
    let mut made: Vec<String> =
        kernels.iter().map(|k| k.info_string(CL_KERNEL_FUNCTION_NAME)).collect::<Result<_, _>>()?;
    names.sort();
    made.sort();
    assert_eq!(names, ["copy_uchar", "daxpy", "saxpy4", "vadd"]);
    assert_eq!(made, names);
    let mut few = [null_mut(); 2];
    let into_few = call!(clCreateKernelsInProgram(program.raw(), 2, few.as_mut_ptr(), null_mut()));
    assert_eq!(status(into_few), "CL_INVALID_VALUE");
    Ok(())
}

fn kernels_need_an_executable() -> Outcome {
    let setup = Setup::new();
    let program = setup.load("spir12/vadd.bc64")?;
    assert_eq!(status(Kernel::new(&program, "vadd")), "CL_INVALID_PROGRAM_EXECUTABLE");
    assert_eq!(status(program.kernels()), "CL_INVALID_PROGRAM_EXECUTABLE");
    assert_eq!(status(program.info_string(CL_PROGRAM_KERNEL_NAMES)), "CL_INVALID_PROGRAM_EXECUTABLE");
    program.build(SPIR12)?;
    assert_eq!(status(Kernel::new(&program, "subtract")), "CL_INVALID_KERNEL_NAME");
    assert_eq!(status(create!(clCreateKernel(program.raw(), null()))), "CL_INVALID_VALUE");
    Ok(())
}

fn no_rebuild_under_kernels() -> Outcome {
    let setup = Setup::new();
    let program = setup.program("spir12/vadd.bc64");
    let kernel = Kernel::new(&program, "vadd")?;
    assert_eq!(status(program.build(SPIR12)), "CL_INVALID_OPERATION");
    drop(kernel);
    program.build(SPIR12)?;
    assert_runs(&setup, &program)
}

/// What a callback of a build was called with and found; it creates a kernel of the program.
#[derive(Default)]
struct Told {
    program: usize,
    thread: Option<std::thread::ThreadId>,
    kernel: Option<String>,
}

extern "C" fn tell(program: cl_program, data: *mut c_void) {
    // SAFETY: the tests here pass a `Told` that lives until the call that builds has returned.
    let told = unsafe { &mut *data.cast::<Told>() };
    let kernel = create!(clCreateKernel(program, c"vadd".as_ptr()));
    told.kernel = Some(status(kernel.map(Kernel::from_raw)));
    (told.program, told.thread) = (program as usize, Some(std::thread::current().id()));
}

/// Builds with a callback have ended when the call returns, and the callback with them: what it takes may be gone then.
fn build_callback() -> Outcome {
    let setup = Setup::new();
    let options = std::ffi::CString::new(SPIR12)?;
    let check = |told: Told, program: &Program, kernel: &str, what: &str| {
        assert_eq!(told.program, program.raw() as usize, "{what}");
        assert_eq!(told.thread, Some(std::thread::current().id()), "{what}");
        assert_eq!(told.kernel.as_deref(), Some(kernel), "{what}");
    };
    // A failure is told to the callback, not to the caller as well.
    let fates = [
        ("spir12/vadd.bc64", "CL_SUCCESS", CL_BUILD_SUCCESS),
        ("spir12/unresolved.bc64", "CL_INVALID_PROGRAM_EXECUTABLE", CL_BUILD_ERROR),
    ];
    for (fixture, kernel, state) in fates {
        let (program, mut told) = (setup.load(fixture)?, Told::default());
        let data = (&raw mut told).cast();
        call!(clBuildProgram(program.raw(), 0, null(), options.as_ptr(), Some(tell), data))?;
        check(told, &program, kernel, fixture);
        assert_eq!(program.build_info::<cl_build_status>(setup.device, CL_PROGRAM_BUILD_STATUS)?, state);
    }
    // What could not begin has no end to be told of.
    let (program, mut told) = (setup.load("spir12/vadd.bc64")?, Told::default());
    let data = (&raw mut told).cast();
    let result = call!(clBuildProgram(program.raw(), 0, null(), c"-no".as_ptr(), Some(tell), data));
    assert_eq!((status(result).as_str(), told.program), ("CL_INVALID_BUILD_OPTIONS", 0));

    let (device, mut told, text) = (null(), Told::default(), options.as_ptr());
    let data = (&raw mut told).cast();
    let (headers, names) = (null(), null_mut());
    call!(clCompileProgram(program.raw(), 0, device, text, 0, headers, names, Some(tell), data))?;
    check(told, &program, "CL_INVALID_PROGRAM_EXECUTABLE", "compiled");

    let (context, input, mut told) = (setup.context.raw(), program.raw(), Told::default());
    let data = (&raw mut told).cast();
    let linked = create!(clLinkProgram(context, 0, device, null(), 1, &input, Some(tell), data))?;
    check(told, &Program::from_raw(linked), "CL_SUCCESS", "linked");
    Ok(())
}

fn program_outlives_its_handle() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd"); // its program's handle is released
    let (a, b) = ([1f32, 2.0, 3.0, 4.0], [10f32, 20.0, 30.0, 40.0]);
    let buffers = [&a, &b, &[0f32; 4]].map(|data| Buffer::copy_of(&setup.context, data).expect("a buffer"));
    for (index, buffer) in buffers.iter().enumerate() {
        kernel.set_object(index as u32, Some(buffer))?;
    }
    setup.queue.launch(&kernel, NdRange::new(&[4], &[2]))?;
    drop(kernel); // while it may still run
    let mut sum = [0f32; 4];
    setup.queue.read(&buffers[2], &mut sum)?;
    assert_eq!(sum, [11.0, 22.0, 33.0, 44.0]);
    Ok(())
}

fn link_library() -> Outcome {
    let setup = Setup::new();
    let (main, part) = (setup.load("spir12/link_main.bc64")?, setup.load("spir12/link_lib.bc64")?);
    main.compile(SPIR12)?;
    part.compile(SPIR12)?;
    let library = Program::link(&setup.context, "-create-library", &[&part])?;
    let kind = library.build_info::<u32>(setup.device, CL_PROGRAM_BINARY_TYPE)?;
    assert_eq!(kind, CL_PROGRAM_BINARY_TYPE_LIBRARY as u32);
    let linked = Program::link(&setup.context, "", &[&main, &library])?;
    Kernel::new(&linked, "user")?;
    Ok(())
}

fn link_errors() -> Outcome {
    let setup = Setup::new();
    let main = setup.load("spir12/link_main.bc64")?;
    assert_eq!(status(Program::link(&setup.context, "", &[&main])), "CL_INVALID_OPERATION", "not compiled");
    main.compile(SPIR12)?;
    assert_eq!(
        status(Program::link(&setup.context, "", &[&main])),
        "CL_LINK_PROGRAM_FAILURE",
        "symbols are missing"
    );
    assert_eq!(
        status(Program::link(&setup.context, "-no-such-option", &[&main])),
        "CL_INVALID_LINKER_OPTIONS"
    );
    assert_eq!(status(Program::link(&setup.context, "", &[])), "CL_INVALID_VALUE");
    let (context, none) = (setup.context.raw(), null_mut());
    let wrong = create!(clLinkProgram(context, 0, null(), null(), 1, &context, None, none));
    assert_eq!(status(wrong), "CL_INVALID_PROGRAM");
    Ok(())
}
