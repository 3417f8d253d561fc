//! How a safe Rust function becomes the C function of a dispatch slot: its parameters are wrapped, a panic stops, an error is
//! reported, and status and result go back.

use super::{FromAbi, Out};
use crate::error::{Error, Status};
use crate::handle::NewHandle;
use opencl_sys::{CL_SUCCESS, cl_int};
use spirula_runtime as runtime;
use spirula_runtime::context::Context;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What a function gives back to C besides its status.
pub trait IntoAbi {
    /// What C gets.
    type Raw;
    /// What C gets when the function failed.
    const FAILED: Self::Raw;
    /// What C gets when it succeeded.
    fn into_abi(self) -> Self::Raw;
    /// What `errcode_ret` gets all the same.
    fn error(&self) -> Option<&Error> {
        None
    }
}

impl IntoAbi for () {
    type Raw = ();
    const FAILED: () = ();
    fn into_abi(self) {}
}

impl IntoAbi for NewHandle {
    type Raw = *mut c_void;
    const FAILED: *mut c_void = std::ptr::null_mut();
    fn into_abi(self) -> *mut c_void {
        self.into_raw()
    }
}

/// A pointer that a function returns; null says that there is none.
impl IntoAbi for *mut c_void {
    type Raw = *mut c_void;
    const FAILED: *mut c_void = std::ptr::null_mut();
    fn into_abi(self) -> *mut c_void {
        self
    }
}

/// Runs an entry point's body, whose C name `N` is and whose first object's context `context` finds. Returns what C gets:
/// result and status. A panic stops here and becomes an error; an error is reported.
fn call<N: Name, R: IntoAbi>(
    body: impl FnOnce() -> Status<R>,
    context: impl FnOnce() -> Option<Arc<Context>>,
) -> (R::Raw, cl_int) {
    let result = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(runtime::Error::panicked(panic.as_ref()).into()));
    let error = result.as_ref().map_or_else(Some, R::error);
    let status = error.map_or(CL_SUCCESS, |error| {
        error.report(conjure::<N>()(), context);
        error.code
    });
    (result.map_or(R::FAILED, R::into_abi), status)
}

/// The name of a C function: a closure, so that each name is a type, as a slot's function needs it.
pub trait Name: Fn() -> &'static str + Copy {}

impl<N: Fn() -> &'static str + Copy> Name for N {}

/// A Rust function that can stand in a dispatch slot, by kind of its C prototype (`Kind`), its name and its parameters.
pub trait Entry<Kind, N, Parameters>: Copy {
    /// The slot's type.
    type Slot;
    /// The C function.
    const SLOT: Self::Slot;
}

/// `cl_int f(parameters)`: returns the status.
pub struct Plain;
/// `R f(parameters, cl_int *errcode_ret)`.
pub struct Creates;
/// `R f(parameters)`: no status at all.
pub struct Bare;

/// The dispatch slot of a function that returns its status.
pub const fn plain<N: Name, P, F: Entry<Plain, N, P>>(_: N, _: F) -> Option<F::Slot> {
    Some(F::SLOT)
}

/// The dispatch slot of a function with `errcode_ret`.
pub const fn creates<N: Name, P, F: Entry<Creates, N, P>>(_: N, _: F) -> Option<F::Slot> {
    Some(F::SLOT)
}

/// The dispatch slot of a function that says nothing about its success.
pub const fn bare<N: Name, P, F: Entry<Bare, N, P>>(_: N, _: F) -> Option<F::Slot> {
    Some(F::SLOT)
}

/// Conjures a function item or a closure that captures nothing: it has no bytes.
fn conjure<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "only a function item can stand in a dispatch slot") };
    // SAFETY: F is a zero-sized `Copy` type of which the caller of `plain` and its like held a value, so it is
    // inhabited; reading no bytes from a dangling but aligned pointer is valid.
    unsafe { std::ptr::NonNull::<F>::dangling().read() }
}

