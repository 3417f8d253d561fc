//! The executor's life: its memory first, then the sandbox, and in it request after request, on a thread for each lane, until the
//! application closes its end.

#![allow(unsafe_code)]

use super::message::{Answer, Arguments, Begin, CodeFacts, Done, MAX_REQUEST, MAX_WORDS, Request, Threads};
use super::passing;
use crate::error::panic_text;
use crate::execute::fault::Deadline;
use crate::execute::launch::{ArgumentBlock, Code, Invocation};
use crate::execute::scheduler::{STACK_SIZE, Scheduler};
use crate::execute::tiers::{Tiers, Version};
use crate::machine::affinity::{self, Cpus};
use crate::machine::timer;
use crate::memory::pool::Pool;
use crate::memory::raw::HostPtr;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use spirula_interface::program::{KernelCode, KernelInfo, KernelSignature};
use spirula_interface::protocol::{self, Hello, Tag};
use spirula_interface::{identity, target::Target};
use spirula_service::shared::{PAGE, Region};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Its end of the socket over which lanes come.
const CONTROL: c_int = 0;
/// Code that is remembered with how long it takes; as soon as there is more, all is forgotten.
const MOST_CODE: usize = 4096;
/// Where launches have what they need themselves, if not in this process's own memory.
static MEMORY: OnceLock<Pool> = OnceLock::new();
/// How often a lane looks for a request before it sleeps.
const SPINS: u32 = 30;

/// Serves the application at the other end of the standard input, a socket; never returns. `confine` gives up all that kernels are not
/// to have, but for so many bytes of memory, and tells what can't be.
pub fn serve(confine: fn(u64) -> Vec<String>) -> ! {
    // SAFETY: whoever started this process put the socket there, and it stays open until the end.
    let control = unsafe { BorrowedFd::borrow_raw(CONTROL) };
    let end = match converse(control, confine) {
        Ok(()) => 0,
        Err(error) => {
            let words = error.to_string();
            let _ = send(control, &protocol::header(Tag::Crash, words.len() as u32), SendFlags::NOSIGNAL);
            let _ = send(control, words.as_bytes(), SendFlags::NOSIGNAL);
            1
        }
    };
    // SAFETY: ends the process, in which kernels may be running.
    unsafe { libc::_exit(end) }
}

