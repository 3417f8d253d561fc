//! Programs from OpenCL C: what their log says, their headers, options and libraries, and what they compute. Skipped on a
//! device without a compiler.

use crate::setup::{Setup, again, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Object, Program, SPIR12};
use spirula_tests::isolate::{Failure, Outcome};
use spirula_tests::{call, create};
use std::ffi::CString;
use std::ptr::{null, null_mut};

tests![
    pieces_are_joined,
    without_a_compiler,
    errors_are_logged,
    warnings_are_logged,
    options_mean_what_they_say,
    wrong_options,
    versions_and_macros,
    headers,
    folders,
    folders_of_the_user,
    endless_source,
    any_file_of_the_applications,
    no_other_file,
    source_and_spir,
    libraries,
    binaries_round_trip,
    objects_round_trip,
    argument_information,
    rebuilt,
    images_and_samplers,
    local_memory,
    atomics_of_c11,
];

/// The test's machine, if it has a compiler.
pub fn setup() -> Result<Setup, Failure> {
    let setup = Setup::new();
    match setup.device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? {
        CL_TRUE => Ok(setup),
        _ => Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into())),
    }
}

/// A program that must build.
pub fn built(setup: &Setup, source: &str, options: &str) -> cl::Result<Program> {
    let program = Program::from_source(&setup.context, source)?;
    let log = || program.log(setup.device).unwrap_or_default();
    program.build(options).inspect_err(|_| eprintln!("{source}\n{}", log()))?;
    Ok(program)
}

/// What kernel `k` of the program writes into its only argument, an array of ints, for so many work-items.
pub fn run(setup: &Setup, program: &Program, items: usize) -> cl::Result<Vec<i32>> {
    let kernel = Kernel::new(program, "k")?;
    let mut output = vec![-1; items];
    let buffer = Buffer::copy_of(&setup.context, &output)?;
    kernel.set_object(0, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[items], &[items]))?;
    setup.queue.read(&buffer, &mut output)?;
    Ok(output)
}

/// What a kernel of one work-item computes with this expression.
fn value(setup: &Setup, expression: &str, options: &str) -> cl::Result<i32> {
    let source = format!("kernel void k(global int *out) {{ *out = {expression}; }}");
    Ok(run(setup, &built(setup, &source, options)?, 1)?[0])
}

fn pieces_are_joined() -> Outcome {
    let setup = setup()?;
    let pieces = [
        c"kernel void k(global int *out)".as_ptr(),
        c"{ out[get_global_id(0)] =*".as_ptr(),
        c" 7; }".as_ptr(),
    ];
    let lengths = [0, 25, 0];
    let mut pieces = pieces;
    let program = Program::from_raw(create!(clCreateProgramWithSource(
        setup.context.raw(),
        3,
        pieces.as_mut_ptr(),
        lengths.as_ptr()
    ))?);
    program.build("")?;
    assert_eq!(run(&setup, &program, 4)?, [7; 4]);
    assert_eq!(
        program.info_string(CL_PROGRAM_SOURCE)?,
        "kernel void k(global int *out){ out[get_global_id(0)] = 7; }"
    );
    Ok(())
}

fn without_a_compiler() -> Outcome {
    const NOWHERE: &str = "/nowhere/clang";
    if std::env::var_os("SPIRULA_CLANG").is_none_or(|named| named != NOWHERE) {
        again("sources::without_a_compiler", "SPIRULA_CLANG", NOWHERE);
        return Ok(());
    }
    let setup = Setup::new();
    assert_eq!(setup.device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)?, CL_FALSE);
    let program = Program::from_source(&setup.context, "kernel void k() {}")?;
    assert_eq!(status(program.build("")), "CL_COMPILER_NOT_AVAILABLE");
    assert_eq!(status(program.compile("")), "CL_COMPILER_NOT_AVAILABLE");
    assert!(program.log(setup.device)?.contains("SPIRULA_CLANG"));
    Ok(())
}

