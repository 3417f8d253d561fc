//! A kernel launch, ready to run: the work-group function, its argument block and NDRange. The one place that calls
//! generated code.

#![allow(unsafe_code)]

use crate::error::{Result, Status};
use crate::execute::arena::{Arena, BLOCK_ALIGN, MAX_SCRATCH};
use crate::execute::check::{self, Objects};
use crate::execute::fault::{self, Deadline};
use crate::execute::group_times::GroupTimes;
use crate::execute::output::buffer::Buffers;
use crate::execute::tiers::{Tiers, Version};
use crate::isolation::{CodeFacts, Isolation};
use crate::memory::pool::Pool;
use crate::memory::raw::{Allocation, Source};
use spirula_interface::program::{Launch, MemorySizes, RawWorkGroupFn};
use spirula_service::{LoadedKernel, LoadedProgram};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where kernels run, and what they use there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// The process, if it is another one.
    pub isolation: Option<Arc<Isolation>>,
    /// The memory.
    pub memory: Pool,
    /// For what they print; None for the device's own buffers.
    pub output: Option<Arc<Buffers>>,
}

impl Place {
    /// In that process, if any, and with that memory.
    pub(crate) fn new(isolation: Option<Arc<Isolation>>, memory: Pool) -> Place {
        let output = memory.is_shared().then(|| Arc::new(Buffers::new(memory.clone())));
        Place { isolation, memory, output }
    }
}

/// A work-group function that stays loaded. Each launch has one of these for itself.
#[derive(Clone, Debug)]
pub(crate) struct Code(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    /// What no other code of this process has.
    number: u64,
    entry: RawWorkGroupFn,
    /// Where it and all that it consists of lies.
    addresses: Range<usize>,
    denormals_are_zero: bool,
    /// What it is of, which keeps `entry` mapped; None for functions that are part of this process.
    program: Option<Arc<LoadedProgram>>,
    /// Where it runs.
    at: Place,
}

impl Code {
    /// A kernel that was loaded for that place.
    pub(crate) fn of(kernel: &LoadedKernel, at: &Place) -> Code {
        Code(Arc::new(Loaded {
            number: next_number(),
            entry: kernel.entry,
            addresses: kernel.program.addresses(),
            denormals_are_zero: kernel.info.signature.denormals_are_zero,
            program: Some(kernel.program.clone()),
            at: at.clone(),
        }))
    }

    /// In an executor: the application's, which keeps it loaded until this process ends or has said what became of it.
    pub(crate) fn of_application(facts: &CodeFacts) -> Code {
        Code(Arc::new(Loaded {
            number: facts.number,
            // SAFETY: the address is not null, as that of code is not; a pointer to an unsafe function promises no more.
            entry: unsafe { std::mem::transmute::<usize, RawWorkGroupFn>(facts.entry.max(1)) },
            addresses: facts.addresses.clone(),
            denormals_are_zero: facts.denormals_are_zero,
            program: None,
            at: Place::default(),
        }))
    }

    /// What no other code of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// Its entry, and where all of it lies.
    pub(crate) fn place(&self) -> (usize, Range<usize>) {
        (self.0.entry as usize, self.0.addresses.clone())
    }

    /// Where it runs.
    pub(crate) fn at(&self) -> &Place {
        &self.0.at
    }

    /// Where its program's variables lie.
    pub(crate) fn data(&self) -> Range<usize> {
        self.0.program.as_ref().map_or(0..0, |program| program.data())
    }

    /// A hand-written work-group function.
    #[cfg(test)]
    pub(crate) fn native(entry: RawWorkGroupFn) -> Code {
        let addresses = 0..0;
        let at = Place::default();
        let number = next_number();
        Code(Arc::new(Loaded { number, entry, addresses, denormals_are_zero: false, program: None, at }))
    }
}

fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The bytes of a kernel's arguments, as [`spirula_interface::program::ArgumentInfo::offset`] lays them out.
#[derive(Debug)]
pub(crate) struct ArgumentBlock(Allocation);

impl ArgumentBlock {
    /// `size` zero bytes; None without memory.
    pub(crate) fn new(pool: &Pool, size: usize) -> Option<ArgumentBlock> {
        let block = pool.allocate(size, BLOCK_ALIGN)?;
        block.span().fill(&[0]);
        Some(ArgumentBlock(block))
    }

    /// With these bytes in it; None without memory.
    pub(crate) fn of<'s>(pool: &Pool, bytes: impl Into<Source<'s>>) -> Option<ArgumentBlock> {
        let bytes = bytes.into();
        let block = pool.allocate(bytes.len(), BLOCK_ALIGN)?;
        block.span().write(bytes);
        Some(ArgumentBlock(block))
    }

    /// A copy of all of it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.span().to_vec()
    }

    /// Puts `bytes` at `offset`. Panics outside the block.
    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0.span().slice(offset, bytes.len()).write(bytes);
    }
}

