//! The border to C: the kinds of parameters that OpenCL's functions take. `entry.rs` makes C functions of safe Rust ones
//! that take them. All `unsafe` of the C API is in these two files and in `callback.rs`.
//!
//! The one contract behind it: *a pointer that the application passes is null, or valid for the accesses that the
//! OpenCL specification says the called function makes through it.* It is asserted once, where a raw parameter becomes
//! one of the types below ([`FromAbi`]); the methods here make those accesses and no others.

mod entry;

pub use entry::{IntoAbi, bare, creates, plain};

use crate::error::Status;
use crate::handle::{ClObject, Ref};
use spirula_runtime::context::Context;
use spirula_runtime::memory::HostPtr;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

/// A parameter as Rust sees it, made from what C passed.
pub trait FromAbi {
    /// What C passes.
    type Raw: Copy;
    /// # Safety
    /// `raw` keeps the contract at the top of this file.
    unsafe fn from_abi(raw: Self::Raw) -> Self;
    /// The context of the object that it names, if it names one that has a context.
    fn context(_: Self::Raw) -> Option<Arc<Context>> {
        None
    }
}

/// Parameters that are the same on both sides, or only wrapped.
macro_rules! wraps {
    ($([$($param:ident: $bound:path)?] $ty:ty, $raw:ty, $wrap:expr;)*) => {$(
        impl$(<$param: $bound>)? FromAbi for $ty {
            type Raw = $raw;
            unsafe fn from_abi(raw: $raw) -> Self {
                ($wrap)(raw)
            }
        }
    )*};
}

wraps! {
    [] u32, u32, std::convert::identity;
    [] i32, i32, std::convert::identity;
    [] u64, u64, std::convert::identity;
    [] usize, usize, std::convert::identity;
    [T: ClObject] Handles<T>, *const *mut c_void, |raw| Handles(In(raw), PhantomData);
    [T: Copy] In<T>, *const T, In;
    [T: Copy] Out<T>, *mut T, Out;
    [] Text, *const c_char, Text;
    [] HostConst, *const c_void, HostConst;
    [] HostMut, *mut c_void, HostMut;
}

/// An object that the application names. Never dereferenced: see `handle.rs`.
pub struct Handle<T>(*mut c_void, PhantomData<fn() -> T>);

impl<T: ClObject> FromAbi for Handle<T> {
    type Raw = *mut c_void;
    unsafe fn from_abi(raw: *mut c_void) -> Self {
        Handle(raw, PhantomData)
    }
    fn context(raw: *mut c_void) -> Option<Arc<Context>> {
        Ref::<T>::find(raw).ok()?.context()
    }
}

impl<T: ClObject> Handle<T> {
    /// The object. Errors: the type's `CL_INVALID_*` if the handle is null, garbage, released or of another type.
    pub fn get(&self) -> Status<Ref<T>> {
        Ref::find(self.0)
    }

    /// Whether the application passed none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// What the application passed, to be passed on.
    pub fn address(&self) -> *mut c_void {
        self.0
    }
}

/// A list of objects.
pub struct Handles<T>(In<*mut c_void>, PhantomData<fn() -> T>);

impl<T: ClObject> Handles<T> {
    /// Whether the application passed none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The first `count` objects; none if the list is null. Errors: as [`Handle::get`].
    pub fn get(&self, count: u32) -> Status<Vec<Ref<T>>> {
        self.0.list(count as usize).unwrap_or_default().into_iter().map(Ref::find).collect()
    }
}