fn errors_are_logged() -> Outcome {
    let setup = setup()?;
    let program = Program::from_source(&setup.context, "kernel void k() {\n  undeclared = 1;\n}\n")?;
    assert_eq!(status(program.build("")), "CL_BUILD_PROGRAM_FAILURE");
    assert!(program.log(setup.device)?.contains("source.cl:2:3: error: use of undeclared identifier"));
    assert_eq!(status(program.compile("")), "CL_COMPILE_PROGRAM_FAILURE");
    let built: cl_build_status = program.build_info(setup.device, CL_PROGRAM_BUILD_STATUS)?;
    assert_eq!(built, CL_BUILD_ERROR);
    assert_eq!(status(Kernel::new(&program, "k")), "CL_INVALID_PROGRAM_EXECUTABLE");
    // What clang accepts and OpenCL C forbids, and what is nowhere defined.
    for (source, said) in [
        (
            "int f(int n) { return n ? f(n - 1) : 1; }\nkernel void k(global int *a) { *a = f(*a); }",
            "recursion",
        ),
        ("void missing(int);\nkernel void k() { missing(1); }", "missing"),
        ("kernel void k() { __asm__(\"nop\"); }", "assembly"),
    ] {
        let program = Program::from_source(&setup.context, source)?;
        assert_eq!(status(program.build("")), "CL_BUILD_PROGRAM_FAILURE", "{source}");
        let log = program.log(setup.device)?;
        assert!(log.contains(said), "{source}: {log}");
    }
    Ok(())
}

fn warnings_are_logged() -> Outcome {
    let setup = setup()?;
    let program = built(&setup, "#warning careful\nkernel void k() {}", "")?;
    assert!(program.log(setup.device)?.contains("source.cl:1:2: warning: careful"));
    program.build("-w")?;
    assert_eq!(program.log(setup.device)?, "");
    assert_eq!(status(program.build("-Werror")), "CL_BUILD_PROGRAM_FAILURE");
    Ok(())
}

fn options_mean_what_they_say() -> Outcome {
    let setup = setup()?;
    assert_eq!(value(&setup, "A", "-DA=3")?, 3);
    assert_eq!(value(&setup, "A + sizeof(TEXT)", "-D A -D 'TEXT=\"a b\"'")?, 5);
    assert_eq!(value(&setup, "F(4)", "-DF(x)=x*x")?, 16);
    assert_eq!(value(&setup, "sizeof(1.0)", "")?, 8);
    assert_eq!(value(&setup, "sizeof(1.0)", "-cl-single-precision-constant")?, 4);
    let fast = "\n#ifdef __FAST_RELAXED_MATH__\n1\n#else\n0\n#endif\n";
    assert_eq!(value(&setup, fast, "")?, 0);
    assert_eq!(value(&setup, fast, "-cl-fast-relaxed-math")?, 1);
    let all = "-cl-denorms-are-zero -cl-fp32-correctly-rounded-divide-sqrt -cl-opt-disable -cl-strict-aliasing \
               -cl-mad-enable -cl-no-signed-zeros -cl-unsafe-math-optimizations -cl-finite-math-only \
               -cl-kernel-arg-info -w -Werror -g -cl-uniform-work-group-size";
    assert_eq!(value(&setup, "(int)sqrt((float)out[1 - 1] + 10.0f)", all)?, 3);
    Ok(())
}

fn wrong_options() -> Outcome {
    let setup = setup()?;
    let program = Program::from_source(&setup.context, "kernel void k() {}")?;
    for option in [
        "-cl-nonsense",
        "@/etc/passwd",
        "-D",
        "-I",
        "/etc/passwd",
        "-cl-std=CL9.9",
        "-x spir",
        "-include /etc/passwd",
    ] {
        assert_eq!(status(program.build(option)), "CL_INVALID_BUILD_OPTIONS", "{option}");
        let log = program.log(setup.device)?;
        let named = option.split(' ').next().unwrap_or(option);
        assert!(log.starts_with("error: unknown option: ") && log.contains(named), "{option}: {log}");
        assert_eq!(status(program.compile(option)), "CL_INVALID_COMPILER_OPTIONS", "{option}");
    }
    // The value of -D is never an option or a file.
    for definition in ["@/etc/passwd=1", "-fplugin=x"] {
        assert_eq!(status(program.build(&format!("-D {definition}"))), "CL_BUILD_PROGRAM_FAILURE");
        let log = program.log(setup.device)?;
        assert!(log.contains("macro name must be an identifier"), "{log}");
    }
    Ok(())
}