/// While it lives, the processor takes this thread's denormal numbers for zero, if it can: on many a kernel that meets
/// them runs dozens of times slower otherwise. Made around calls of generated code only.
struct DenormalsAreZero {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

#[cfg(target_arch = "x86_64")]
impl DenormalsAreZero {
    fn begin() -> DenormalsAreZero {
        /// MXCSR's bits "flush to zero" and "denormals are zero".
        const BITS: u32 = 1 << 15 | 1 << 6;
        let mut before = 0_u32;
        // SAFETY: stores four bytes.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack, preserves_flags))
        };
        let mode = DenormalsAreZero { before };
        DenormalsAreZero::set(before | BITS);
        mode
    }

    fn set(value: u32) {
        // SAFETY: reads four bytes, a value that the processor gave but for two bits that it has.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags))
        };
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for DenormalsAreZero {
    fn drop(&mut self) {
        DenormalsAreZero::set(self.before);
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl DenormalsAreZero {
    fn begin() -> DenormalsAreZero {
        DenormalsAreZero {}
    }
}

/// What one launch calls, for any range of its work-groups.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The kernel's code, of which each chunk of groups takes the best.
    pub tiers: Arc<Tiers>,
    pub arguments: ArgumentBlock,
    /// For local memory and scratch.
    pub memory: Pool,
    pub launch: Launch,
    /// Bytes of local memory per group.
    pub local_size: usize,
    /// When its command must have ended.
    pub deadline: Deadline,
    /// What a checked kernel checks by.
    pub objects: Objects,
    /// Of those groups that ran.
    pub group_times: GroupTimes,
}

/// To change what has not begun. Panics if others have it by now.
pub(crate) fn prepare(invocation: &mut Arc<Invocation>) -> &mut Invocation {
    Arc::get_mut(invocation).expect("a launch that has not begun is its command's alone")
}

impl Invocation {
    /// Work-groups in all dimensions.
    pub(crate) fn groups(&self) -> u64 {
        self.launch.group_count.iter().product()
    }

    /// Work-items in a group.
    pub(crate) fn group_items(&self) -> u64 {
        self.launch.local_size.iter().product()
    }

    /// Bytes of local memory per group with what is kept beside it.
    pub(crate) fn local_room(&self) -> usize {
        check::local_room(self.local_size)
    }

    /// Bytes of scratch per group in that code. Groups that are smaller than the others have as much.
    pub(crate) fn scratch_size(&self, version: &Version) -> usize {
        let items = self.launch.enqueued_local_size.iter().product();
        usize::try_from(version.info.code.scratch_size(items)).unwrap_or(usize::MAX)
    }

    /// Whether that code is meant for such launches, and its scratch is bearable, or not more than what the launch was checked for.
    pub(crate) fn can_run(&self, version: &Version) -> bool {
        let scratch = self.scratch_size(version);
        version.info.code.is_for(&self.launch)
            && (scratch as u64 <= MAX_SCRATCH || scratch <= self.scratch_size(self.tiers.first()))
    }

    /// Runs the groups `first..end` here in that code of the kernel. `arena` has room for it. CL_OUT_OF_RESOURCES if the code
    /// faults, which leaves them undone.
    pub(crate) fn run(&self, version: &Version, arena: &mut Arena, first: u64, end: u64) -> Result<()> {
        let (room, scratch) = arena.parts(self.local_room(), self.scratch_size(version));
        let local = room.slice(0, self.local_size);
        let arguments = self.arguments.0.span();
        if check::counts_in_local_memory(&version.info) {
            local.fill(&[0]);
        }
        let [local_size, scratch_size, argument_size] =
            [local, scratch, arguments].map(|span| span.len() as u64);
        let memory = MemorySizes { local: local_size, scratch: scratch_size, arguments: argument_size };
        let launch = Launch { memory, ..self.launch };
        let code = &*version.code.0;
        let _mode = code.denormals_are_zero.then(DenormalsAreZero::begin);
        // SAFETY: `entry` is a work-group function of a program that `code` keeps loaded. The argument block has the
        // layout and the alignment that the compiler asked for, and the objects in it are held by the command. Local
        // memory and scratch have the sizes of `KernelInfo`, are aligned to 128 and used by this thread only. What the
        // kernel does with its buffers is the application's promise.
        let called = unsafe {
            let given = (arguments.address().cast_const(), &launch, first, end);
            let memory = (local.address(), scratch.address());
            fault::call(code.entry, (&code.addresses, self.deadline), given, memory)
        };
        called.map_err(|fault| {
            let groups = if end - first == 1 {
                format!("work-group {first}")
            } else {
                format!("work-groups {first} to {}", end - 1)
            };
            let line = code.program.as_ref().and_then(|program| program.line(fault.offset()));
            Status::OutOfResources.because(format!("one of its {groups} {}", fault.told(line.as_deref())))
        })
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn denormals_are_zero_for_a_while() {
        let half = || black_box(black_box(f32::MIN_POSITIVE) * black_box(0.5));
        let mode = DenormalsAreZero::begin();
        let within = half();
        drop(mode);
        assert_eq!((within, half()), (0.0, f32::from_bits(1 << 22)));
    }
}
