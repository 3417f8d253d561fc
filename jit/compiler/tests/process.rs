//! Workers that crash, hang, bloat and behave. This program is the worker itself when it is started as one: what a test
//! wants of it stands where a module would be.

use libtest_mimic::{Arguments, Failed, Trial};
use spirula_compiler::worker;
use spirula_interface::inputs::Inputs;
use spirula_interface::options::CompileError;
use spirula_interface::protocol::{Conditions, Job, Product, Role, Stage};
use spirula_interface::target::Target;
use spirula_interface::tier::Tier;
use spirula_service::process::Request;
use spirula_service::process::pool::{Pool, PoolError};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    if let Some(role) = std::env::args().nth(1).as_deref().and_then(Role::of_argument) {
        worker::serve(role, misbehave);
    }
    if let Some((_, act)) = ACTS.iter().find(|(name, _)| std::env::args().nth(1).as_deref() == Some(*name)) {
        act();
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 15] = [
        ("a_crash_is_an_error_that_says_what_happened", a_crash_is_an_error_that_says_what_happened),
        ("a_panic_is_an_error_and_the_worker_lives_on", a_panic_is_an_error_and_the_worker_lives_on),
        ("a_worker_is_reused_and_is_no_child_of_ours", a_worker_is_reused_and_is_no_child_of_ours),
        ("a_worker_ends_with_its_application", a_worker_ends_with_its_application),
        ("a_worker_killed_while_idle_is_replaced", a_worker_killed_while_idle_is_replaced),
        ("what_cannot_be_started_is_tried_again", what_cannot_be_started_is_tried_again),
        ("programs_that_are_no_compiler_are_named", programs_that_are_no_compiler_are_named),
        ("a_worker_has_renounced_what_it_does_not_need", a_worker_has_renounced_what_it_does_not_need),
        ("a_hostile_compiler_is_denied_everything", a_hostile_compiler_is_denied_everything),
        ("a_hostile_translator_reads_and_no_more", a_hostile_translator_reads_and_no_more),
        ("a_hostile_executor_is_denied_everything", a_hostile_executor_is_denied_everything),
        ("many_threads_share_few_workers", many_threads_share_few_workers),
        ("an_application_that_exits_leaves_nobody", an_application_that_exits_leaves_nobody),
        ("a_killed_application_leaves_its_keeper_alone", a_killed_application_leaves_its_keeper_alone),
        ("dead_workers_are_no_business_of_a_subreaper", dead_workers_are_no_business_of_a_subreaper),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// What a hostile module might cause, by its name.
fn misbehave(job: Job, conditions: &Conditions, stages: &mut Vec<Stage>) -> Result<Product, CompileError> {
    let Job::Check { module, .. } = job else { return worker::perform(job, conditions, stages) };
    worker::caught(|| carry_out(module))
}

fn carry_out(module: &[u8]) -> Result<Product, CompileError> {
    match module {
        b"abort" => {
            eprintln!("the worker's last words");
            std::process::abort()
        }
        // LLVM takes this as its own user's mistake, and ends the process.
        b"fatal error" => drop(inkwell::targets::TargetData::create("nonsense")),
        b"overflow" => {
            std::hint::black_box(recurse(1));
        }
        b"spin" => loop {
            std::hint::spin_loop();
        },
        b"allocate" => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(vec![0u8; 1 << 30]);
            }
        }
        b"hoard" => {
            worker::limit_memory(worker::resident() + (100 << 20));
            let mut hoard = Vec::new();
            loop {
                hoard.push(vec![1_u8; 1 << 20]);
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        b"exit" => std::process::exit(0),
        b"process id" => return Ok(Product::Checked(std::process::id().to_string())),
        b"panic" => panic!("a bug of ours"),
        b"thread" => {
            let sum =
                std::thread::spawn(|| vec![1_u8; 64 << 20].iter().map(|&byte| u64::from(byte)).sum::<u64>());
            assert_eq!(sum.join().unwrap(), 64 << 20);
        }
        b"attack" => return Ok(Product::Checked(attacks())),
        _ => {}
    }
    Ok(Product::Checked("fine".into()))
}

/// Deeper than any stack.
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box(recurse(std::hint::black_box(depth + 1))) + depth
}