/// CL_DEVICE_OPENCL_C_ALL_VERSIONS.
const OPENCL_C_ALL_VERSIONS: cl_uint = 0x1066;

fn versions_and_macros() -> Outcome {
    let setup = setup()?;
    assert_eq!(value(&setup, "__OPENCL_C_VERSION__", "")?, 120);
    // Each a number, of which the lowest 22 bits are minor and patch, and a name of 64 bytes.
    let reported = setup.device.info_list::<u8>(OPENCL_C_ALL_VERSIONS)?;
    let versions: Vec<(u32, u32)> = reported
        .chunks(68)
        .map(|entry| u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]))
        .map(|number| (number >> 22, number >> 12 & 0x3ff))
        .collect();
    assert_eq!(versions, [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0)]);
    for (major, minor) in versions {
        let option = format!("-cl-std=CL{major}.{minor}");
        let found = value(&setup, "__OPENCL_C_VERSION__", &option)?;
        assert_eq!(found, (100 * major + 10 * minor) as i32, "{option}");
    }
    let version = setup.device.info_string(CL_DEVICE_VERSION)?;
    let digits: String = version.chars().filter(char::is_ascii_digit).take(2).collect();
    assert_eq!(value(&setup, "__OPENCL_VERSION__", "")?, 10 * digits.parse::<i32>()?, "{version}");
    assert_eq!(
        value(&setup, "__ENDIAN_LITTLE__ + __IMAGE_SUPPORT__ + __kernel_arg(1)", "-D__kernel_arg(x)=x")?,
        3
    );
    Ok(())
}

/// clCompileProgram with these headers.
fn compile(program: &Program, headers: &[(&str, &Program)]) -> cl::Result<()> {
    let texts: Vec<CString> = headers.iter().map(|(name, _)| CString::new(*name).expect("a name")).collect();
    let mut names: Vec<_> = texts.iter().map(|name| name.as_ptr()).collect();
    let programs: Vec<_> = headers.iter().map(|(_, program)| program.raw()).collect();
    call!(clCompileProgram(
        program.raw(),
        0,
        null(),
        c"".as_ptr(),
        headers.len() as u32,
        programs.as_ptr(),
        names.as_mut_ptr(),
        None,
        null_mut()
    ))
}

fn headers() -> Outcome {
    let setup = setup()?;
    let source = |text: &str| Program::from_source(&setup.context, text);
    let program =
        source("#include \"a.h\"\n#include <deep/er.h>\nkernel void k(global int *out) { *out = A + B; }")?;
    assert_eq!(status(program.compile("")), "CL_COMPILE_PROGRAM_FAILURE");
    let (a, deeper, up) =
        (source("#define A 40\n")?, source("#include \"../up.h\"\n")?, source("#define B 2\n")?);
    compile(&program, &[("a.h", &a), ("deep/er.h", &deeper), ("up.h", &up)])?;
    let linked = Program::link(&setup.context, "", &[&program])?;
    assert_eq!(run(&setup, &linked, 1)?, [42]);
    Ok(())
}

