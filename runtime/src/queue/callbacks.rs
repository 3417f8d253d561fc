//! The thread that calls the application's event callbacks: never the application's own thread (which may hold a lock
//! that the callback wants), never a queue's (which a slow callback would hold up).

use crossbeam::channel::{Sender, unbounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

type Call = Box<dyn FnOnce() + Send>;

static CALLS: LazyLock<Sender<Call>> = LazyLock::new(|| {
    let (sender, receiver) = unbounded::<Call>();
    let serve = move || {
        for call in receiver {
            // What a callback of the application panics with is its own affair.
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
    };
    let thread = std::thread::Builder::new().name("spirula-callback".into()).spawn(serve);
    if thread.is_err() {
        tracing::error!("no thread for callbacks; they won't be called");
    }
    sender
});

/// Has `callback` called with `status`, in the order of these calls.
pub(crate) fn call(status: i32, callback: Box<dyn FnOnce(i32) + Send>) {
    run(Box::new(move || callback(status)));
}

/// Has `callback` called.
pub(crate) fn run(callback: Call) {
    // Fails only when there is no thread, which was reported.
    let _ = CALLS.send(callback);
}