/// The errno of a system call, or 0.
fn done(result: i64) -> i32 {
    if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) } else { 0 }
}

/// What a process that was taken over would do: each line names a deed and the errno, or 0 if it was done.
fn attacks() -> String {
    let null = std::ptr::null_mut::<libc::c_void>();
    let parent = i64::from(std::os::unix::process::parent_id());
    let here = (&raw const parent).cast::<libc::c_void>();
    let part = libc::iovec { iov_base: here.cast_mut(), iov_len: 8 };
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 9_u16.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_be_bytes([127, 0, 0, 1]).to_be() },
        sin_zero: [0; 8],
    };
    let file = std::env::temp_dir().join(format!("spirula-attack-{}", std::process::id()));
    let file = std::ffi::CString::new(file.into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: system calls with valid arguments, that concern this process or are denied; a child ends at once.
    let list = unsafe {
        [
            ("read", done(libc::open(c"/etc/passwd".as_ptr(), libc::O_RDONLY).into())),
            ("write", done(libc::open(file.as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600).into())),
            ("remove", done(libc::unlink(file.as_ptr()).into())),
            ("socket", done(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into())),
            (
                "connect",
                done(libc::connect(0, (&raw const address).cast(), size_of_val(&address) as u32).into()),
            ),
            ("fork", {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(0);
                }
                done(child.into())
            }),
            ("exec", done(libc::execve(c"/nonexistent".as_ptr(), null.cast(), null.cast()).into())),
            ("ptrace", done(libc::ptrace(libc::PTRACE_ATTACH, parent as i32, null, null))),
            ("peek", done(libc::process_vm_readv(parent as i32, &part, 1, &part, 1, 0) as i64)),
            ("kill", done(libc::kill(parent as i32, 0).into())),
            ("mprotect", {
                let page =
                    libc::mmap(null, 4096, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
                done(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC).into())
            }),
            ("limit", {
                let more = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                done(libc::setrlimit(libc::RLIMIT_NPROC, &more).into())
            }),
            ("unshare", done(libc::unshare(libc::CLONE_NEWUSER).into())),
        ]
    };
    list.map(|(name, errno)| format!("{name} {errno}\n")).concat()
}

/// What a worker of a role could not do, of the [`attacks`]. None, and a message, where this kernel has no sandbox.
fn denied(role: Role) -> Option<Vec<String>> {
    let pool = Pool::new(role, || std::env::current_exe().map_err(|error| error.to_string()));
    let outcome = text(run(&pool, "attack", 60));
    if !pool.missing().is_empty() {
        eprintln!("this kernel lacks {:?}", pool.missing());
        return None;
    }
    let denied = [libc::EPERM, libc::EACCES].map(|errno| format!(" {errno}"));
    let names =
        outcome.lines().filter_map(|line| denied.iter().find_map(|end| line.strip_suffix(end.as_str())));
    Some(names.map(str::to_owned).collect())
}

fn a_hostile_compiler_is_denied_everything() {
    let Some(denied) = denied(Role::Compiler) else { return };
    let all = [
        "read", "write", "remove", "socket", "connect", "fork", "exec", "ptrace", "peek", "kill", "mprotect",
        "limit", "unshare",
    ];
    assert_eq!(denied, all);
    // Threads, memory, answers: what compiling takes is there.
    let pool = pool();
    let outcome = run(&pool, "thread", 60);
    assert_eq!(text(outcome), "fine");
}

fn a_hostile_translator_reads_and_no_more() {
    let Some(denied) = denied(Role::Translator) else { return };
    // It starts clang, which reads headers, and must be able to end it.
    assert_eq!(denied, ["write", "socket", "connect", "ptrace", "peek", "kill", "unshare"]);
}