fn folders() -> Outcome {
    let setup = setup()?;
    let folder = std::env::temp_dir().join(format!("spirula folder {}", std::process::id()));
    std::fs::create_dir_all(folder.join("sub"))?;
    std::fs::write(folder.join("sub/a.h"), "#define A 5\n")?;
    let source = "#include \"sub/a.h\"\nkernel void k(global int *out) { *out = A; }";
    let program = built(&setup, source, &format!("-I nowhere -I '{}'", folder.display()))?;
    assert_eq!(run(&setup, &program, 1)?, [5]);
    std::env::set_current_dir(&folder)?;
    assert_eq!(run(&setup, &built(&setup, source, "-I.")?, 1)?, [5]);
    std::env::set_current_dir("/")?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn folders_of_the_user() -> Outcome {
    let folder = std::env::temp_dir().join(format!("spirula-include-{}", std::process::id()));
    match std::env::var_os("SPIRULA_INCLUDE") {
        None => {
            setup()?;
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("a.h"), "#define A 6\n")?;
            again(
                "sources::folders_of_the_user",
                "SPIRULA_INCLUDE",
                &format!("nowhere:{}", folder.display()),
            );
            std::fs::remove_dir_all(folder)?;
        }
        Some(folders) => {
            let setup = setup()?;
            let folder = folders.to_string_lossy().replace("nowhere:", "");
            for name in ["a.h", &format!("{folder}/a.h")] {
                let source = format!("#include \"{name}\"\nkernel void k(global int *out) {{ *out = A; }}");
                assert_eq!(run(&setup, &built(&setup, &source, "")?, 1)?, [6]);
            }
        }
    }
    Ok(())
}

fn endless_source() -> Outcome {
    if std::env::var_os("SPIRULA_COMPILER_TIMEOUT").is_none() {
        setup()?;
        again("sources::endless_source", "SPIRULA_COMPILER_TIMEOUT", "3");
        return Ok(());
    }
    // Each line doubles what the one before it means.
    let setup = setup()?;
    let doubled = (1..60).map(|n| format!("#define D{n} D{} D{}\n", n - 1, n - 1));
    let source = format!("#define D0 +1\n{}constant long x = 0 D59;\n", doubled.collect::<String>());
    let program = Program::from_source(&setup.context, &source)?;
    assert_eq!(status(program.build("")), "CL_BUILD_PROGRAM_FAILURE");
    assert!(!program.log(setup.device)?.is_empty());
    // The next one is none the worse for it.
    assert_eq!(value(&setup, "5", "")?, 5);
    Ok(())
}

