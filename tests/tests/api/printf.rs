//! printf: what appears on standard output, in which order, and by when. Sources need a device with a compiler.

use crate::setup::{Setup, tests};
use rustix::process::{Resource, Rlimit, setrlimit};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Program, Queue};
use spirula_tests::isolate::{Failure, Outcome};
use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File};
use std::thread;

tests![
    every_conversion_prints_what_c_prints,
    vectors,
    strings_of_all_kinds,
    divergent_work_items,
    all_formats_of_a_work_item_in_order,
    no_more_than_the_buffer_holds,
    queues_and_threads_keep_their_texts_whole,
    in_order_with_the_application,
    by_the_end_of_the_command,
    much_text_takes_no_memory,
    binaries_print_too,
];

unsafe extern "C" {
    fn snprintf(buffer: *mut c_char, size: usize, format: *const c_char, ...) -> c_int;
    fn puts(text: *const c_char) -> c_int;
}

/// Standard output, turned into a file. (Each test is a process of its own.)
struct Output {
    folder: tempfile::TempDir,
}

impl Output {
    fn capture() -> std::io::Result<Output> {
        let output = Output { folder: tempfile::tempdir()? };
        rustix::stdio::dup2_stdout(File::create(output.path())?)?;
        Ok(output)
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("stdout")
    }

    /// What has been printed up to now.
    fn text(&self) -> std::io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.path())?).into_owned())
    }
}

/// The test's machine and its standard output, if sources can be compiled.
fn setup() -> Result<(Setup, Output), Failure> {
    let setup = Setup::new();
    match setup.device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? {
        CL_TRUE => Ok((setup, Output::capture()?)),
        _ => Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into())),
    }
}

fn kernel(setup: &Setup, source: &str) -> cl::Result<Kernel> {
    kernel_with(setup, source, "")
}

fn kernel_with(setup: &Setup, source: &str, options: &str) -> cl::Result<Kernel> {
    let program = Program::from_source(&setup.context, source)?;
    program.build(options).inspect_err(|_| eprintln!("{}", program.log(setup.device).unwrap_or_default()))?;
    Kernel::new(&program, "k")
}

fn run(setup: &Setup, kernel: &Kernel, items: usize, group: usize) -> cl::Result<()> {
    setup.queue.launch(kernel, NdRange::new(&[items], &[group]))?;
    setup.queue.finish()
}

/// A device without the extension ignores this, and has no vectors of half to print.
const HALF: &str = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n";

/// Prints nothing but what `body`, the statements of a kernel, prints when one work-item runs it.
fn prints(setup: &Setup, output: &Output, body: &str) -> Result<String, Failure> {
    let before = output.text()?.len();
    let kernel = kernel(setup, &format!("{HALF}kernel void k(void) {{\n{body}\n}}"))?;
    run(setup, &kernel, 1, 1)?;
    Ok(output.text()?[before..].to_string())
}

fn expect(got: &str, expected: &str) -> Outcome {
    if got == expected {
        return Ok(());
    }
    let (got, expected): (Vec<&str>, Vec<&str>) = (got.lines().collect(), expected.lines().collect());
    let at = got.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(got.len().min(expected.len()));
    Err(Failure::Failed(format!("line {at}: {:?} instead of {:?}", got.get(at), expected.get(at))))
}

/// What C prints for one argument.
macro_rules! c {
    ($format:expr, $value:expr) => {{
        let format = CString::new($format).expect("no NUL");
        let mut buffer = vec![0u8; 1024];
        // SAFETY: the buffer has its size, the format is terminated and has one conversion for this argument.
        let length = unsafe { snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), $value) };
        buffer.truncate(length as usize);
        String::from_utf8_lossy(&buffer).into_owned()
    }};
}