/// [`Entry`] for functions of each number of parameters.
macro_rules! entries {
    ($($($p:ident)*;)*) => {$(
        #[allow(non_snake_case, clippy::too_many_arguments)]
        const _: () = {
            /// The call that all kinds of slots make.
            ///
            /// # Safety
            /// The parameters keep the contract at the top of `abi.rs`.
            unsafe fn enter<N: Name, F: Fn($($p),*) -> Status<R> + Copy, R: IntoAbi, $($p: FromAbi),*>(
                $($p: $p::Raw),*
            ) -> (R::Raw, cl_int) {
                let context = || None$(.or_else(|| $p::context($p)))*;
                // SAFETY: as this function's caller promises.
                $(let $p = unsafe { $p::from_abi($p) };)*
                call::<N, R>(|| conjure::<F>()($($p),*), context)
            }

            impl<Function, N: Name, $($p: FromAbi),*> Entry<Plain, N, ($($p,)*)> for Function
            where Function: Fn($($p),*) -> Status + Copy {
                type Slot = unsafe extern "C" fn($($p::Raw),*) -> cl_int;
                const SLOT: Self::Slot = {
                    unsafe extern "C" fn slot<N: Name, F: Fn($($p),*) -> Status + Copy, $($p: FromAbi),*>(
                        $($p: $p::Raw),*
                    ) -> cl_int {
                        // SAFETY: the contract of `abi.rs`: these are an application's parameters.
                        unsafe { enter::<N, F, (), $($p),*>($($p),*) }.1
                    }
                    slot::<N, Function, $($p),*>
                };
            }

            impl<Function, N: Name, R: IntoAbi, $($p: FromAbi),*> Entry<Creates, N, ($($p,)*)> for Function
            where Function: Fn($($p),*) -> Status<R> + Copy {
                type Slot = unsafe extern "C" fn($($p::Raw,)* *mut cl_int) -> R::Raw;
                const SLOT: Self::Slot = {
                    unsafe extern "C" fn slot<
                        N: Name, F: Fn($($p),*) -> Status<R> + Copy, R: IntoAbi, $($p: FromAbi),*
                    >(
                        $($p: $p::Raw,)* errcode_ret: *mut cl_int
                    ) -> R::Raw {
                        // SAFETY: the contract of `abi.rs`: these are an application's parameters.
                        let (result, status) = unsafe { enter::<N, F, R, $($p),*>($($p),*) };
                        Out(errcode_ret).write(status);
                        result
                    }
                    slot::<N, Function, R, $($p),*>
                };
            }

            impl<Function, N: Name, R: IntoAbi, $($p: FromAbi),*> Entry<Bare, N, ($($p,)*)> for Function
            where Function: Fn($($p),*) -> Status<R> + Copy {
                type Slot = unsafe extern "C" fn($($p::Raw),*) -> R::Raw;
                const SLOT: Self::Slot = {
                    unsafe extern "C" fn slot<
                        N: Name, F: Fn($($p),*) -> Status<R> + Copy, R: IntoAbi, $($p: FromAbi),*
                    >(
                        $($p: $p::Raw),*
                    ) -> R::Raw {
                        // SAFETY: the contract of `abi.rs`: these are an application's parameters.
                        unsafe { enter::<N, F, R, $($p),*>($($p),*) }.0
                    }
                    slot::<N, Function, R, $($p),*>
                };
            }
        };
    )*};
}

entries! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E G;
    A B C D E G H;
    A B C D E G H I;
    A B C D E G H I J;
    A B C D E G H I J K;
    A B C D E G H I J K L;
    A B C D E G H I J K L M;
    A B C D E G H I J K L M O;
    A B C D E G H I J K L M O P;
    A B C D E G H I J K L M O P Q;
    A B C D E G H I J K L M O P Q S;
}

#[cfg(test)]
mod tests {
    use super::*;
    use opencl_sys::{CL_INVALID_VALUE, CL_OUT_OF_RESOURCES};
    use std::ptr::null_mut;

    fn check(value: u32) -> Status {
        assert!(value != 13, "a panic that must stop at the border");
        crate::error::fail_if(value == 0, CL_INVALID_VALUE, "value is 0")
    }

    fn make(value: u32) -> Status<*mut c_void> {
        check(value).map(|()| std::ptr::without_provenance_mut(value as usize))
    }

    #[test]
    fn the_status_is_returned_and_panics_become_one() {
        let slot = plain(|| "check", check).unwrap();
        // SAFETY: no pointers.
        let call = |value| unsafe { slot(value) };
        assert_eq!((call(1), call(0), call(13)), (CL_SUCCESS, CL_INVALID_VALUE, CL_OUT_OF_RESOURCES));
    }

    #[test]
    fn errcode_ret_is_always_written_and_may_be_null() {
        let slot = creates(|| "make", make).unwrap();
        let call = |value| {
            let mut code = 99;
            // SAFETY: a live cl_int.
            (unsafe { slot(value, &mut code) }.addr(), code)
        };
        assert_eq!(call(5), (5, CL_SUCCESS));
        assert_eq!(call(0), (0, CL_INVALID_VALUE));
        assert_eq!(call(13), (0, CL_OUT_OF_RESOURCES));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { slot(5, null_mut()) }.addr(), 5);
    }

    #[test]
    fn functions_without_status_return_null() {
        let slot = bare(|| "make", make).unwrap();
        // SAFETY: no pointers.
        let call = |value| unsafe { slot(value) }.addr();
        assert_eq!((call(5), call(0), call(13)), (5, 0, 0));
    }

    #[test]
    fn a_result_and_an_error_can_go_together() {
        struct Both(Error);
        impl IntoAbi for Both {
            type Raw = u32;
            const FAILED: u32 = 0;
            fn into_abi(self) -> u32 {
                7
            }
            fn error(&self) -> Option<&Error> {
                Some(&self.0)
            }
        }
        fn both() -> Status<Both> {
            Ok(Both(Error::new(CL_INVALID_VALUE, "in spite of the result")))
        }
        let mut code = 99;
        // SAFETY: a live cl_int.
        assert_eq!(unsafe { creates(|| "both", both).unwrap()(&mut code) }, 7);
        assert_eq!(code, CL_INVALID_VALUE);
    }
}
