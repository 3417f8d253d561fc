//! Handles: what the application holds of an object, and the table that tells live ones from all other pointers.
//!
//! A handle is the address of a [`Slot`]. Slots lie in chunks that are never freed, so a handle is checked by
//! arithmetic alone: whatever pointer the application passes, nothing is dereferenced unless it is a slot's address.
//! A slot whose object is gone keeps its dispatch pointer (the ICD loader reads it before we are called) and is used
//! again only after [`QUARANTINE`] others, so that a stale handle yields its type's `CL_INVALID_*` for long.
//!
//! A slot counts two kinds of references: the application's (`clRetain*`, `clRelease*`; what `*_REFERENCE_COUNT`
//! tells) and those of other objects ([`Link`]: a queue's context, a kernel's program). The object goes with the last.

use crate::dispatch::{DISPATCH, Dispatch};
use crate::error::{Error, OrFail, Status};
use opencl_sys::cl_int;
use spirula_runtime::context::Context;
use std::any::Any;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// An object behind a handle.
pub trait ClObject: Send + Sync + 'static {
    /// The type's name in C.
    const NAME: &'static str;
    /// The error for a handle that is no live object of this type.
    const INVALID: cl_int;
    /// The context that it belongs to, or is.
    fn context(&self) -> Option<Arc<Context>>;
}

/// How many slots must have been vacated after one before it is used again.
const QUARANTINE: usize = 4096;
/// Slots of the first chunk; each further chunk has twice as many as the one before.
const FIRST_CHUNK: usize = 1024;

/// What a handle points at. The ICD loaders read its first word.
#[repr(C, align(64))]
struct Slot {
    dispatch: &'static Dispatch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// None: vacant. The type tag is the object's own `TypeId`.
    object: Option<Arc<dyn Any + Send + Sync>>,
    retained: u32,
    linked: u32,
}

impl State {
    /// Takes the object out if nothing refers to it any more.
    fn vacate(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        if self.retained == 0 && self.linked == 0 { self.object.take() } else { None }
    }
}

/// Slots that are vacant.
#[derive(Default)]
struct Vacant {
    /// In the order in which they were vacated.
    slots: VecDeque<&'static Slot>,
    /// How many slots were ever used.
    used: usize,
}

static CHUNKS: [OnceLock<Box<[Slot]>>; 32] = [const { OnceLock::new() }; 32];
static VACANT: Mutex<Vacant> = Mutex::new(Vacant { slots: VecDeque::new(), used: 0 });

/// Nothing panics under these locks, but a poisoned one must not take the application down either.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    fn vacant() -> Self {
        Slot { dispatch: &DISPATCH, state: Mutex::default() }
    }

    /// The slot at this address, if it is one.
    fn at(handle: *mut c_void) -> Option<&'static Slot> {
        CHUNKS.iter().map_while(OnceLock::get).find_map(|chunk| {
            let offset = handle.addr().checked_sub(chunk.as_ptr().addr())?;
            let index = offset / size_of::<Slot>();
            chunk.get(index).filter(|_| offset % size_of::<Slot>() == 0)
        })
    }

    /// A slot for a new object.
    fn take() -> &'static Slot {
        let mut vacant = lock(&VACANT);
        if vacant.slots.len() > QUARANTINE
            && let Some(slot) = vacant.slots.pop_front()
        {
            return slot;
        }
        let number = vacant.used;
        vacant.used += 1;
        // Chunk c holds FIRST_CHUNK << c slots and starts at number FIRST_CHUNK * (2^c - 1).
        let chunk = (number / FIRST_CHUNK + 1).ilog2();
        let index = number - FIRST_CHUNK * ((1 << chunk) - 1);
        let slots = CHUNKS[chunk as usize]
            .get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Slot::vacant()).collect());
        &slots[index]
    }

    fn handle(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Changes the counts; drops the object (outside the lock) with the last reference.
    fn release<R>(&'static self, change: impl FnOnce(&mut State) -> R) -> R {
        let (result, object) = {
            let mut state = lock(&self.state);
            let result = change(&mut state);
            (result, state.vacate())
        };
        if object.is_some() {
            drop(object);
            lock(&VACANT).slots.push_back(self);
        }
        result
    }
}

/// An object that a call is about. It stays usable during the call even if another thread releases it.
pub struct Ref<T> {
    slot: &'static Slot,
    object: Arc<T>,
}

impl<T> Deref for Ref<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: ClObject> Ref<T> {
    /// The live object of this handle. Errors: [`ClObject::INVALID`].
    pub fn find(handle: *mut c_void) -> Status<Self> {
        let find = || {
            let slot = Slot::at(handle)?;
            let object = lock(&slot.state).object.clone()?;
            Some(Ref { slot, object: object.downcast().ok()? })
        };
        find().ok_or_else(|| match handle.is_null() {
            true => Error::new(T::INVALID, format!("NULL where a {} is needed", T::NAME)),
            false => Error::new(T::INVALID, format!("{handle:p} is no {}, or was released", T::NAME)),
        })
    }

