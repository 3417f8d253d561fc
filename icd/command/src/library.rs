//! libspirula.so: where it is, and its functions.

use crate::Result;
use crate::arguments::Common;
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW, Symbol};
use opencl_sys::cl_icd::cl_icd_dispatch;
use opencl_sys::{cl_int, cl_platform_id, cl_uint};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

const FILE: &str = "libspirula.so";
/// Where the ICD loader looks for the names of libraries.
const VENDORS: &str = "etc/OpenCL/vendors/spirula.icd";

/// The library's path. The error names the places where it was looked for.
pub fn find(common: &Common) -> Result<PathBuf> {
    if let Some(named) = &common.library {
        return Ok(named.canonicalize().map_err(|error| format!("{}: {error}", named.display()))?);
    }
    let own =
        std::env::current_exe().map_err(|error| format!("this command's own path is unknown: {error}"))?;
    let places = places(&own);
    let found = places.iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
    found.ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!("there is no file {}: name the library by --library", places.join(" or ")).into()
    })
}

/// Where the library may be that was installed with a command of this path.
fn places(own: &Path) -> Vec<PathBuf> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(Path::new("/"));
    let below = ["lib", "lib64", "lib/x86_64-linux-gnu", "lib/spirula"];
    let named = [prefix.join(VENDORS), Path::new("/").join(VENDORS)];
    let named = named.iter().filter_map(|icd| {
        let text = std::fs::read_to_string(icd).ok()?;
        // What is no path is looked for by the dynamic loader; relative ones are the loader's to understand.
        Some(PathBuf::from(text.trim())).filter(|path| path.is_absolute())
    });
    let beside = [folder.join(FILE)].into_iter();
    beside.chain(below.map(|name| prefix.join(name).join(FILE))).chain(named).collect()
}

/// The loaded library.
pub struct Library {
    platform: cl_platform_id,
    /// Stays loaded: the library does, too.
    _loaded: Loaded,
}

impl Library {
    /// Loads it into this process, once these variables of the environment are set, which it then reads. To be called before other threads begin.
    pub fn load(common: &Common, variables: &[(&str, &OsStr)]) -> Result<Library> {
        let path = find(common)?;
        for (name, value) in variables {
            // SAFETY: this command has one thread until the library is loaded: whatever starts others comes behind.
            unsafe { std::env::set_var(name, value) };
        }
        let failed = |error: libloading::Error| format!("{}: {error}", path.display());
        // SAFETY: whoever names a library has it run its initialization; this one's own has none.
        let loaded = unsafe { Loaded::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
        type GetIds = unsafe extern "C" fn(cl_uint, *mut cl_platform_id, *mut cl_uint) -> cl_int;
        // SAFETY: cl_khr_icd defines this function so.
        let get_ids: Symbol<GetIds> = unsafe { loaded.get(b"clIcdGetPlatformIDsKHR\0") }.map_err(failed)?;
        let mut platform = null_mut();
        // SAFETY: one entry, and a place for it.
        let status = unsafe { get_ids(1, &mut platform, null_mut()) };
        if status != 0 || platform.is_null() {
            return Err(format!("{} has no platform: error {status}", path.display()).into());
        }
        Ok(Library { platform, _loaded: loaded })
    }

    pub fn platform(&self) -> cl_platform_id {
        self.platform
    }

    /// The library's functions.
    pub fn functions(&self) -> &cl_icd_dispatch {
        // SAFETY: by cl_khr_icd a platform's first word leads to the table, which is as constant as the library is loaded.
        unsafe { &**self.platform.cast::<*const cl_icd_dispatch>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_beside_the_command_or_in_the_same_prefix() {
        let places = places(Path::new("/opt/x/bin/spirula"));
        for place in [
            "/opt/x/bin/libspirula.so",
            "/opt/x/lib/libspirula.so",
            "/opt/x/lib/x86_64-linux-gnu/libspirula.so",
        ] {
            assert!(places.contains(&place.into()), "{place}");
        }
    }
}
