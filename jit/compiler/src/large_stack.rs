//! Threads for LLVM, which recurses over the IR: nesting that a module of a few MB may have must not end the process.

use std::io;
use std::ptr::null_mut;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Bytes of stack.
const STACK_SIZE: usize = 256 << 20;
/// Bytes of the stack on which signal handlers report that the other one overflowed.
const SIGNAL_STACK_SIZE: usize = 64 << 10;

/// Runs `work` on a thread of its own. Errors: the system has no thread to give.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name("spirula-compile".into()).stack_size(STACK_SIZE).spawn_scoped(scope, || {
        let _signals = SignalStack::install();
        work()
    })
}

/// The calling thread's stack for signal handlers, until it is dropped.
struct SignalStack(#[expect(dead_code, reason = "owned for the kernel")] Box<[u8]>);

impl SignalStack {
    fn install() -> Self {
        let mut memory = vec![0; SIGNAL_STACK_SIZE].into_boxed_slice();
        set(&libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() });
        SignalStack(memory)
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        set(&libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 });
    }
}

fn set(stack: &libc::stack_t) {
    // SAFETY: the memory belongs to a `SignalStack`, which takes it back from the system before it frees it.
    unsafe { libc::sigaltstack(stack, null_mut()) };
}
