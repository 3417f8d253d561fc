//! The thread that calls the application's callbacks: never the application's own thread (which may hold a lock that the
//! callback wants), never a queue's (which a slow callback would hold up).

use crate::error::panic_text;
use crate::log;
use crossbeam::channel::{Receiver, Sender, unbounded};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

type Call = Box<dyn FnOnce() + Send>;

/// Has `callback` called with `status`, in the order of these calls.
pub(crate) fn call(status: i32, callback: Box<dyn FnOnce(i32) + Send>) {
    run(Box::new(move || callback(status)));
}

/// Has `callback` called.
pub(crate) fn run(callback: Call) {
    static CALLS: LazyLock<Calls> = LazyLock::new(Calls::new);
    CALLS.add(callback, |receiver| {
        let thread = std::thread::Builder::new().name("spirula-callback".into());
        thread.spawn(move || serve(receiver)).map(drop)
    });
}

/// The callbacks that are to be called.
struct Calls {
    sender: Sender<Call>,
    receiver: Receiver<Call>,
    /// There is a thread that calls them.
    served: AtomicBool,
}

impl Calls {
    fn new() -> Calls {
        let (sender, receiver) = unbounded();
        Calls { sender, receiver, served: AtomicBool::new(false) }
    }

    /// Adds a callback. If there is no thread yet and none can begin, it stays until one can.
    fn add(&self, callback: Call, begin: impl FnOnce(Receiver<Call>) -> io::Result<()>) {
        // The receiver lives as long as the sender.
        let _ = self.sender.send(callback);
        if !self.served.swap(true, Ordering::Relaxed)
            && let Err(error) = begin(self.receiver.clone())
        {
            self.served.store(false, Ordering::Relaxed);
            log::error(format_args!("no thread for callbacks, which wait until there can be one: {error}"));
        }
    }
}

/// The thread.
fn serve(calls: Receiver<Call>) {
    for call in calls {
        // A callback of the application can't panic, what prepares it might.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            log::error(format_args!("a callback panicked: {}", panic_text(panic.as_ref())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn callbacks_wait_for_a_thread_that_can_begin_and_outlive_a_panic() {
        let calls = Calls::new();
        let (sender, receiver) = channel();
        let note = |number: u32| -> Call {
            let sender = sender.clone();
            Box::new(move || sender.send(number).unwrap())
        };
        calls.add(note(1), |_| Err(io::Error::other("no thread")));
        calls.add(Box::new(|| panic!("on purpose")), |_| Err(io::Error::other("no thread")));
        calls.add(note(2), |receiver| {
            std::thread::spawn(move || serve(receiver));
            Ok(())
        });
        calls.add(note(3), |_| panic!("there is a thread"));
        let next = || receiver.recv_timeout(Duration::from_secs(10));
        assert_eq!([next(), next(), next()], [Ok(1), Ok(2), Ok(3)]);
    }
}