/// What an executor gives up, in a process of its own.
fn a_hostile_executor_is_denied_everything() {
    let done = Command::new(std::env::current_exe().unwrap()).arg("--confined").output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
    if let Some(missing) = text.lines().find_map(|line| line.strip_prefix("missing ")) {
        return eprintln!("this kernel lacks {missing}");
    }
    let denied = [libc::EPERM, libc::EACCES].map(|errno| format!(" {errno}"));
    let allowed: Vec<&str> =
        text.lines().filter(|line| !denied.iter().any(|end| line.ends_with(end.as_str()))).collect();
    assert_eq!(allowed, ["a thread of its own", "a signal to itself"]);
    assert_eq!(text.lines().count(), 2 + 20, "{text}");
}

fn confined() {
    let missing = worker::confine_executor(4 << 30);
    if !missing.is_empty() {
        println!("missing {}", missing.join(" and "));
    }
    print!("{}", attacks());
    let parent = i64::from(std::os::unix::process::parent_id());
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: system calls with valid arguments, that concern this process or are denied.
    let more = unsafe {
        let zero = 0_u64;
        let (access, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        [
            ("poke", done(libc::process_vm_writev(parent as i32, null.cast(), 0, null.cast(), 0, 0) as i64)),
            ("queue", done(libc::syscall(libc::SYS_rt_tgsigqueueinfo, parent, parent, 0, null))),
            ("bind", done(libc::syscall(libc::SYS_sched_setaffinity, parent, 8, &raw const zero))),
            ("memfd", done(libc::syscall(libc::SYS_memfd_create, c"a".as_ptr(), 0))),
            ("look", done(libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, c"/".as_ptr(), null, 0))),
            ("send", done(libc::syscall(libc::SYS_sendmsg, 0, null, 0))),
            ("code", done(libc::mmap(null, 4096, access, flags, -1, 0) as i64)),
        ]
    };
    more.iter().for_each(|(name, errno)| println!("{name} {errno}"));
    std::thread::spawn(|| println!("a thread of its own")).join().unwrap();
    // SAFETY: a signal that is ignored.
    let told = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGURG) };
    println!("{}", if told == 0 { "a signal to itself" } else { "no signal" });
}

fn pool() -> Pool {
    Pool::new(Role::Compiler, || std::env::current_exe().map_err(|error| error.to_string()))
}

fn run(pool: &Pool, what: &str, seconds: u32) -> Result<Result<Product, CompileError>, PoolError> {
    let inputs = Inputs::new(Default::default(), Default::default(), Target::default(), Tier::Optimized);
    let request = Request::anew(&Job::Check { module: what.as_bytes(), inputs }).unwrap();
    pool.run(&request, &Conditions { seconds, dump: None }).map(|reply| reply.result)
}

fn text(outcome: Result<Result<Product, CompileError>, PoolError>) -> String {
    match outcome {
        Ok(Ok(Product::Checked(text))) => text,
        other => panic!("no answer: {other:?}"),
    }
}

fn a_crash_is_an_error_that_says_what_happened() {
    let pool = pool();
    let cases = [
        ("abort", "aborted (SIGABRT), saying: the worker's last words"),
        ("fatal error", "gave up, LLVM saying: "),
        ("overflow", "crashed (SIGSEGV)"),
        ("allocate", "aborted (SIGABRT), saying: memory allocation of 1073741824 bytes failed"),
        ("hoard", "used "),
        ("spin", "exceeded its time limit"),
        ("exit", "ended without a word"),
    ];
    for (how, expected) in cases {
        match run(&pool, how, 2) {
            Err(PoolError::Crashed(note)) => assert!(note.starts_with(expected), "{how}: {note}"),
            other => panic!("{how}: {other:?}"),
        }
        assert_eq!(text(run(&pool, "nothing", 60)), "fine", "after {how}");
    }
}