    /// Its handle.
    pub fn handle(&self) -> *mut c_void {
        self.slot.handle()
    }

    /// `clRetain*`.
    pub fn retain(&self) -> Status {
        let mut state = lock(&self.slot.state);
        self.live(&state)?;
        state.retained += 1;
        Ok(())
    }

    /// `clRelease*`. Errors: [`ClObject::INVALID`] if the application holds no reference (any more).
    pub fn release(&self) -> Status {
        self.slot.release(|state| {
            self.live(state)?;
            let left = state.retained.checked_sub(1);
            state.retained = left.or_fail(T::INVALID, "released more often than it was retained")?;
            Ok(())
        })
    }

    /// Its handle for an application that gets it once more: one more reference.
    pub fn retained(&self) -> Status<NewHandle> {
        self.retain()?;
        Ok(NewHandle(Some(self.slot)))
    }

    /// The application's references.
    pub fn reference_count(&self) -> u32 {
        lock(&self.slot.state).retained
    }

    /// Another object's reference to this one. Errors: [`ClObject::INVALID`] if it was released meanwhile.
    pub fn link(&self) -> Status<Link<T>> {
        let mut state = lock(&self.slot.state);
        self.live(&state)?;
        state.linked += 1;
        Ok(Link { slot: self.slot, object: Arc::clone(&self.object) })
    }

    /// Whether the slot still holds this very object.
    fn live(&self, state: &State) -> Status {
        let same = |object: &Arc<dyn Any + Send + Sync>| {
            std::ptr::addr_eq(Arc::as_ptr(object), Arc::as_ptr(&self.object))
        };
        let live = state.object.as_ref().is_some_and(same);
        live.then_some(()).or_fail(T::INVALID, "another thread released it meanwhile")
    }
}

/// An object's reference to another, which keeps that one's handle live.
pub struct Link<T: ClObject> {
    slot: &'static Slot,
    object: Arc<T>,
}

impl<T: ClObject> Link<T> {
    /// An object that the library itself keeps (the platform, the root devices).
    pub fn to_new(object: T) -> Self {
        let object = Arc::new(object);
        let slot = Slot::take();
        *lock(&slot.state) = State { object: Some(object.clone()), retained: 0, linked: 1 };
        Link { slot, object }
    }

    /// Its handle.
    pub fn handle(&self) -> *mut c_void {
        self.slot.handle()
    }
}

impl<T: ClObject> Clone for Link<T> {
    fn clone(&self) -> Self {
        // The slot can't be vacant while `self` links to it.
        lock(&self.slot.state).linked += 1;
        Link { slot: self.slot, object: Arc::clone(&self.object) }
    }
}

impl<T: ClObject> Drop for Link<T> {
    fn drop(&mut self) {
        self.slot.release(|state| state.linked -= 1);
    }
}

impl<T: ClObject> Deref for Link<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.object
    }
}

