//! Kernels that fault: their command ends with an error, the application lives on, and its own signal handlers with it.

use crate::setup::{Setup, again_with, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Context, Event, Handle, Kernel, NdRange, Object, Program, Queue};
use spirula_tests::isolate::{self, Failure, Outcome};
use spirula_tests::{call, create};
use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

tests![
    a_fault_ends_its_command_only,
    faults_in_copies,
    the_applications_handler_gets_its_own,
    a_fault_of_the_application_ends_it,
    a_fault_names_its_line,
];

/// Writes to an address and fills memory, as the arguments say.
const SOURCE: &str = "kernel void stray(ulong address) {
    *(global int *)(address + 64 * get_group_id(0)) = 1;
}
kernel void clear(ulong address, ulong count) {
    global char *p = (global char *)address;
    for (ulong i = 0; i < count; i++) p[i] = 0;
}
kernel void good(global int *p) {
    p[get_global_id(0)] += 1;
}";

/// What contexts were told.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

extern "C" fn tell(message: *const c_char, _: *const c_void, _: usize, _: *mut c_void) {
    // SAFETY: a C string, as clCreateContext says.
    let message = unsafe { CStr::from_ptr(message) };
    TOLD.lock().unwrap().push(message.to_string_lossy().into_owned());
}

/// What is told of a kernel's fault; it may come after the event's end, and after what is told of those that wait for that.
pub fn told(kernel: &str) -> String {
    told_with(&format!("kernel {kernel}: "))
}