fn any_file_of_the_applications() -> Outcome {
    let setup = setup()?;
    let folder = std::env::temp_dir().join(format!("spirula-any-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("a.h"), "#define A 7\n")?;
    let path = folder.display();
    // As hashcat includes its own headers.
    let by_macro = "#define STRING(x) #x\n#define M2S(x) STRING(x)\n#include M2S(INCLUDE_PATH/a.h)";
    let absolute = format!("#include \"{path}/a.h\"");
    let defined = format!("-D INCLUDE_PATH={path}");
    for (include, options) in
        [(by_macro, defined.as_str()), (&absolute, ""), ("#include <a.h>", &format!("-I {path}"))]
    {
        let source = format!("{include}\nkernel void k(global int *out) {{ *out = A; }}");
        assert_eq!(run(&setup, &built(&setup, &source, options)?, 1)?, [7], "{include}");
    }
    // Beside the working directory, which may change.
    let source = "#include \"a.h\"\nkernel void k(global int *out) { *out = A; }";
    std::env::set_current_dir(&folder)?;
    assert_eq!(run(&setup, &built(&setup, source, "")?, 1)?, [7]);
    // What changed is read anew, however the directive is written.
    for (number, source) in
        [source, &source.replace("include", "import"), &source.replace("inc", "inc\\ \n")].iter().enumerate()
    {
        for value in [number as i32 + 10, number as i32 + 20] {
            std::fs::write(folder.join("a.h"), format!("#define A {value}\n"))?;
            let program = Program::from_source(&setup.context, source)?;
            program.build("")?;
            assert_eq!(run(&setup, &program, 1)?, [value], "{source}");
        }
    }
    std::env::set_current_dir("/")?;
    let program = Program::from_source(&setup.context, "#include \"missing.h\"")?;
    assert_eq!(status(program.build(&format!("-I {path}"))), "CL_BUILD_PROGRAM_FAILURE");
    let log = program.log(setup.device)?;
    assert!(log.contains("'missing.h' file not found") && log.contains(&format!("({path})")), "{log}");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn no_other_file() -> Outcome {
    if std::env::var_os("SPIRULA_INCLUDE_ONLY").is_none() {
        setup()?;
        again("sources::no_other_file", "SPIRULA_INCLUDE_ONLY", "/usr/include/nowhere");
        return Ok(());
    }
    let setup = setup()?;
    for source in [
        "#include \"/etc/passwd\"",
        "#include \"../../../../../../../../../../etc/passwd\"",
        "constant char text[] = {\n#embed \"/etc/passwd\"\n};",
        "#if __has_include(\"/etc/passwd\")\n#else\n#error 'passwd' file not found\n#endif",
    ] {
        let program = Program::from_source(&setup.context, source)?;
        assert_eq!(status(program.build("-I /usr/include")), "CL_BUILD_PROGRAM_FAILURE", "{source}");
        let log = program.log(setup.device)?;
        assert!(log.contains("file not found") && !log.contains("root:"), "{source}: {log}");
    }
    let assembly = "__asm__(\".incbin \\\"/etc/passwd\\\"\");\nkernel void k() {}";
    let program = Program::from_source(&setup.context, assembly)?;
    assert_eq!(status(program.build("")), "CL_BUILD_PROGRAM_FAILURE");
    assert!(program.log(setup.device)?.contains("assembly"));
    Ok(())
}

fn source_and_spir() -> Outcome {
    let setup = setup()?;
    let spir = setup.load("spir12/vadd.bc64")?;
    spir.compile(SPIR12)?;
    let source = Program::from_source(&setup.context, "kernel void k(global int *out) { *out = 9; }")?;
    source.compile("")?;
    let linked = Program::link(&setup.context, "", &[&spir, &source])?;
    assert_eq!(run(&setup, &linked, 1)?, [9]);
    assert_eq!(linked.kernels()?.len(), setup.program("spir12/vadd.bc64").kernels()?.len() + 1);
    Ok(())
}

fn libraries() -> Outcome {
    let setup = setup()?;
    let compiled = |text: &str| -> cl::Result<Program> {
        let program = Program::from_source(&setup.context, text)?;
        program.compile("")?;
        Ok(program)
    };
    let twice = compiled("int twice(int x) { return 2 * x; }")?;
    let library = Program::link(&setup.context, "-create-library -enable-link-options", &[&twice])?;
    let library = Program::from_binary(&setup.context, setup.device, &library.binary()?)?;
    let user = compiled("int twice(int);\nkernel void k(global int *out) { *out = twice(21); }")?;
    assert_eq!(status(Program::link(&setup.context, "", &[&user])), "CL_LINK_PROGRAM_FAILURE");
    let linked = Program::link(&setup.context, "-cl-fast-relaxed-math", &[&user, &library])?;
    assert_eq!(run(&setup, &linked, 1)?, [42]);
    let unbuilt = Program::from_source(&setup.context, "kernel void k() {}")?;
    assert_eq!(status(Program::link(&setup.context, "", &[&unbuilt])), "CL_INVALID_OPERATION");
    Ok(())
}

fn binaries_round_trip() -> Outcome {
    let setup = setup()?;
    let program = built(&setup, "kernel void k(global int *out) { *out = 11; }", "")?;
    let binary = program.binary()?;
    let again = Program::from_binary(&setup.context, setup.device, &binary)?;
    assert_eq!(again.info_string(CL_PROGRAM_SOURCE)?, "");
    again.build("")?;
    assert_eq!(run(&setup, &again, 1)?, [11]);
    assert_eq!(again.binary()?, binary);
    let mut stale = binary;
    let middle = stale.len() / 2;
    stale[middle] ^= 1;
    assert_eq!(status(Program::from_binary(&setup.context, setup.device, &stale)), "CL_INVALID_BINARY");
    Ok(())
}

fn objects_round_trip() -> Outcome {
    let setup = setup()?;
    let program = Program::from_source(&setup.context, "kernel void k(global int *out) { *out = 12; }")?;
    assert!(program.binary()?.is_empty());
    program.compile("")?;
    let kind: cl_program_binary_type = program.build_info(setup.device, CL_PROGRAM_BINARY_TYPE)?;
    assert_eq!(u64::from(kind), CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT);
    let again = Program::from_binary(&setup.context, setup.device, &program.binary()?)?;
    let linked = Program::link(&setup.context, "", &[&again])?;
    assert_eq!(run(&setup, &linked, 1)?, [12]);
    Ok(())
}

fn argument_information() -> Outcome {
    let setup = setup()?;
    let source = "typedef int number;\nkernel __attribute__((reqd_work_group_size(4, 2, 1))) void k(\n\
                  global const volatile number *restrict a, local float4 *b, read_only image2d_t c, sampler_t d, uchar e,\n\
                  constant unsigned int *f) {}";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let text = |index, what| kernel.arg_info_string(index, what);
    for (index, (name, type_name, space)) in [
        ("a", "number*", CL_KERNEL_ARG_ADDRESS_GLOBAL),
        ("b", "float4*", CL_KERNEL_ARG_ADDRESS_LOCAL),
        ("c", "image2d_t", CL_KERNEL_ARG_ADDRESS_GLOBAL),
        ("d", "sampler_t", CL_KERNEL_ARG_ADDRESS_PRIVATE),
        ("e", "uchar", CL_KERNEL_ARG_ADDRESS_PRIVATE),
        ("f", "uint*", CL_KERNEL_ARG_ADDRESS_CONSTANT),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(text(index as u32, CL_KERNEL_ARG_NAME)?, name);
        assert_eq!(text(index as u32, CL_KERNEL_ARG_TYPE_NAME)?, type_name);
        assert_eq!(kernel.arg_info::<u32>(index as u32, CL_KERNEL_ARG_ADDRESS_QUALIFIER)?, space, "{name}");
    }
    let qualifiers: u64 = kernel.arg_info(0, CL_KERNEL_ARG_TYPE_QUALIFIER)?;
    assert_eq!(
        qualifiers,
        CL_KERNEL_ARG_TYPE_CONST | CL_KERNEL_ARG_TYPE_VOLATILE | CL_KERNEL_ARG_TYPE_RESTRICT
    );
    assert_eq!(kernel.arg_info::<u32>(2, CL_KERNEL_ARG_ACCESS_QUALIFIER)?, CL_KERNEL_ARG_ACCESS_READ_ONLY);
    let required: [usize; 3] = kernel.work_group_info(setup.device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE)?;
    assert_eq!(required, [4, 2, 1]);
    Ok(())
}

fn rebuilt() -> Outcome {
    let setup = setup()?;
    let program = built(&setup, "kernel void k(global int *out) { *out = A; }", "-DA=1")?;
    assert_eq!(run(&setup, &program, 1)?, [1]);
    program.build("-DA=2")?;
    assert_eq!(run(&setup, &program, 1)?, [2]);
    assert_eq!(status(program.build("")), "CL_BUILD_PROGRAM_FAILURE");
    program.compile("-DA=3")?;
    assert_eq!(status(Kernel::new(&program, "k")), "CL_INVALID_PROGRAM_EXECUTABLE");
    let kernel = Kernel::new(&Program::link(&setup.context, "", &[&program])?, "k")?;
    assert_eq!(kernel.info_string(CL_KERNEL_FUNCTION_NAME)?, "k");
    Ok(())
}

fn images_and_samplers() -> Outcome {
    let setup = setup()?;
    let source = "constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;\n\
                  int4 look(read_only image2d_t image, int2 at) { return read_imagei(image, nearest, at); }\n\
                  kernel void copy(read_only image2d_t from, write_only image2d_t to, sampler_t sampler) {\n\
                  int2 at = (int2)(get_global_id(0), get_global_id(1));\n\
                  write_imagei(to, at, look(from, at) + read_imagei(from, sampler, at)); }";
    for options in ["", "-cl-std=CL1.1", "-cl-std=CL2.0", "-cl-std=CL3.0"] {
        Kernel::new(&built(&setup, source, options)?, "copy")?;
    }
    let both = "kernel void add(read_write image2d_t image, read_write image1d_buffer_t line) {\n\
                int x = get_global_id(0); int4 v = read_imagei(line, x);\n\
                write_imagei(image, (int2)(x, 0), read_imagei(image, (int2)(x, 0)) + v); }";
    for options in ["-cl-std=CL2.0", "-cl-std=CL3.0"] {
        Kernel::new(&built(&setup, both, options)?, "add")?;
    }
    Ok(())
}

fn atomics_of_c11() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global int *out) {\n\
                  global atomic_int *sum = (global atomic_int *)out; local atomic_uint most; local atomic_flag flag;\n\
                  int i = get_local_linear_id();\n\
                  if (i == 0) { atomic_init(&most, 0); atomic_flag_clear(&flag); }\n\
                  work_group_barrier(CLK_LOCAL_MEM_FENCE, memory_scope_work_group);\n\
                  atomic_fetch_add_explicit(sum, i, memory_order_relaxed, memory_scope_work_group);\n\
                  atomic_fetch_max(&most, i * 3u);\n\
                  if (!atomic_flag_test_and_set(&flag)) out[1] = 100;\n\
                  work_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n\
                  if (i == 0) {\n\
                  int expected = 5; global atomic_int *other = (global atomic_int *)(out + 2);\n\
                  atomic_store_explicit(other, 6, memory_order_release, memory_scope_device);\n\
                  out[3] = atomic_compare_exchange_strong(other, &expected, 7) ? -1 : expected;\n\
                  out[4] = atomic_compare_exchange_strong_explicit(other, &expected, 8, memory_order_relaxed,\n\
                      memory_order_relaxed, memory_scope_work_group);\n\
                  out[5] = atomic_load(&most); out[6] = atomic_exchange(other, 9) + ctz(8);\n\
                  out[7] = get_enqueued_local_size(0) + get_global_linear_id(); } }";
    let program = built(&setup, source, "-cl-std=CL3.0")?;
    assert_eq!(run(&setup, &program, 8)?, [27, 100, 9, 6, 1, 21, 11, 8]);
    Ok(())
}

fn local_memory() -> Outcome {
    let setup = setup()?;
    // Inline functions as C99 has them, a local array, a barrier, atomics, vectors, a private array and a struct by value.
    let source = "typedef struct { int a; float4 b; } pair;\n\
                  inline int add(pair p) { return p.a + (int)p.b.w; }\n\
                  constant int table[4] = {1, 2, 3, 4};\n\
                  kernel void k(global int *out) {\n\
                  local int shared[8]; local int sum; int own[4]; size_t i = get_local_id(0);\n\
                  for (int j = 0; j < 4; ++j) own[j] = table[j] + (int)i;\n\
                  if (i == 0) sum = 0;\n\
                  shared[i] = own[i & 3]; barrier(CLK_LOCAL_MEM_FENCE);\n\
                  atomic_add(&sum, shared[7 - i]); barrier(CLK_LOCAL_MEM_FENCE);\n\
                  pair p = {sum, (float4)(0, 0, 0, i)}; out[i] = add(p); }";
    for options in ["", "-cl-opt-disable", "-cl-std=CL1.0", "-cl-std=CL3.0"] {
        let program = built(&setup, source, options)?;
        assert_eq!(run(&setup, &program, 8)?, [48, 49, 50, 51, 52, 53, 54, 55], "{options}");
    }
    Ok(())
}