/// A pointer to values that the function reads.
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// For what an entry point does not take.
    pub fn none() -> Self {
        In(std::ptr::null())
    }

    /// Whether the application passed none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Element `index`; the pointer is not null and has that many.
    fn at(&self, index: usize) -> T {
        // SAFETY: the file's contract: the callers below have checked for null, and their counts are those that the
        // specification ties to this pointer. The read is unaligned because applications cast.
        unsafe { self.0.add(index).read_unaligned() }
    }

    /// The value, if there is one.
    pub fn get(&self) -> Option<T> {
        (!self.is_null()).then(|| self.at(0))
    }

    /// `count` values, if there are any.
    pub fn list(&self, count: usize) -> Option<Vec<T>> {
        (!self.is_null()).then(|| (0..count).map(|index| self.at(index)).collect())
    }

    /// The first `count` of `N` values at most, if there are any.
    pub fn few<const N: usize>(&self, count: usize) -> Option<Few<T, N>>
    where
        T: Default,
    {
        let value = |index| if index < count { self.at(index) } else { T::default() };
        (!self.is_null()).then(|| Few { values: std::array::from_fn(value), count: count.min(N) })
    }

    /// `[T; N]`, if there is one.
    pub fn array<const N: usize>(&self) -> Option<[T; N]> {
        (!self.is_null()).then(|| std::array::from_fn(|index| self.at(index)))
    }
}

impl<T: Copy + Default + PartialEq> In<T> {
    /// A list of name and value pairs that a zero name ends (`cl_context_properties` and its like).
    pub fn properties(&self) -> Vec<(T, T)> {
        if self.is_null() {
            return Vec::new();
        }
        (0..)
            .step_by(2)
            .take_while(|&name| self.at(name) != T::default())
            .map(|name| (self.at(name), self.at(name + 1)))
            .collect()
    }

    /// The values from `first` on up to a zero.
    pub fn rest_until_zero(&self, first: usize) -> Vec<T> {
        if self.is_null() {
            return Vec::new();
        }
        (first..).map(|index| self.at(index)).take_while(|value| *value != T::default()).collect()
    }

    /// The same list as `CL_*_PROPERTIES_ARRAY` and its like tell it: with the closing zero; nothing if it is null.
    pub fn property_list(&self) -> Vec<T> {
        let pairs = self.properties().into_iter().flat_map(|(name, value)| [name, value]);
        if self.is_null() { Vec::new() } else { pairs.chain([T::default()]).collect() }
    }
}

/// A short list that needs no memory of its own.
pub struct Few<T, const N: usize> {
    values: [T; N],
    count: usize,
}

impl<T, const N: usize> std::ops::Deref for Few<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.values[..self.count]
    }
}

/// A pointer to values that the function writes (or, where C's prototype says so, reads).
pub struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// For results that nobody wants.
    pub fn nowhere() -> Self {
        Out(std::ptr::null_mut())
    }

    /// Whether the application wants none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes the value, if it is wanted.
    pub fn write(&self, value: T) {
        self.write_list(&[value]);
    }

    /// Writes the values, if they are wanted; the caller has checked that there is room for so many.
    pub fn write_list(&self, values: &[T]) {
        if !self.is_null() {
            for (index, &value) in values.iter().enumerate() {
                // SAFETY: the file's contract; not null, and the specification's room for `values` was checked.
                unsafe { self.0.add(index).write_unaligned(value) }
            }
        }
    }

    /// The same pointer for reading.
    pub fn as_in(&self) -> In<T> {
        In(self.0)
    }
}

impl Out<*mut c_void> {
    /// A list of objects where C's prototype has no `const`.
    pub fn as_handles<T: ClObject>(&self) -> Handles<T> {
        Handles(self.as_in(), PhantomData)
    }
}

/// A zero-terminated string.
pub struct Text(*const c_char);

impl Text {
    /// Whether the application passed none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Its bytes without the zero; none if it is null.
    pub fn bytes(&self) -> &[u8] {
        if self.is_null() {
            return &[];
        }
        // SAFETY: the file's contract: a string that is not null ends with a zero byte, and lives during the call.
        unsafe { CStr::from_ptr(self.0) }.to_bytes()
    }

    /// Its first `length` bytes, or all up to the zero if `length` is 0; none if it is null.
    pub fn prefix(&self, length: usize) -> Vec<u8> {
        match length {
            0 => self.bytes().to_vec(),
            _ => In(self.0.cast::<u8>()).list(length).unwrap_or_default(),
        }
    }

