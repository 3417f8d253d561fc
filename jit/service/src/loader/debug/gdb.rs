//! GDB's JIT interface: a list of objects that GDB finds by the name of its head, and a function that it stops at when the list changes.

#![allow(unsafe_code)]

use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

/// GDB's `jit_code_entry`.
#[repr(C)]
#[allow(dead_code, reason = "GDB reads it")]
#[derive(Debug)]
struct CodeEntry {
    next: *mut CodeEntry,
    previous: *mut CodeEntry,
    object: *const u8,
    size: u64,
}

/// GDB's `jit_descriptor`.
#[repr(C)]
#[allow(dead_code, reason = "GDB reads it")]
struct Descriptor {
    version: u32,
    action: u32,
    relevant: *mut CodeEntry,
    first: *mut CodeEntry,
}

const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;

// Under the names that GDB looks for they are this library's own, seen by no linker: another's of these names, such as LLVM's in an
// application or in the compiler, would be taken for them.
std::arch::global_asm!(
    ".pushsection .text.__jit_debug_register_code, \"ax\", @progbits",
    ".globl spirula_jit_debug_register_code",
    ".hidden spirula_jit_debug_register_code",
    ".type __jit_debug_register_code, @function",
    "spirula_jit_debug_register_code:",
    "__jit_debug_register_code:",
    "ret",
    ".size __jit_debug_register_code, . - __jit_debug_register_code",
    ".popsection",
    ".pushsection .data.__jit_debug_descriptor, \"aw\", @progbits",
    ".globl spirula_jit_debug_descriptor",
    ".hidden spirula_jit_debug_descriptor",
    ".type __jit_debug_descriptor, @object",
    ".p2align 3",
    "spirula_jit_debug_descriptor:",
    "__jit_debug_descriptor:",
    ".long 1",
    ".long 0",
    ".quad 0",
    ".quad 0",
    ".size __jit_debug_descriptor, . - __jit_debug_descriptor",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "spirula_jit_debug_descriptor"]
    static mut DESCRIPTOR: Descriptor;
    #[link_name = "spirula_jit_debug_register_code"]
    fn register_code();
}

/// Who holds it may change the list.
static LIST: Mutex<()> = Mutex::new(());

/// An object that GDB knows, as long as this lives.
#[derive(Debug)]
pub(super) struct Registered {
    entry: NonNull<CodeEntry>,
    /// What the entry leads to.
    _object: Vec<u8>,
}

// SAFETY: the entry is changed only by who holds `LIST`.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    /// Of an object whose sections have their addresses.
    pub(super) fn new(object: Vec<u8>) -> Registered {
        let (start, size) = (object.as_ptr(), object.len() as u64);
        let entry = Box::new(CodeEntry { next: null_mut(), previous: null_mut(), object: start, size });
        let entry = NonNull::from(Box::leak(entry));
        let _list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the list's entries live until they are taken from it, and only who holds the lock follows or changes them; GDB looks
        // while everything stands still.
        unsafe {
            let descriptor = &raw mut DESCRIPTOR;
            let first = (*descriptor).first;
            (*entry.as_ptr()).next = first;
            if !first.is_null() {
                (*first).previous = entry.as_ptr();
            }
            (*descriptor).first = entry.as_ptr();
            tell(REGISTER, entry);
        }
        Registered { entry, _object: object }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as above. The entry came from a box, and nothing leads to it any more when it becomes one again.
        unsafe {
            let descriptor = &raw mut DESCRIPTOR;
            let CodeEntry { next, previous, .. } = *self.entry.as_ptr();
            match NonNull::new(previous) {
                Some(previous) => (*previous.as_ptr()).next = next,
                None => (*descriptor).first = next,
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            tell(UNREGISTER, self.entry);
            drop(Box::from_raw(self.entry.as_ptr()));
        }
    }
}

/// Has GDB look at an entry.
///
/// # Safety
/// The caller holds `LIST`, and the entry lives.
unsafe fn tell(action: u32, entry: NonNull<CodeEntry>) {
    // SAFETY: under the lock nobody else uses the descriptor; the function does nothing.
    unsafe {
        let descriptor = &raw mut DESCRIPTOR;
        (*descriptor).action = action;
        (*descriptor).relevant = entry.as_ptr();
        register_code();
        (*descriptor).relevant = null_mut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First bytes of the list's objects. (Other tests register nothing: no settings ask for it.)
    fn list() -> Vec<u8> {
        let _list = LIST.lock().unwrap();
        let mut first = Vec::new();
        // SAFETY: under the lock the list stands still.
        unsafe {
            let descriptor = &raw const DESCRIPTOR;
            let mut entry = (*descriptor).first;
            while !entry.is_null() {
                first.push(*(*entry).object);
                entry = (*entry).next;
            }
        }
        first
    }

    #[test]
    fn objects_come_and_go_in_any_order() {
        let [one, two, three] = [1, 2, 3].map(|number| Registered::new(vec![number]));
        assert_eq!(list(), [3, 2, 1]);
        drop(two);
        assert_eq!(list(), [3, 1]);
        drop(three);
        assert_eq!(list(), [1]);
        drop(one);
        assert!(list().is_empty());
    }
}
