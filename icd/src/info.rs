//! `clGet*Info`: one query, answered once.

use crate::abi::{HostMut, Out};
use crate::error::{Status, fail, fail_if};
use crate::handle::{ClObject, Link};
use opencl_sys::{CL_INVALID_VALUE, cl_bool, cl_name_version, make_version};
use spirula_runtime::platform::Extension;
use std::ffi::c_void;

/// Where the answer to a query goes; [`query`] makes it.
pub struct Answer {
    size: usize,
    to: HostMut,
    size_ret: Out<usize>,
}

/// The proof that a query was answered: only [`Answer`]'s methods make one, and each consumes the answer.
pub struct Answered(());

/// Answers a query with the three last parameters of all `clGet*Info` functions. `answer` picks the value.
/// Errors: CL_INVALID_VALUE if `param_value_size` is less than the value's size and `param_value` is not null.
pub fn query(
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
    answer: impl FnOnce(Answer) -> Status<Answered>,
) -> Status {
    answer(Answer { size: param_value_size, to: param_value, size_ret: param_value_size_ret })
        .map(|Answered(())| ())
}

impl Answer {
    /// A list of plain values.
    pub fn list<T: Copy>(self, values: &[T]) -> Status<Answered> {
        let size = size_of_val(values);
        self.check_room(size)?;
        self.to.cast::<T>().write_list(values);
        self.size_ret.write(size);
        Ok(Answered(()))
    }

    /// CL_INVALID_VALUE if size in bytes specified by param_value_size is < size of return type and param_value is not a NULL
    /// value.
    fn check_room(&self, size: usize) -> Status {
        match !self.to.is_null() && self.size < size {
            true => fail(
                CL_INVALID_VALUE,
                format!("param_value_size is {}, but the value has {size} bytes", self.size),
            ),
            false => Ok(()),
        }
    }

    /// A plain value; the type is the one that the specification's table names.
    pub fn value<T: Copy>(self, value: T) -> Status<Answered> {
        self.list(&[value])
    }

    /// A `cl_bool`.
    pub fn flag(self, value: bool) -> Status<Answered> {
        self.value(cl_bool::from(value))
    }

    /// A string; the zero is added.
    pub fn text(self, text: &str) -> Status<Answered> {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        // A zero inside would end the string for the application: leave it out.
        bytes.extend(text.bytes().filter(|&byte| byte != 0));
        bytes.push(0);
        self.list(&bytes)
    }

    /// Another object.
    pub fn object<T: ClObject>(self, object: &Link<T>) -> Status<Answered> {
        self.value(object.handle())
    }

    /// Another object, or null.
    pub fn optional<T: ClObject>(self, object: Option<&Link<T>>) -> Status<Answered> {
        self.value(object.map_or(std::ptr::null_mut(), Link::handle))
    }

    /// Names and versions (`cl_name_version`).
    pub fn versions(self, named: &[Extension]) -> Status<Answered> {
        let value = |extension: &Extension| {
            let mut name = [0; opencl_sys::CL_NAME_VERSION_MAX_NAME_SIZE];
            // The last byte stays zero.
            name.iter_mut().rev().skip(1).rev().zip(extension.name.bytes()).for_each(|(to, byte)| *to = byte);
            cl_name_version { version: numeric(extension.version), name }
        };
        self.list(&named.iter().map(value).collect::<Vec<_>>())
    }

    /// A `cl_version`.
    pub fn version(self, version: [u32; 3]) -> Status<Answered> {
        self.value(numeric(version))
    }

    /// Objects.
    pub fn objects<T: ClObject>(self, objects: &[Link<T>]) -> Status<Answered> {
        self.list(&objects.iter().map(Link::handle).collect::<Vec<_>>())
    }

    /// Byte strings, each copied to the address that the application has put into its element of the list (those that
    /// are null are left out): CL_PROGRAM_BINARIES.
    pub fn scattered(self, values: &[impl AsRef<[u8]>]) -> Status<Answered> {
        let size = size_of::<*mut c_void>() * values.len();
        self.check_room(size)?;
        let places = self.to.cast::<*mut c_void>().as_in().memories(values.len());
        for (value, place) in values.iter().zip(places.unwrap_or_default()) {
            place.write_bytes(value.as_ref());
        }
        self.size_ret.write(size);
        Ok(Answered(()))
    }
}