    /// As text, with U+FFFD for what isn't UTF-8.
    pub fn string(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

impl<R: Copy> In<R> {
    /// `count` parameters of a list, if there is one; `raw` makes each what C would have passed for it.
    fn parameters<T: FromAbi>(&self, count: usize, raw: impl Fn(R) -> T::Raw) -> Option<Vec<T>> {
        let list = self.list(count)?;
        // SAFETY: the file's contract holds for the pointers in a list as for the list.
        Some(list.into_iter().map(|element| unsafe { T::from_abi(raw(element)) }).collect())
    }
}

impl In<*const c_char> {
    /// `count` strings.
    pub fn texts(&self, count: u32) -> Vec<Text> {
        self.parameters(count as usize, |raw| raw).unwrap_or_default()
    }
}

impl In<*const u8> {
    /// `count` stretches of memory.
    pub fn memories(&self, count: usize) -> Option<Vec<HostConst>> {
        self.parameters(count, <*const u8>::cast)
    }
}

impl In<*mut c_void> {
    /// `count` stretches of memory to be written.
    pub fn memories(&self, count: usize) -> Option<Vec<HostMut>> {
        self.parameters(count, |raw| raw)
    }
}

/// Memory of the application that a command or function reads.
#[derive(Clone, Copy)]
pub struct HostConst(*const c_void);

impl HostConst {
    /// Whether the application passed none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The address.
    pub fn address(&self) -> *const c_void {
        self.0
    }

    /// Its first `size` bytes; none if it is null.
    pub fn bytes(&self, size: usize) -> Option<&[u8]> {
        if self.is_null() || size > isize::MAX as usize {
            return None;
        }
        // SAFETY: the file's contract: not null, and `size` is what the specification ties to this pointer.
        Some(unsafe { std::slice::from_raw_parts(self.0.cast(), size) })
    }

    /// The same memory for reading values of a type.
    pub fn cast<T>(&self) -> In<T> {
        In(self.0.cast())
    }

    /// For a command.
    pub fn pointer(&self) -> Option<HostPtr> {
        HostMut(self.0.cast_mut()).pointer()
    }
}

/// Memory of the application that a command writes.
#[derive(Clone, Copy)]
pub struct HostMut(*mut c_void);

impl HostMut {
    /// Whether the application passed none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The address, to be compared.
    pub fn address(&self) -> *mut u8 {
        self.0.cast()
    }

    /// The same memory for reading.
    pub fn as_const(&self) -> HostConst {
        HostConst(self.0)
    }

    /// The same memory for writing values of a type.
    pub fn cast<T>(&self) -> Out<T> {
        Out(self.0.cast())
    }

    /// Writes bytes, if there is room; the caller has checked how much.
    pub fn write_bytes(&self, bytes: &[u8]) {
        if !self.is_null() {
            // SAFETY: the file's contract; not null, and the specification's room for `bytes` was checked. They are ours,
            // so they don't overlap with memory of the application.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), bytes.len()) }
        }
    }

    /// For a command.
    pub fn pointer(&self) -> Option<HostPtr> {
        // SAFETY: the file's contract, which HostPtr's repeats.
        unsafe { HostPtr::new(self.0.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn property_lists_end_at_zero() {
        let list = [1_u64, 0, 3, 4, 0, 9];
        assert_eq!(In(list.as_ptr()).properties(), [(1, 0), (3, 4)]);
        assert_eq!(In::<u64>(null_mut()).properties(), []);
        assert_eq!(In([0_u64].as_ptr()).properties(), []);
    }

    #[test]
    fn strings_are_read_by_length_or_up_to_their_zero() {
        let text = Text(c"abc".as_ptr());
        assert_eq!(
            (text.bytes(), text.prefix(2), text.prefix(0)),
            (&b"abc"[..], b"ab".to_vec(), b"abc".to_vec())
        );
        assert_eq!(Text(std::ptr::null()).bytes(), b"");
        assert_eq!(Text(c"\xff".as_ptr()).string(), "\u{fffd}");
    }

    #[test]
    fn misaligned_pointers_are_read_and_written() {
        let mut bytes = [0_u8; 9];
        let odd = bytes[1..].as_mut_ptr();
        Out(odd.cast::<u64>()).write(0x0102_0304_0506_0708);
        assert_eq!(In(odd.cast::<u64>()).get(), Some(0x0102_0304_0506_0708));
    }
}