fn every_conversion_prints_what_c_prints() -> Outcome {
    let (setup, output) = setup()?;
    let fields = ["", "+", " ", "#", "-12", "012", "12", "+.3", "#20.10", "-#20.0", "012.4"];
    let formats = |letters: &str, lengths: &[&str]| -> Vec<String> {
        let all =
            fields.iter().flat_map(|field| lengths.iter().map(move |length| format!("{field}{length}")));
        all.flat_map(|prefix| letters.chars().map(move |l| format!("[%{prefix}{l}]\n"))).collect()
    };
    let (ints, longs) = (formats("diouxX", &["", "h", "hh"]), formats("diouxX", &["l"]));
    let (floats, others) = (formats("fFeEgGaA", &[""]), ["[%c]\n", "[%5c]\n", "[%-5c]\n", "[%%]%c\n"]);
    let call = |format: &String, value: &str| format!("printf({format:?}, {value});\n");
    let body: String = ints.iter().map(|f| call(f, "i")).chain(longs.iter().map(|f| call(f, "l"))).collect();
    let body = body + &floats.iter().map(|f| call(f, "d")).collect::<String>();
    let body = body + &others.map(|f| call(&f.to_string(), "(char)(i % 26 + 97)")).concat();
    let kernel = kernel(&setup, &format!("kernel void k(int i, long l, double d) {{\n{body}}}"))?;
    let values = [
        (0, 0, 0.0),
        (-42, -1 << 40, -1234.5678),
        (i32::MAX, i64::MAX, 1e-7),
        (i32::MIN, i64::MIN, f64::INFINITY),
        (48879, 1, -f64::NAN.copysign(1.0)),
        (7, 8, 5e-324),
        (1, -1, f64::MAX),
    ];
    let mut expected = String::new();
    for (i, l, d) in values {
        kernel.set(0, i)?;
        kernel.set(1, l)?;
        kernel.set(2, d)?;
        run(&setup, &kernel, 1, 1)?;
        expected.extend(ints.iter().map(|format| c!(format.as_str(), i)));
        expected.extend(longs.iter().map(|format| c!(format.as_str(), l)));
        expected.extend(floats.iter().map(|format| c!(format.as_str(), d)));
        expected.extend(others.map(|format| c!(format, c_int::from((i % 26 + 97) as i8))));
    }
    expect(&output.text()?, &expected)
}

