//! What queued commands and memory objects have of the application's memory. With `SPIRULA_TEST_DELAY`, a process that lets
//! go of any of it too early ends at once, and says which command had it: otherwise the command, held back by
//! [`crate::shuffle`], would write into whatever has the memory then, which may show anywhere or nowhere.
//!
//! Letting go is freeing it (a global allocator looks), clSVMFree, or leaving the function in whose frame it is (looked for
//! at the next command of the same thread, and at the end of a test).

use crate::cl::Event;
use crate::cl::sys::{
    CL_COMPLETE, CL_MEM_USE_HOST_PTR, c_void, cl_event, cl_kernel, cl_mem, cl_mem_flags, cl_uint,
};
use crate::{call, shuffle};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Memory that a command or an object has.
struct Loan {
    number: usize,
    /// In the memory.
    address: usize,
    /// The function that it was lent to.
    to: &'static str,
    /// If it is on a stack: the thread.
    stack_of: Option<usize>,
    until: Until,
}

/// When a loan ends.
enum Until {
    /// Not known as long as the function has not returned.
    Returned,
    Ended(Event),
    /// The destructor's callback takes the loan away.
    Destroyed,
}

impl Loan {
    fn is_over(&self) -> bool {
        matches!(&self.until, Until::Ended(event) if event.status().is_ok_and(|status| status <= CL_COMPLETE))
    }

    fn report(&self, how: &str) -> ! {
        eprintln!("{} of this process still uses {:#x}, and {how}", self.to, self.address);
        std::process::abort();
    }
}

#[derive(Default)]
struct Books {
    loans: Vec<Loan>,
    /// Kernels' arguments that are addresses.
    arguments: BTreeMap<(usize, cl_uint), usize>,
    /// Addresses and sizes of clSVMAlloc.
    shared: BTreeMap<usize, usize>,
}

static BOOKS: Mutex<Books> =
    Mutex::new(Books { loans: Vec::new(), arguments: BTreeMap::new(), shared: BTreeMap::new() });
/// As many as there are: spares most frees a look.
static LOANS: AtomicUsize = AtomicUsize::new(0);
static NUMBER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread is at the books, whose own memory needs no look. Its address tells threads apart.
    static AT_THE_BOOKS: Cell<bool> = const { Cell::new(false) };
}

fn with_books<T>(work: impl FnOnce(&mut Books) -> T) -> T {
    AT_THE_BOOKS.set(true);
    let mut books = BOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    let result = work(&mut books);
    LOANS.store(books.loans.len(), Ordering::SeqCst);
    drop(books);
    AT_THE_BOOKS.set(false);
    result
}

fn this_thread() -> usize {
    AT_THE_BOOKS.with(|flag| std::ptr::from_ref(flag).addr())
}

/// An address on the stack below all that the caller has there.
#[inline(never)]
pub(crate) fn frame() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here).addr()
}

/// The loans of a function that has not returned.
pub(crate) struct Lent(Vec<usize>);

/// Notes that a command will use memory at these addresses.
pub(crate) fn to_command(name: &'static str, used: &[usize]) -> Lent {
    Lent(
        used.iter()
            .filter(|&&address| address != 0)
            .map(|&address| lend(name, address, Until::Returned))
            .collect(),
    )
}

fn lend(to: &'static str, address: usize, until: Until) -> usize {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // What is above the stack altogether will never be below a frame.
    let stack_of = (address > frame()).then(this_thread);
    with_books(|books| {
        books.loans.retain(|loan| !loan.is_over());
        books.loans.push(Loan { number, address, to, stack_of, until });
    });
    number
}

impl Lent {
    /// The function has returned this event; None if it was refused.
    pub(crate) fn until(self, event: Option<cl_event>) {
        with_books(|books| {
            let Some(event) = event else {
                return books.loans.retain(|loan| !self.0.contains(&loan.number));
            };
            for loan in books.loans.iter_mut().filter(|loan| self.0.contains(&loan.number)) {
                // The caller keeps its reference.
                loan.until = Until::Ended(Event::clone(&ManuallyDrop::new(Event::from_raw(event))));
            }
        });
    }
}

/// Notes that a memory object was made over memory at this address, if it was.
pub(crate) fn to_object(name: &'static str, object: cl_mem, flags: cl_mem_flags, address: usize) {
    extern "C" fn gone(_: cl_mem, number: *mut c_void) {
        with_books(|books| books.loans.retain(|loan| loan.number != number.addr()));
    }
    if shuffle::is_on() && !object.is_null() && flags & CL_MEM_USE_HOST_PTR != 0 {
        let number = std::ptr::without_provenance_mut(lend(name, address, Until::Destroyed));
        call!(clSetMemObjectDestructorCallback(object, Some(gone), number))
            .expect("a new object takes a callback");
    }
}

/// Notes a kernel's argument: an address, or 0 for anything else.
pub(crate) fn set_argument(kernel: cl_kernel, index: cl_uint, address: usize) {
    if shuffle::is_on() {
        with_books(|books| match address {
            0 => drop(books.arguments.remove(&(kernel.addr(), index))),
            _ => drop(books.arguments.insert((kernel.addr(), index), address)),
        });
    }
}

/// The kernel's arguments that are addresses.
pub(crate) fn arguments(kernel: cl_kernel) -> Vec<usize> {
    let range = (kernel.addr(), 0)..=(kernel.addr(), cl_uint::MAX);
    with_books(|books| books.arguments.range(range).map(|(_, &address)| address).collect())
}

/// Notes an allocation of clSVMAlloc.
pub(crate) fn allocated(address: usize, size: usize) {
    if shuffle::is_on() && address != 0 {
        with_books(|books| books.shared.insert(address, size));
    }
}

/// Looks whether what clSVMFree is to free is lent.
pub(crate) fn freed(address: usize) {
    if shuffle::is_on()
        && let Some(size) = with_books(|books| books.shared.remove(&address))
    {
        let_go(address, size, "clSVMFree has been called for it");
    }
}

/// Looks whether this memory is lent, which is about to be freed.
fn let_go(address: usize, size: usize, how: &str) {
    with_books(|books| {
        let inside = |loan: &&Loan| (address..address + size).contains(&loan.address);
        if let Some(loan) = books.loans.iter().find(|loan| inside(loan) && !loan.is_over()) {
            loan.report(how);
        }
    });
}

/// Looks whether memory is lent that is on this thread's stack below `frame`, an address in the frame of a function that
/// calls no other one with such memory.
pub(crate) fn check_stack(frame: usize) {
    if LOANS.load(Ordering::Relaxed) > 0 {
        let thread = this_thread();
        with_books(|books| {
            let left = |loan: &&Loan| loan.stack_of == Some(thread) && loan.address < frame;
            if let Some(loan) = books.loans.iter().find(|loan| left(loan) && !loan.is_over()) {
                loan.report("the function that it belongs to has returned");
            }
        });
    }
}

/// The system's allocator, which looks whether what is freed is lent.
struct Looking;

#[global_allocator]
static ALLOCATOR: Looking = Looking;

// SAFETY: all is the system's; looking before and after changes nothing.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        look(pointer, layout);
        // SAFETY: the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        look(pointer, layout);
        // SAFETY: the same contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn look(pointer: *mut u8, layout: Layout) {
    if LOANS.load(Ordering::Relaxed) > 0 && !AT_THE_BOOKS.get() {
        let_go(pointer.addr(), layout.size(), "it has been freed");
    }
}