fn a_panic_is_an_error_and_the_worker_lives_on() {
    let pool = pool();
    let before = text(run(&pool, "process id", 60));
    match run(&pool, "panic", 60) {
        Ok(Err(CompileError::Failed(message))) => assert!(message.ends_with("a bug of ours"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(text(run(&pool, "process id", 60)), before);
}

fn a_worker_is_reused_and_is_no_child_of_ours() {
    let pool = pool();
    let first = text(run(&pool, "process id", 60));
    assert_eq!(text(run(&pool, "process id", 60)), first);
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    assert_ne!(parent, std::process::id().to_string());
    // SAFETY: asks only.
    let child = unsafe { libc::waitpid(first.parse().unwrap(), std::ptr::null_mut(), libc::WNOHANG) };
    assert_eq!(child, -1, "waiting finds a child that is not the application's");
}

/// Waits until the process is gone, or a zombie that somebody else has to bury.
fn wait_for_end(id: &str) {
    let start = Instant::now();
    while std::fs::read_link(format!("/proc/{id}/exe")).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "worker {id} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_worker_ends_with_its_application() {
    let pool = pool();
    let id = text(run(&pool, "process id", 60));
    assert!(std::fs::read_link(format!("/proc/{id}/exe")).is_ok());
    drop(pool);
    wait_for_end(&id);
}

fn a_worker_has_renounced_what_it_does_not_need() {
    let pool = pool();
    let id = text(run(&pool, "process id", 60));
    let of = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap();
    assert!(of("status").lines().any(|line| line == "NoNewPrivs:\t1"), "it may gain rights");
    let score: i32 = of("oom_score_adj").trim().parse().unwrap();
    assert!(score >= 800, "{score}");
    // Neither limit can be raised again.
    for (limit, most) in [("Max core file size", 0), ("Max address space", 8 << 30)] {
        let limits = of("limits");
        let line = limits.lines().find_map(|line| line.strip_prefix(limit)).unwrap();
        let hard: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(hard <= most, "{limit}: {hard}");
    }
}

fn a_worker_killed_while_idle_is_replaced() {
    let pool = pool();
    let id = text(run(&pool, "process id", 60));
    // SAFETY: a worker of this test's own.
    unsafe { libc::kill(id.parse().unwrap(), libc::SIGKILL) };
    wait_for_end(&id);
    assert_ne!(text(run(&pool, "process id", 60)), id);
}

fn what_cannot_be_started_is_tried_again() {
    static IS_THERE: AtomicBool = AtomicBool::new(false);
    let pool = Pool::new(Role::Compiler, || match IS_THERE.load(Ordering::Relaxed) {
        true => std::env::current_exe().map_err(|error| error.to_string()),
        false => Err("it is nowhere".into()),
    });
    for _ in 0..2 {
        match run(&pool, "nothing", 60) {
            Err(PoolError::NotStarted(error)) => assert_eq!(error, "it is nowhere"),
            other => panic!("{other:?}"),
        }
    }
    IS_THERE.store(true, Ordering::Relaxed);
    assert_eq!(text(run(&pool, "nothing", 60)), "fine");
}

fn programs_that_are_no_compiler_are_named() {
    let wrong = [
        ("/bin/false", "/bin/false: it ended or kept silent"),
        ("/nonexistent/spirula-compiler", "/nonexistent/spirula-compiler: No such file"),
        ("/dev/null", "/dev/null: Permission denied"),
    ];
    let pools = [
        Pool::new(Role::Compiler, || Ok("/bin/false".into())),
        Pool::new(Role::Compiler, || Ok("/nonexistent/spirula-compiler".into())),
        Pool::new(Role::Compiler, || Ok("/dev/null".into())),
    ];
    for ((program, expected), pool) in wrong.iter().zip(&pools) {
        match run(pool, "nothing", 60) {
            Err(PoolError::NotStarted(error)) => assert!(error.starts_with(expected), "{program}: {error}"),
            other => panic!("{program}: {other:?}"),
        }
    }
}

/// What this program does instead of testing, in a process of its own.
const ACTS: [(&str, fn()); 5] = [
    ("--confined", confined),
    ("--build-and-exit", || drop(text(run(the_pool(), "process id", 60)))),
    ("--build-and-crash", || {
        text(run(the_pool(), "process id", 60));
        // SAFETY: ends this process without what happens at exit.
        unsafe { libc::_exit(0) }
    }),
    ("--spin-and-exit", || {
        std::thread::spawn(|| run(the_pool(), "spin", 60));
        std::thread::sleep(Duration::from_millis(200));
    }),
    ("--subreaper", lose_workers),
];

/// A pool that is never dropped, as the library's.
fn the_pool() -> &'static Pool {
    Box::leak(Box::new(pool()))
}

fn act(name: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap()).arg(name).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Children of this process, by the kernel's list: orphans that fell to it as a subreaper, and keepers.
fn children() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let lists =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The processes that fell to a subreaper, which waits for nobody, after an application ended.
fn orphans_of(name: &str) -> usize {
    // SAFETY: what follows is a process of its own: `fork` leaves one thread, which runs this function only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: concerns this process, which ends here.
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            let name = std::ffi::CString::new(name).unwrap();
            let program = c"/proc/self/exe";
            let arguments = [program.as_ptr(), name.as_ptr(), std::ptr::null()];
            let application = libc::fork();
            if application == 0 {
                libc::execv(program.as_ptr(), arguments.as_ptr());
                libc::_exit(127);
            }
            let mut status = 0;
            libc::waitpid(application, &mut status, 0);
            let mut orphans = if status == 0 { 0 } else { 100 };
            while libc::waitpid(-1, &mut status, libc::__WALL) > 0 {
                orphans += 1;
            }
            libc::_exit(orphans)
        }
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WEXITSTATUS(status) as usize
}

fn an_application_that_exits_leaves_nobody() {
    assert_eq!(orphans_of("--build-and-exit"), 0);
    // Also in the middle of a build.
    assert_eq!(orphans_of("--spin-and-exit"), 0);
}

fn a_killed_application_leaves_its_keeper_alone() {
    assert_eq!(orphans_of("--build-and-crash"), 1);
}

fn dead_workers_are_no_business_of_a_subreaper() {
    assert_eq!(act("--subreaper"), "");
}

/// An application that gets all orphans, whose workers crash, are killed, and go.
fn lose_workers() {
    static CHILDREN_ENDED: AtomicBool = AtomicBool::new(false);
    extern "C" fn note(_: libc::c_int) {
        CHILDREN_ENDED.store(true, Ordering::Relaxed);
    }
    // SAFETY: concerns this process; the handler sets a flag.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::signal(libc::SIGCHLD, note as extern "C" fn(libc::c_int) as libc::sighandler_t);
    }
    let pool = pool();
    let id = text(run(&pool, "process id", 60));
    // SAFETY: a worker of this test's own.
    unsafe { libc::kill(id.parse().unwrap(), libc::SIGKILL) };
    wait_for_end(&id);
    text(run(&pool, "process id", 60));
    run(&pool, "abort", 60).unwrap_err();
    assert_eq!(children(), [""; 0], "a worker that crashed is waited for at once");
    text(run(&pool, "process id", 60));
    // SAFETY: asks only.
    assert_eq!(unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) }, -1, "there is a child");
    drop(pool);
    assert_eq!(children(), [""; 0], "an idle worker goes with its pool");
    assert!(!CHILDREN_ENDED.load(Ordering::Relaxed), "there was a SIGCHLD");
}

fn many_threads_share_few_workers() {
    let pool = pool();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(text(run(&pool, "nothing", 60)), "fine");
                }
            });
        }
    });
}
