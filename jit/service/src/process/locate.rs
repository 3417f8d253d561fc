//! Where the compiler is: beside the library that this code was loaded from, or in the folder `spirula` there.

use crate::settings;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The program's name.
pub const PROGRAM: &str = "spirula-compiler";

/// The compiler's path. The error names the places where it was looked for.
pub fn compiler() -> Result<PathBuf, String> {
    match this_file() {
        Some(library) => compiler_of(&library),
        None => named().unwrap_or_else(|| {
            Err("this library's own path is unknown: name the compiler by SPIRULA_COMPILER".into())
        }),
    }
}

/// The compiler that the library of this path finds, in this environment.
pub fn compiler_of(library: &Path) -> Result<PathBuf, String> {
    if let Some(named) = named() {
        return named;
    }
    let places = places(library);
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let tried: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        format!(
            "there is no file {}: the library {} needs the program {PROGRAM} beside it",
            tried.join(" or "),
            library.display()
        )
    })
}

/// The one that the user names, if any.
fn named() -> Option<Result<PathBuf, String>> {
    let named = settings::get().compiler_program.as_ref()?;
    let found = named.is_file().then(|| named.clone());
    Some(found.ok_or_else(|| format!("SPIRULA_COMPILER names {}, which is no file", named.display())))
}

/// Where the program belongs, for a library of this path.
fn places(library: &Path) -> Vec<PathBuf> {
    let folder = library.parent().unwrap_or(Path::new("/"));
    // Cargo keeps test programs in a folder below the one for finished libraries and programs.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    vec![folder.join(PROGRAM), folder.join("spirula").join(PROGRAM)]
}

/// The file that this code was loaded from, as the kernel names it, or as the dynamic loader does where there is no /proc.
pub(crate) fn this_file() -> Option<PathBuf> {
    let here = this_file as *const () as usize;
    mapped_file(here).or_else(|| {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the address is one of this library's; `info` is written when the result is not zero.
        let known = unsafe { libc::dladdr(here as *const c_void, info.as_mut_ptr()) } != 0;
        // SAFETY: all zero is a valid Dl_info too, with null pointers.
        let name = unsafe { info.assume_init() }.dli_fname;
        if !known || name.is_null() {
            return None;
        }
        // SAFETY: the loader's own name of the file, a C string that lives as long as the library.
        let name = unsafe { CStr::from_ptr(name) };
        std::path::absolute(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))).ok()
    })
}

fn mapped_file(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read(Path::new("/proc/self/maps")).ok()?;
    let line = maps.split(|&byte| byte == b'\n').find_map(|line| path_of(address, line))?;
    // A library that was replaced while it runs has this name still; the compiler there may be another, and says so.
    let path = line.strip_suffix(b" (deleted)").unwrap_or(line);
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// The path in a line of /proc/self/maps, `start-end permissions offset device inode path`, if it maps the address.
fn path_of(address: usize, line: &[u8]) -> Option<&[u8]> {
    let end_of_range = line.iter().position(|&byte| byte == b' ')?;
    let (start, end) = std::str::from_utf8(&line[..end_of_range]).ok()?.split_once('-')?;
    let bound = |text| usize::from_str_radix(text, 16).ok();
    let path = &line[line.iter().position(|&byte| byte == b'/')?..];
    (bound(start)?..bound(end)?).contains(&address).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_are_read() {
        let line = b"7f00-8f00 r-xp 00001000 fe:01 1234                       /opt/a dir/libspirula.so";
        assert_eq!(path_of(0x7f00, line), Some(b"/opt/a dir/libspirula.so".as_slice()));
        assert_eq!(path_of(0x8f00, line), None);
        assert_eq!(path_of(0x7f00, b"7f00-8f00 r-xp 0 0:0 0"), None);
    }

    #[test]
    fn the_file_of_this_test_is_found() {
        assert_eq!(this_file().unwrap(), std::env::current_exe().unwrap());
    }

    #[test]
    fn the_compiler_stands_beside_the_library() {
        let folder = |library: &str| places(Path::new(library))[0].display().to_string();
        assert_eq!(folder("/usr/lib/libspirula.so"), "/usr/lib/spirula-compiler");
        assert_eq!(folder("/a/target/release/deps/tests-123"), "/a/target/release/spirula-compiler");
    }
}