fn numeric([major, minor, patch]: [u32; 3]) -> opencl_sys::cl_version {
    make_version(major, minor, patch)
}

/// The answer to a query for a parameter that there isn't.
pub fn unknown(param_name: u32) -> Status<Answered> {
    fail(CL_INVALID_VALUE, format!("param_name {param_name:#x} is not one of the supported values"))
}

/// The `num_entries`, `entries`, `num_entries_ret` of functions that list something.
pub fn list<T: Copy>(values: &[T], num_entries: u32, entries: &Out<T>, num_entries_ret: &Out<u32>) -> Status {
    fail_if(
        num_entries == 0 && !entries.is_null(),
        CL_INVALID_VALUE,
        "a list is given, but the number of its entries is 0",
    )?;
    entries.write_list(&values[..values.len().min(num_entries as usize)]);
    num_entries_ret.write(u32::try_from(values.len()).unwrap_or(u32::MAX));
    Ok(())
}

/// [`list`] for functions that must be asked for something.
pub fn list_or_count<T: Copy>(values: &[T], num_entries: u32, entries: &Out<T>, count: &Out<u32>) -> Status {
    let nothing = entries.is_null() && count.is_null();
    fail_if(nothing, CL_INVALID_VALUE, "neither a list nor its length is asked for")?;
    list(values, num_entries, entries, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::FromAbi;
    use opencl_sys::cl_int;

    fn code(status: Status) -> Result<(), cl_int> {
        status.map_err(|error| error.code)
    }

    /// Asks for a `u32` 7 with room for `size` bytes in a buffer of sixes.
    fn ask(size: usize, room: Option<&mut [u8; 8]>, size_ret: Option<&mut usize>) -> Result<(), cl_int> {
        let room = room.map_or(std::ptr::null_mut(), |room| room.as_mut_ptr().cast());
        // SAFETY: null, or room for 8 bytes, and no test says that it has more.
        let to = unsafe { HostMut::from_abi(room) };
        // SAFETY: null, or a live usize.
        let size_ret = unsafe { Out::from_abi(size_ret.map_or(std::ptr::null_mut(), std::ptr::from_mut)) };
        code(query(size, to, size_ret, |answer| answer.value(7_u32)))
    }

    #[test]
    fn writes_the_value_and_its_size_and_nothing_else() {
        let (mut room, mut size) = ([6; 8], 0);
        assert_eq!(ask(8, Some(&mut room), Some(&mut size)), Ok(()));
        assert_eq!((room, size), ([7, 0, 0, 0, 6, 6, 6, 6], 4));
    }

    #[test]
    fn too_little_room_is_invalid_and_writes_nothing() {
        let (mut room, mut size) = ([6; 8], 99);
        assert_eq!(ask(3, Some(&mut room), Some(&mut size)), Err(CL_INVALID_VALUE));
        assert_eq!((room, size), ([6; 8], 99));
    }

    #[test]
    fn the_size_alone_may_be_asked_with_any_param_value_size() {
        let mut size = 0;
        assert_eq!(ask(0, None, Some(&mut size)), Ok(()));
        assert_eq!(size, 4);
        assert_eq!(ask(1, None, None), Ok(()));
    }

    #[test]
    fn strings_end_with_one_zero() {
        let mut room = [6_u8; 4];
        // SAFETY: room for 4 bytes, and no more are said to be there.
        let to = unsafe { HostMut::from_abi(room.as_mut_ptr().cast()) };
        // SAFETY: null.
        let nowhere = || unsafe { Out::from_abi(std::ptr::null_mut()) };
        assert_eq!(code(query(4, to, nowhere(), |answer| answer.text("a\0b"))), Ok(()));
        assert_eq!(room, *b"ab\0\x06");
        assert_eq!(code(query(3, to, nowhere(), |answer| answer.text("abc"))), Err(CL_INVALID_VALUE));
    }
}