/// What is told with these words.
pub fn told_with(words: &str) -> String {
    let start = Instant::now();
    loop {
        let mut list = TOLD.lock().unwrap();
        if let Some(place) = list.iter().position(|message| message.contains(words)) {
            return list.swap_remove(place);
        }
        assert!(start.elapsed() < Duration::from_secs(60), "nobody is told {words}: {list:?}");
        drop(list);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A context that tells, two queues of it, and the program.
pub struct Machine {
    pub context: Context,
    pub queues: [Queue; 2],
    pub program: Program,
}

fn machine() -> Result<Machine, Failure> {
    machine_of(SOURCE, "")
}

/// With a program of that source, built with these options.
pub fn machine_of(source: &str, options: &str) -> Result<Machine, Failure> {
    let setup = Setup::new();
    if setup.device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let device = setup.device.raw();
    let context = create!(clCreateContext(null(), 1, &device, Some(tell), null_mut()))?;
    let context = Context::from_raw(context);
    let queue = || create!(clCreateCommandQueue(context.raw(), device, 0)).map(Queue::from_raw);
    let queues = [queue()?, queue()?];
    let program = Program::from_source(&context, source)?;
    program.build(options).inspect_err(|_| eprintln!("{}", program.log(setup.device).unwrap_or_default()))?;
    Ok(Machine { context, queues, program })
}

/// An address where nothing is, for all of a launch's work-groups.
fn nowhere() -> u64 {
    // SAFETY: new memory, of which nothing is left.
    unsafe {
        let page =
            libc::mmap(null_mut(), 1 << 24, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        page as u64
    }
}

pub fn launch(queue: &Queue, kernel: &Kernel, items: usize, group: usize) -> Result<Event, Failure> {
    let (queue, kernel, mut event) = (queue.raw(), kernel.raw(), null_mut());
    call!(clEnqueueNDRangeKernel(queue, kernel, 1, null(), &items, &group, 0, null(), &mut event))?;
    Ok(Event::from_raw(event))
}

/// Waits for an event that must fail; returns its status.
pub fn failure(event: &Event) -> Result<i32, Failure> {
    let raw: Handle = event.raw();
    assert!(call!(clWaitForEvents(1, &raw)).is_err());
    Ok(event.info::<i32>(CL_EVENT_COMMAND_EXECUTION_STATUS)?)
}

impl Machine {
    /// The good kernel adds one to each of 64 ints.
    pub fn works(&self) -> Outcome {
        for queue in &self.queues {
            let kernel = Kernel::new(&self.program, "good")?;
            let buffer = Buffer::copy_of(&self.context, &[7_i32; 64])?;
            kernel.set_object(0, Some(&buffer))?;
            queue.launch(&kernel, NdRange::new(&[64], &[8]))?;
            let mut got = [0_i32; 64];
            queue.read(&buffer, &mut got)?;
            assert_eq!(got, [8; 64]);
        }
        Ok(())
    }
}

fn a_fault_ends_its_command_only() -> Outcome {
    let machine = machine()?;
    let kernel = Kernel::new(&machine.program, "stray")?;
    let start = nowhere();
    // One group, few, and so many that all threads have some.
    for groups in [1, 4, 100_000] {
        for (address, words) in
            [(start, format!("wrote to address {start:#x}")), (8, "wrote to address 0x".into())]
        {
            kernel.set(0, address)?;
            let event = launch(&machine.queues[0], &kernel, groups, 1)?;
            assert_eq!(failure(&event)?, CL_OUT_OF_RESOURCES);
            let message = told("stray");
            // Which of many groups is first is anybody's guess.
            let words = if groups > 1 { "wrote to address 0x" } else { &words };
            let expected = [words, "(SIGSEGV)", "CL_OUT_OF_RESOURCES"];
            assert!(expected.iter().all(|words| message.contains(words)), "{message}");
            machine.works()?;
        }
    }
    // An address that no pointer can have.
    kernel.set(0, 0x1234_5678_9abc_def0_u64)?;
    failure(&launch(&machine.queues[1], &kernel, 1, 1)?)?;
    let message = told("stray");
    assert!(message.contains("an address that no memory can have"), "{message}");
    // What waits for it is not run.
    let event = launch(&machine.queues[0], &kernel, 1, 1)?;
    let good = Kernel::new(&machine.program, "good")?;
    let buffer = Buffer::copy_of(&machine.context, &[7_i32; 8])?;
    good.set_object(0, Some(&buffer))?;
    let (queue, wait, mut after) = (machine.queues[1].raw(), event.raw(), null_mut());
    let eight = 8_usize;
    call!(clEnqueueNDRangeKernel(queue, good.raw(), 1, null(), &eight, null(), 1, &wait, &mut after))?;
    assert!(failure(&Event::from_raw(after))? < 0);
    let mut got = [0_i32; 8];
    machine.queues[1].read(&buffer, &mut got)?;
    assert_eq!(got, [7; 8]);
    machine.works()
}

/// LLVM makes a memset of it, which is the C library's.
fn faults_in_copies() -> Outcome {
    isolate::needs_one_process()?;
    let machine = machine()?;
    let kernel = Kernel::new(&machine.program, "clear")?;
    let (page, end) = (1 << 16, nowhere() + (1 << 20));
    // SAFETY: of this test's own memory, which is nowhere up to then.
    let made = unsafe {
        libc::mprotect((end - page) as *mut c_void, page as usize, libc::PROT_READ | libc::PROT_WRITE)
    };
    assert_eq!(made, 0);
    kernel.set(0, end - page)?;
    for count in [page + 1, 1 << 46] {
        kernel.set(1, count)?;
        assert_eq!(failure(&launch(&machine.queues[0], &kernel, 1, 1)?)?, CL_OUT_OF_RESOURCES);
        let message = told("clear");
        assert!(message.contains(&format!("{:#x}", end >> 12)), "{message}");
        machine.works()?;
    }
    kernel.set(1, page)?;
    machine.queues[0].launch(&kernel, NdRange::new(&[1], &[1]))?;
    machine.works()
}

/// The page that the handler is to give, and how often it was called.
static PAGE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CALLS: AtomicU32 = AtomicU32::new(0);

extern "C" fn give_the_page(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let page = PAGE.load(Ordering::Relaxed);
    // SAFETY: SIGSEGV has an address; the page is this test's own. Another fault is its failure.
    unsafe {
        if (*info).si_addr() != page {
            libc::_exit(3);
        }
        libc::mprotect(page, 1, libc::PROT_READ | libc::PROT_WRITE);
    }
}

fn handle(handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) {
    // SAFETY: all zero is a valid sigaction; the handler does what handlers may.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, null_mut()), 0);
    }
}

/// Writes to a page that the application's handler gives, as programs with garbage collectors do.
fn use_a_page() {
    let page = nowhere() as *mut c_void;
    PAGE.store(page, Ordering::Relaxed);
    // SAFETY: the handler makes this the test's own memory.
    unsafe { page.cast::<u32>().write_volatile(7) };
}

fn the_applications_handler_gets_its_own() -> Outcome {
    handle(give_the_page);
    use_a_page();
    let machine = machine()?;
    machine.works()?;
    use_a_page();
    std::thread::spawn(use_a_page).join().unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 3, "before and after the first launch, and in another thread");
    let kernel = Kernel::new(&machine.program, "stray")?;
    kernel.set(0, nowhere())?;
    for groups in [1, 10_000] {
        failure(&launch(&machine.queues[0], &kernel, groups, 1)?)?;
        told("stray");
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 3, "kernels' faults are none of its business");
    use_a_page();
    assert_eq!(CALLS.load(Ordering::Relaxed), 4);
    machine.works()
}

/// Without a handler, it dies as it would without a launch.
fn a_fault_of_the_application_ends_it() -> Outcome {
    // SAFETY: as if Rust's library had no handler.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    let machine = machine()?;
    machine.works()?;
    let deeds: [(fn(), c_int); 4] = [
        // SAFETY: it ends the child, which is the point.
        (|| unsafe { null_mut::<u32>().wrapping_add(2).write_volatile(7) }, libc::SIGSEGV),
        // SAFETY: as above.
        (|| assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0), libc::SIGSEGV),
        // SAFETY: as above.
        (|| assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGILL) }, 0), libc::SIGILL),
        // SAFETY: as above.
        (|| assert_eq!(unsafe { libc::raise(libc::SIGFPE) }, 0), libc::SIGFPE),
    ];
    for (deed, signal) in deeds {
        // SAFETY: the child does this deed, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no core file; ends the child at last.
            unsafe {
                libc::prctl(libc::PR_SET_DUMPABLE, 0);
                deed();
                libc::_exit(0);
            }
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == signal, "{status:#x}");
    }
    Ok(())
}