fn converse(control: BorrowedFd, confine: fn(u64) -> Vec<String>) -> io::Result<()> {
    let mut bytes = [0; 1024];
    let (length, files) = passing::receive(control, &mut bytes)?;
    let begin: Begin = protocol::decode(&bytes[..length])?;
    let Ok([data, code]) = <[OwnedFd; 2]>::try_from(files) else {
        return Err(io::Error::other("it was given no memory"));
    };
    map(&begin.data, (&data, begin.data_offset), ProtFlags::READ | ProtFlags::WRITE)?;
    map(&begin.code, (&code, 0), ProtFlags::READ | ProtFlags::EXEC)?;
    if let Some(launches) = begin.launches.filter(|part| begin.data.contains(&part.start)) {
        // SAFETY: a part of what was just mapped for good.
        let region = unsafe { Region::lent(launches) };
        region.map(|region| MEMORY.set(Pool::lent(region)));
    }
    place_jumps(begin.code.start)?;
    // What is mapped stays so; who takes over this process finds no file.
    drop((data, code));
    let missing = confine(begin.memory);
    let hello = Hello { build: identity::BUILD.to_owned(), host: Target::default(), missing };
    protocol::send(control, Tag::Hello, &hello)?;
    loop {
        let (length, lanes) = passing::receive(control, &mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        for lane in lanes {
            // Without a thread the lane is closed, and the launch ends with an error.
            let thread = std::thread::Builder::new().name("spirula-lane".into()).stack_size(STACK_SIZE);
            let _ = thread.spawn(move || serve_lane(&lane));
        }
    }
}

/// Maps a file where the application has it.
fn map(addresses: &Range<usize>, (file, offset): (&OwnedFd, u64), access: ProtFlags) -> io::Result<()> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    let place = addresses.start as *mut c_void;
    // SAFETY: nothing that is mapped is replaced.
    let start = unsafe { mmap(place, addresses.len(), access, flags, file, offset) };
    match start {
        Ok(start) if start == place => {
            // SAFETY: it changes no contents. Failure costs only speed.
            let _ = unsafe { madvise(place, addresses.len(), Advice::LinuxHugepage) };
            Ok(())
        }
        Ok(_) | Err(Errno::EXIST) => {
            Err(io::Error::other(format!("the addresses {addresses:#x?} are not free")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts the jumps to this process's functions that generated code may call where it expects them.
fn place_jumps(start: usize) -> io::Result<()> {
    let jumps = spirula_service::jumps();
    assert!(jumps.len() <= PAGE, "jumps have one page");
    let (access, place) = (ProtFlags::READ | ProtFlags::WRITE, start as *mut c_void);
    // SAFETY: the first page of what was just mapped for code, of which the application keeps no code there.
    unsafe {
        let page = mmap_anonymous(place, PAGE, access, MapFlags::PRIVATE | MapFlags::FIXED)?;
        std::ptr::copy_nonoverlapping(jumps.as_ptr(), page.cast(), jumps.len());
        mprotect(page, PAGE, MprotectFlags::READ | MprotectFlags::EXEC)?;
    }
    Ok(())
}

/// Answers one request after the other.
fn serve_lane(lane: &OwnedFd) {
    let mut bytes = vec![0; MAX_REQUEST];
    while let Some(length) = next(lane, &mut bytes) {
        let answer = postcard::from_bytes(&bytes[..length]).map_err(|error| error.to_string());
        let answer = answer.and_then(|request| {
            catch_unwind(AssertUnwindSafe(|| perform(request)))
                .unwrap_or_else(|panic| Err(format!("a fault in Spirula: {}", panic_text(panic.as_ref()))))
        });
        let answer: Answer = answer.map_err(|words| words.chars().take(MAX_WORDS / 4).collect());
        let Ok(answer) = postcard::to_stdvec(&answer) else { return };
        if send(lane, &answer, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// The length of the next request; None at the end.
fn next(lane: &OwnedFd, bytes: &mut [u8]) -> Option<usize> {
    let mut looks = 0;
    loop {
        match recv(lane, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return None,
            Ok((length, _)) => return Some(length),
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return None,
        }
        looks += 1;
        if looks < SPINS {
            std::hint::spin_loop();
        } else {
            let _ = poll(&mut [PollFd::new(lane, PollFlags::IN)], None);
        }
    }
}

/// Code by its number, and threads by how many they are and where they run.
#[derive(Default)]
struct Known {
    code: HashMap<u64, Arc<Tiers>>,
    schedulers: BTreeMap<Threads, Arc<Scheduler>>,
}

fn known() -> std::sync::MutexGuard<'static, Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    fn tiers(&mut self, facts: CodeFacts) -> Arc<Tiers> {
        if self.code.len() >= MOST_CODE {
            self.code.clear();
        }
        let new = |facts: CodeFacts| {
            let code = KernelCode {
                tier: facts.tier,
                scratch_per_item: facts.scratch_per_item,
                scratch_fixed: facts.scratch_fixed,
                any_order: facts.any_order,
                ..KernelCode::plain("")
            };
            let info = Arc::new(KernelInfo { signature: KernelSignature::default(), code });
            Tiers::new(Version { code: Code::of_application(&facts), info, tuning: None }, None)
        };
        self.code.entry(facts.number).or_insert_with(|| new(facts)).clone()
    }

    fn scheduler(&mut self, threads: Threads) -> Arc<Scheduler> {
        let bound = threads.bound.as_ref().map(|cpus| Cpus::from_iter(cpus.iter().copied()));
        let count = threads.count;
        self.schedulers.entry(threads).or_insert_with(|| Arc::new(Scheduler::new(count, bound))).clone()
    }
}

/// Runs what is asked for.
fn perform(request: Request) -> Answer {
    let Request { code, threads, arguments, launch, groups, local_size, limit_ns } = request;
    let (tiers, scheduler) = {
        let mut known = known();
        (known.tiers(code), known.scheduler(threads))
    };
    scheduler.bound().into_iter().for_each(affinity::bind);
    let no_memory = || "no memory for its arguments".to_owned();
    let memory = MEMORY.get().cloned().unwrap_or_default();
    let block = match arguments {
        Arguments::Bytes(bytes) => ArgumentBlock::of(&memory, bytes.as_slice()),
        Arguments::Shared(address, size) => {
            // SAFETY: in what is shared, where the application keeps it until this is answered.
            let place = unsafe { HostPtr::new(address as *mut u8) }.ok_or_else(no_memory)?;
            ArgumentBlock::of(&memory, place.span(size))
        }
    };
    let deadline = limit_ns.map_or(Deadline::NEVER, |limit| Deadline::after(Duration::from_nanos(limit)));
    let arguments = block.ok_or_else(no_memory)?;
    let objects = Default::default();
    let invocation = Arc::new(Invocation {
        tiers,
        arguments,
        memory,
        launch,
        local_size,
        deadline,
        objects,
        group_times: Default::default(),
    });
    let items = (groups.end - groups.start).saturating_mul(invocation.group_items());
    let begun = timer();
    scheduler.run_groups(&invocation, groups).map_err(|error| error.detail)?;
    Ok(Done { ns: timer().saturating_sub(begun), one_thread_ns: invocation.tiers.pace.estimate_ns(items) })
}
