//! Values that a forked child must not share with its parent: locks that another thread may have held when it was forked,
//! descriptors and processes that are the parent's.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value for each process, made when it is first asked for. It is never dropped.
pub struct PerProcess<T: 'static> {
    current: AtomicPtr<Owned<T>>,
    make: fn() -> T,
    /// What a child does with its copy of the parent's.
    disown: fn(&'static T),
}

struct Owned<T> {
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// None yet. `disown` gets a value that may be in use by a thread which the child does not have.
    pub const fn new(make: fn() -> T, disown: fn(&'static T)) -> Self {
        PerProcess { current: AtomicPtr::new(null_mut()), make, disown }
    }

    /// This process's value.
    pub fn get(&self) -> &'static T {
        loop {
            let known = self.current.load(Ordering::Acquire);
            if let Some(value) = own(known) {
                return value;
            }
            let new = Box::into_raw(Box::new(Owned { process: std::process::id(), value: (self.make)() }));
            if self.current.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: just made, and seen by nobody.
                drop(unsafe { Box::from_raw(new) });
            } else if let Some(parents) = pointed_at(known) {
                (self.disown)(&parents.value);
            }
        }
    }

    /// This process's value, if it was asked for before.
    pub fn existing(&self) -> Option<&'static T> {
        own(self.current.load(Ordering::Acquire))
    }
}

fn own<T>(known: *mut Owned<T>) -> Option<&'static T> {
    pointed_at(known).filter(|owned| owned.process == std::process::id()).map(|owned| &owned.value)
}

fn pointed_at<T>(known: *mut Owned<T>) -> Option<&'static Owned<T>> {
    // SAFETY: null, or what `get` made and published; that is never freed and never changed.
    unsafe { known.as_ref() }
}