/// A new object with the application's first reference; released again if it never gets to the application.
#[must_use]
pub struct NewHandle(Option<&'static Slot>);

impl NewHandle {
    /// Gives the object a handle.
    pub fn new<T: ClObject>(object: T) -> Self {
        let slot = Slot::take();
        *lock(&slot.state) = State { object: Some(Arc::new(object)), retained: 1, linked: 0 };
        NewHandle(Some(slot))
    }

    /// The handle, which is not yet the application's.
    pub fn address(&self) -> *mut c_void {
        self.0.map_or(std::ptr::null_mut(), Slot::handle)
    }

    /// The handle, now the application's.
    pub fn into_raw(mut self) -> *mut c_void {
        self.0.take().map_or(std::ptr::null_mut(), Slot::handle)
    }
}

impl Drop for NewHandle {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.release(|state| state.retained = state.retained.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opencl_sys::{CL_INVALID_KERNEL, CL_INVALID_SAMPLER};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An object that tells when it goes.
    struct Thing(Arc<AtomicUsize>);

    impl ClObject for Thing {
        const NAME: &'static str = "cl_thing";
        const INVALID: cl_int = CL_INVALID_KERNEL;
        fn context(&self) -> Option<Arc<Context>> {
            None
        }
    }

    impl Drop for Thing {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Other;

    impl ClObject for Other {
        const NAME: &'static str = "cl_other";
        const INVALID: cl_int = CL_INVALID_SAMPLER;
        fn context(&self) -> Option<Arc<Context>> {
            None
        }
    }

    fn thing() -> (*mut c_void, Arc<AtomicUsize>) {
        let gone = Arc::default();
        (NewHandle::new(Thing(Arc::clone(&gone))).into_raw(), gone)
    }

    fn find(handle: *mut c_void) -> Status<Ref<Thing>> {
        Ref::find(handle)
    }

    /// The error's code.
    fn code<T>(result: Status<T>) -> Option<cl_int> {
        result.err().map(|error| error.code)
    }

    const INVALID: Option<cl_int> = Some(CL_INVALID_KERNEL);

    #[test]
    fn whatever_is_no_handle_is_invalid() {
        let (handle, _) = thing();
        let garbage =
            [0, 1, 8, 0xdead_beef, usize::MAX, handle.addr() + 8, handle.addr() - 1, handle.addr() | 1];
        for address in garbage {
            assert_eq!(code(find(std::ptr::without_provenance_mut(address))), INVALID, "{address:#x}");
        }
        let mut local = [0_u64; 16];
        assert_eq!(code(find(local.as_mut_ptr().cast())), INVALID);
        find(handle).and_then(|thing| thing.release()).unwrap();
    }

    #[test]
    fn a_handle_of_another_type_is_invalid() {
        let other = NewHandle::new(Other).into_raw();
        assert_eq!(code(find(other)), INVALID);
        let (handle, _) = thing();
        assert_eq!(code(Ref::<Other>::find(handle)), Some(CL_INVALID_SAMPLER));
    }

    #[test]
    fn the_last_release_ends_it() {
        let (handle, gone) = thing();
        find(handle).unwrap().retain().unwrap();
        assert_eq!(find(handle).unwrap().reference_count(), 2);
        find(handle).unwrap().release().unwrap();
        assert_eq!(gone.load(Ordering::Relaxed), 0);
        find(handle).unwrap().release().unwrap();
        assert_eq!(gone.load(Ordering::Relaxed), 1);
        assert_eq!(code(find(handle)), INVALID);
    }

    #[test]
    fn a_call_keeps_its_object_and_a_link_keeps_the_handle() {
        let (handle, gone) = thing();
        let during_call = find(handle).unwrap();
        let link = during_call.link().unwrap();
        during_call.release().unwrap();
        // The application has none left to release, yet may ask (clGetKernelInfo's program) and retain.
        assert_eq!(code(during_call.release()), INVALID);
        assert_eq!(find(handle).unwrap().reference_count(), 0);
        drop(link.clone());
        assert!(find(handle).is_ok());
        drop(link);
        assert_eq!(code(find(handle)), INVALID);
        assert_eq!(code(during_call.retain()), INVALID);
        assert_eq!(code(during_call.link()), INVALID);
        assert_eq!(gone.load(Ordering::Relaxed), 0);
        drop(during_call);
        assert_eq!(gone.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_handle_that_never_got_out_is_released() {
        let gone: Arc<AtomicUsize> = Arc::default();
        drop(NewHandle::new(Thing(Arc::clone(&gone))));
        assert_eq!(gone.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_stale_handle_stays_invalid_for_long_and_slots_are_used_again() {
        let (stale, _) = thing();
        find(stale).unwrap().release().unwrap();
        for _ in 0..QUARANTINE - 64 {
            let (handle, _) = thing();
            assert_ne!(handle, stale);
            find(handle).unwrap().release().unwrap();
        }
        assert_eq!(code(find(stale)), INVALID);
        let used = lock(&VACANT).used;
        for _ in 0..4 * QUARANTINE {
            let (handle, _) = thing();
            find(handle).unwrap().release().unwrap();
        }
        // Other tests take some at the same time; one of them 4 * FIRST_CHUNK.
        assert!(lock(&VACANT).used <= used + QUARANTINE + 4 * FIRST_CHUNK + 256);
    }

    #[test]
    fn every_handle_starts_with_the_dispatch_pointer() {
        // More than the first chunks hold. (Never released: that would end another test's quarantine.)
        let handles: Vec<_> = (0..4 * FIRST_CHUNK).map(|_| thing().0).collect();
        for &handle in &handles {
            // SAFETY: a live handle, whose first word is what loaders read.
            let first = unsafe { handle.cast::<*const Dispatch>().read() };
            assert!(std::ptr::eq(first, &DISPATCH));
        }
    }

    #[test]
    fn threads_that_release_the_same_object_release_it_once() {
        let (handle, gone) = thing();
        let address = handle.expose_provenance();
        let released: usize = std::thread::scope(|scope| {
            let release =
                || find(std::ptr::with_exposed_provenance_mut(address)).and_then(|thing| thing.release());
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(move || usize::from(release().is_ok()))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((released, gone.load(Ordering::Relaxed)), (1, 1));
    }
}