fn vectors() -> Outcome {
    let (setup, output) = setup()?;
    for (call, expected) in [
        (r#""%v4hhd|%v2hhx", (char4)(1, -2, 127, -128), (uchar2)(255, 1)"#, "1,-2,127,-128|ff,1"),
        (r#""%v3hd %d", (short3)(-1, 2, 3), 4"#, "-1,2,3 4"),
        (
            r#""%5v2hld|%-5v4hlu|", (int2)(1, -2), (uint4)(1, 2, 3, 4)"#,
            "    1,   -2|1    ,2    ,3    ,4    |",
        ),
        (r#""%v8ld", (long8)(1, 2, 3, 4, 5, 6, 7, LONG_MIN)"#, "1,2,3,4,5,6,7,-9223372036854775808"),
        (r#""%+.1v3hlf;%v2hlg", (float3)(1.25f, -2, 3), (float2)(INFINITY, 0.1f)"#, "+1.2,-2.0,+3.0;inf,0.1"),
        (
            r#""%v2la %v3le", (double2)(1, 0.5), (double3)(1, 2, 3)"#,
            "0x1p+0,0x1p-1 1.000000e+00,2.000000e+00,3.000000e+00",
        ),
        (
            r#""%v4hf %.1f", (half4)(0.1, -2, INFINITY, 65504), (half)0.25"#,
            "0.099976,-2.000000,inf,65504.000000 0.2",
        ),
        (r#""%#v16hho", (uchar16)(8)"#, "010,010,010,010,010,010,010,010,010,010,010,010,010,010,010,010"),
    ] {
        expect(&prints(&setup, &output, &format!("printf({call});"))?, expected)?;
    }
    Ok(())
}

/// Known when the program is built, chosen when it runs, and made by the work-item.
fn strings_of_all_kinds() -> Outcome {
    let (setup, output) = setup()?;
    let source = r#"
        constant char red[] = "red";
        constant char * constant colours[3] = {red, "green", ""};
        void say(int number, constant char *what) { printf("%d:%s.", number, what); }
        kernel void k(int count) {
            for (int i = 0; i < count; i++) {
                char own[12];
                int length = 0;
                for (; length <= 2 * i; length++) own[length] = 'a' + length;
                own[length] = 0;
                printf("%s %6s %-6s %.2s %d|", "known", colours[i % 3], own, own, i);
                say(i, colours[2 - i % 3]);
            }
        }"#;
    for options in ["", "-cl-opt-disable"] {
        let kernel = kernel_with(&setup, source, options)?;
        kernel.set(0, 5)?;
        run(&setup, &kernel, 1, 1)?;
    }
    let expected = "known    red a      a 0|0:.known  green abc    ab 1|1:green.known        abcde  ab 2|2:red.\
        known    red abcdefg ab 3|3:.known  green abcdefghi ab 4|4:green.";
    expect(&output.text()?, &expected.repeat(2))
}

/// The text's lines, each "ID rest", by their work-items.
fn by_work_item(text: &str, items: usize) -> Vec<Vec<&str>> {
    let mut lines = vec![Vec::new(); items];
    for line in text.lines() {
        let (id, rest) = line.split_once(' ').expect("a number and what follows");
        lines[id.parse::<usize>().expect("a number")].push(rest);
    }
    lines
}

/// Branches, loops and early ends that depend on the work-item.
fn divergent_work_items() -> Outcome {
    let (setup, output) = setup()?;
    let source = r#"
        kernel void k(global int *results) {
            int id = get_global_id(0), sum = 0;
            results[id] = 0;
            if (id % 7 == 0) return;
            if (id % 3 == 0)
                sum += printf("%d third %v2hld\n", id, (int2)(id, -id));
            else
                for (int i = 0; i < id % 5; i++)
                    sum += printf("%d %s %g\n", id, i & 1 ? "odd" : "even", i / 4.0f);
            results[id] = sum + 1;
        }"#;
    let kernel = kernel(&setup, source)?;
    const ITEMS: usize = 4096;
    let results = Buffer::copy_of(&setup.context, &vec![9i32; ITEMS])?;
    kernel.set_object(0, Some(&results))?;
    run(&setup, &kernel, ITEMS, 64)?;
    let mut read = vec![9i32; ITEMS];
    setup.queue.read(&results, &mut read)?;
    let text = output.text()?;
    for (id, lines) in by_work_item(&text, ITEMS).into_iter().enumerate() {
        let steps = |i: usize| format!("{} {}", if i % 2 == 1 { "odd" } else { "even" }, i as f32 / 4.0);
        let expected: Vec<String> = match id {
            _ if id % 7 == 0 => Vec::new(),
            _ if id % 3 == 0 => vec![format!("third {id},{}", -(id as i32))],
            _ => (0..id % 5).map(steps).collect(),
        };
        assert_eq!(lines, expected, "work-item {id}");
        assert_eq!(read[id], i32::from(id % 7 != 0), "work-item {id}");
    }
    Ok(())
}

/// Across barriers, and from functions.
fn all_formats_of_a_work_item_in_order() -> Outcome {
    let (setup, output) = setup()?;
    let source = r#"
        void count(int id, int number) { printf("%d number %d\n", id, number); }
        kernel void k(local int *shared) {
            int id = get_global_id(0), me = get_local_id(0);
            printf("%d begins\n", id);
            for (int i = 0; i < 3; i++) {
                shared[me] = id + i;
                barrier(CLK_LOCAL_MEM_FENCE);
                count(id, shared[get_local_size(0) - 1 - me]);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            printf("%d ends\n", id);
        }"#;
    let kernel = kernel(&setup, source)?;
    kernel.set_local(0, 4 * 32)?;
    run(&setup, &kernel, 256, 32)?;
    for (id, lines) in by_work_item(&output.text()?, 256).into_iter().enumerate() {
        let other = id / 32 * 32 + 31 - id % 32;
        let numbers = (0..3).map(|i| format!("number {}", other + i));
        let expected: Vec<String> =
            ["begins".into()].into_iter().chain(numbers).chain(["ends".into()]).collect();
        assert_eq!(lines, expected, "work-item {id}");
    }
    Ok(())
}

/// What doesn't fit isn't printed and returns -1; what fits is at least what the device promises, and the next launch has
/// a buffer of its own again.
fn no_more_than_the_buffer_holds() -> Outcome {
    let (setup, output) = setup()?;
    let source = r#"
        kernel void k(global int *failed, int lines) {
            int id = get_global_id(0);
            failed[id] = 0;
            for (int i = 0; i < lines; i++)
                failed[id] -= printf("%d\n", i % 10);
        }"#;
    let kernel = kernel(&setup, source)?;
    const ITEMS: usize = 1024;
    let failed = Buffer::copy_of(&setup.context, &vec![0i32; ITEMS])?;
    kernel.set_object(0, Some(&failed))?;
    let promised: usize = setup.device.info(CL_DEVICE_PRINTF_BUFFER_SIZE)?;
    assert!(promised >= 1 << 20, "{promised}");
    let mut before = 0;
    for lines in [promised / 2 / ITEMS, 10_000, 1] {
        kernel.set(1, lines as i32)?;
        run(&setup, &kernel, ITEMS, 64)?;
        let mut read = vec![0i32; ITEMS];
        setup.queue.read(&failed, &mut read)?;
        let missing: i64 = read.iter().map(|&n| i64::from(n)).sum();
        let text = output.text()?[before..].to_string();
        before += text.len();
        assert!(text.as_bytes().chunks(2).all(|line| line[0].is_ascii_digit() && line[1] == b'\n'));
        assert_eq!(text.len() as i64 / 2 + missing, (ITEMS * lines) as i64);
        assert_eq!(missing > 0, lines == 10_000, "{missing} of {lines} lines each are missing");
        assert!(missing == 0 || text.len() >= promised, "{} bytes", text.len());
    }
    Ok(())
}

fn queues_and_threads_keep_their_texts_whole() -> Outcome {
    let (setup, output) = setup()?;
    let source = r#"
        kernel void k(int thread, int launch) {
            printf("%d launch %d item %d of a thread that has launched %d before\n", thread, launch, (int)get_global_id(0), launch);
        }"#;
    let program = Program::from_source(&setup.context, source)?;
    program.build("")?;
    const LAUNCHES: i32 = 40;
    let launch = |thread: i32, queue: Queue| -> cl::Result<()> {
        let kernel = Kernel::new(&program, "k")?;
        for number in 0..LAUNCHES {
            kernel.set(0, thread)?;
            kernel.set(1, number)?;
            queue.launch(&kernel, NdRange::new(&[3], &[1]))?;
        }
        queue.finish()
    };
    let queues =
        (0..4).map(|_| Queue::new(&setup.context, setup.device)).collect::<cl::Result<Vec<Queue>>>()?;
    let launch = &launch;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..).zip(queues).map(|(thread, queue)| scope.spawn(move || launch(thread, queue))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    for (thread, lines) in by_work_item(&output.text()?, 4).into_iter().enumerate() {
        assert_eq!(lines.len(), 3 * LAUNCHES as usize, "thread {thread}");
        for (number, group) in lines.chunks(3).enumerate() {
            let line = |item: usize| {
                format!("launch {number} item {item} of a thread that has launched {number} before")
            };
            let mut sorted = group.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [line(0), line(1), line(2)], "thread {thread}");
        }
    }
    Ok(())
}

/// The application's own text is held back by the C library, and yet comes first.
fn in_order_with_the_application() -> Outcome {
    let (setup, output) = setup()?;
    let kernel = kernel(&setup, r#"kernel void k(int i) { printf("kernel %d\n", i); }"#)?;
    for i in 0..3 {
        // SAFETY: a terminated string.
        unsafe { puts(c"application".as_ptr()) };
        kernel.set(0, i)?;
        run(&setup, &kernel, 1, 1)?;
    }
    expect(&output.text()?, "application\nkernel 0\napplication\nkernel 1\napplication\nkernel 2\n")
}

/// Whatever waits for the command: an event, a blocking read, a callback's queue.
fn by_the_end_of_the_command() -> Outcome {
    let (setup, output) = setup()?;
    let source = r#"kernel void k(global int *out) { *out = printf("%d|", *out); }"#;
    let kernel = kernel(&setup, source)?;
    let buffer = Buffer::copy_of(&setup.context, &[5i32])?;
    kernel.set_object(0, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?.wait()?;
    expect(&output.text()?, "5|")?;
    setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
    let mut read = [9i32];
    setup.queue.read(&buffer, &mut read)?;
    expect(&output.text()?, "5|0|")?;
    assert_eq!(read, [0]);
    setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
    setup.queue.finish()?;
    expect(&output.text()?, "5|0|0|")
}

/// What a program prints is part of its binary.
fn binaries_print_too() -> Outcome {
    let (setup, output) = setup()?;
    let program =
        Program::from_source(&setup.context, r#"kernel void k(void) { printf("%s %d\n", "saved", 1); }"#)?;
    program.build("")?;
    let loaded = Program::from_binary(&setup.context, setup.device, &program.binary()?)?;
    loaded.build("")?;
    run(&setup, &Kernel::new(&loaded, "k")?, 1, 1)?;
    expect(&output.text()?, "saved 1\n")
}

/// Nearly two gigabytes of text from a launch, in 512 MB of memory.
fn much_text_takes_no_memory() -> Outcome {
    let (setup, _output) = setup()?;
    let text = "x".repeat(32_000);
    let kernel = kernel(&setup, &format!("kernel void k(void) {{ printf(\"{text}\"); }}"))?;
    run(&setup, &kernel, 1, 1)?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let pages: u64 = fs::read_to_string("/proc/self/statm")?.split(' ').next().unwrap().parse().unwrap();
    let most = Some((pages << 12) + (512 << 20));
    let limit = Rlimit { current: most, maximum: most };
    setrlimit(Resource::As, limit)?;
    run(&setup, &kernel, 60_000, 100)?;
    Ok(())
}
