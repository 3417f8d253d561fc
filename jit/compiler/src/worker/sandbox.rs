//! What a worker may ask of the kernel once it has started: from then on it reads what nobody vouches for.
//!
//! A [`Role::Compiler`] has its socket, memory and threads, and nothing else: no file, no socket, no program, no other process.
//! A [`Role::Translator`] starts clang, which reads headers wherever they are: it and clang may read files and run programs, but
//! write to none, speak to nobody and touch no process outside. A [`Role::Executor`] has what a compiler has, can receive sockets of the
//! application's, and look after its own threads, of which those that run kernels may be anybody's. What a kernel lacks of this is told (see [`enter`]).

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpArgLen::Qword, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use spirula_interface::protocol::Role;
use std::collections::BTreeMap;
use std::path::Path;

/// The newest Landlock that is known here; a kernel with less does what it can.
const LANDLOCK: ABI = ABI::V6;

/// Gives up, for good, what the role does not need, for this thread and those that it starts from now on. Returns what this
/// kernel can't withhold, in words. What a compiler dumps may go to the folder.
pub fn enter(role: Role, dump: Option<&Path>) -> Vec<String> {
    let mut missing = Vec::new();
    if role != Role::Translator {
        drop_capabilities();
    }
    match restrict_files(role, dump) {
        Ok(RulesetStatus::FullyEnforced) => {}
        // What an older Landlock lets through, a compiler's filter doesn't.
        Ok(RulesetStatus::PartiallyEnforced) if role != Role::Translator => {}
        Ok(RulesetStatus::PartiallyEnforced) => missing.push("some of Landlock's restrictions".to_owned()),
        Ok(RulesetStatus::NotEnforced) => missing.push("Landlock".to_owned()),
        Err(error) => missing.push(format!("Landlock ({error})")),
    }
    // Not before the files: these calls are on no list.
    match filters(role, dump.is_some())
        .and_then(|filters| filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter)))
    {
        Ok(()) => {}
        Err(error) => missing.push(format!("seccomp ({error})")),
    }
    missing
}

/// The rights of root, if it is root that compiles.
fn drop_capabilities() {
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = ([VERSION_3, 0], [0_u32; 6]);
    // SAFETY: capset(2): a version and this thread, and three sets of two words each. Fewer rights can't be refused.
    unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
}

fn restrict_files(role: Role, dump: Option<&Path>) -> Result<RulesetStatus, RulesetError> {
    let files = match role {
        Role::Compiler | Role::Executor => AccessFs::from_all(LANDLOCK),
        Role::Translator => AccessFs::from_write(LANDLOCK),
    };
    let mut rules = Ruleset::default()
        .handle_access(files)?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?;
    // Both exist, or nothing is written there.
    let writable = match role {
        Role::Compiler => dump,
        Role::Executor => None,
        Role::Translator => Some(Path::new("/dev/null")),
    };
    if let Some(folder) = writable.and_then(|path| PathFd::new(path).ok()) {
        let access = if role == Role::Translator { AccessFs::WriteFile.into() } else { files };
        rules = rules.add_rule(PathBeneath::new(folder, access))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// The system calls of a compiler: those of memory, threads, clocks and open descriptors.
const COMPILING: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setitimer,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_alarm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// What writing a file into a folder takes besides; Landlock says which folder.
const DUMPING: &[c_long] = &[libc::SYS_openat, libc::SYS_newfstatat, libc::SYS_statx];

/// What neither a compiler of OpenCL C nor who starts it has any use for: what reaches other processes, the network and the
/// kernel's own affairs. (Scoped signals are Landlock's.)
const NOT_TRANSLATING: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_connect,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_listen,
    libc::SYS_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_socket,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Filtering<T> = Result<T, seccompiler::Error>;
type Condition = Result<SeccompCondition, BackendError>;

/// The filters of a role, all of which a call must pass.
fn filters(role: Role, dumps: bool) -> Filtering<Vec<BpfProgram>> {
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let main = match role {
        Role::Compiler => {
            let more = if dumps { DUMPING } else { &[] };
            let mut rules = always(COMPILING.iter().chain(more));
            rules.extend(limited()?);
            program(rules, denied, SeccompAction::Allow)?
        }
        Role::Executor => {
            let mut rules = always(COMPILING);
            rules.extend(limited()?);
            // Its handler of faults looks at its own memory, and its launches that take too long are told by signals.
            let own = || equal(0, u64::from(std::process::id()));
            for call in [libc::SYS_process_vm_readv, libc::SYS_rt_tgsigqueueinfo] {
                rules.insert(call, vec![SeccompRule::new(vec![own()?])?]);
            }
            // It binds its threads to processors, each itself.
            rules.insert(libc::SYS_sched_setaffinity, vec![SeccompRule::new(vec![equal(0, 0)?])?]);
            program(rules, denied, SeccompAction::Allow)?
        }
        Role::Translator => {
            let mut rules = always(NOT_TRANSLATING);
            // No name spaces of its own, in which it would have all rights.
            let own_names = libc::CLONE_NEWUSER as u64;
            rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![masked(0, own_names, own_names)?])?]);
            program(rules, SeccompAction::Allow, denied)?
        }
    };
    // Its flags are in memory, where no filter sees them: the C library takes `clone` instead.
    let no_clone3 = SeccompAction::Errno(libc::ENOSYS as u32);
    Ok(vec![program(always(&[libc::SYS_clone3]), SeccompAction::Allow, no_clone3)?, main])
}

fn always<'c>(calls: impl IntoIterator<Item = &'c c_long>) -> Rules {
    calls.into_iter().map(|&call| (call, Vec::new())).collect()
}

/// What a compiler may do with some arguments only.
fn limited() -> Filtering<Rules> {
    let only = |condition: Condition| -> Filtering<Vec<SeccompRule>> {
        Ok(vec![SeccompRule::new(vec![condition?])?])
    };
    let not_executable = || only(masked(2, libc::PROT_EXEC as u64, 0));
    let thread = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
    let own = equal(0, u64::from(std::process::id()));
    let name = equal(0, libc::PR_SET_NAME as u64);
    let nothing_new = SeccompCondition::new(2, Qword, SeccompCmpOp::Eq, 0);
    Ok(BTreeMap::from([
        (libc::SYS_mmap, not_executable()?),
        (libc::SYS_mprotect, not_executable()?),
        // A thread, not a process.
        (libc::SYS_clone, only(masked(0, thread, thread))?),
        // abort().
        (libc::SYS_tgkill, only(own)?),
        (libc::SYS_prctl, only(name)?),
        // Limits are read, not set.
        (libc::SYS_prlimit64, only(nothing_new)?),
    ]))
}

fn equal(argument: u8, value: u64) -> Condition {
    SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> Condition {
    SeccompCondition::new(argument, Dword, SeccompCmpOp::MaskedEq(mask), value)
}

fn program(rules: Rules, others: SeccompAction, these: SeccompAction) -> Filtering<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, others, these, machine)?.try_into()?)
}