/// With `SPIRULA_DEBUG` the line of the source is told, where it is known: of the function that was called, too.
fn a_fault_names_its_line() -> Outcome {
    const VARIABLE: &str = "SPIRULA_DEBUG";
    // An executor knows no lines.
    if env::var_os("SPIRULA_ISOLATE").is_some() {
        return Ok(());
    }
    if env::var_os(VARIABLE).is_none() {
        machine()?;
        for tier in ["baseline", "optimized"] {
            let variables = [(VARIABLE, "lines"), ("SPIRULA_TIER", tier)];
            again_with("faults::a_fault_names_its_line", &variables);
        }
        return Ok(());
    }
    let source = "#line 1 \"stray.cl\"
        void store(ulong address) {
            *(volatile global int *)address = 1;
        }
        kernel void stray(ulong address, ulong other) {
            if (other) *(volatile global int *)other = 2;
            store(address);
        }";
    let machine = machine_of(source, "")?;
    let kernel = Kernel::new(&machine.program, "stray")?;
    for (address, other, line) in [(nowhere(), 0, "(stray.cl:2)"), (0, nowhere(), "(stray.cl:5)")] {
        kernel.set(0, address)?;
        kernel.set(1, other)?;
        failure(&launch(&machine.queues[0], &kernel, 1, 1)?)?;
        let message = told("stray");
        assert!(message.contains(line), "{line}: {message}");
    }
    Ok(())
}
