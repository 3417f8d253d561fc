//! Which library is under test, and how the ICD loader is pointed at it.

use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

/// Names another library, to run the tests against it.
pub const LIBRARY_VARIABLE: &str = "SPIRULA_LIB";
/// Where ocl-icd and Khronos's loader look for `.icd` files when it is set.
const VENDORS_VARIABLE: &str = "OCL_ICD_VENDORS";

/// Where the library keeps what it compiled; empty: nowhere. So it is in tests: what is tested is compiled.
pub const CACHE_VARIABLE: &str = "SPIRULA_CACHE_DIR";

/// The library under test: `$SPIRULA_LIB`, or the `libspirula.so` built next to this program, or the release build.
pub fn library() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os(LIBRARY_VARIABLE) {
        let path = PathBuf::from(path);
        return path.canonicalize().map_err(|e| format!("{LIBRARY_VARIABLE}={}: {e}", path.display()));
    }
    let exe = env::current_exe().map_err(|e| format!("can't find this program's own path: {e}"))?;
    let beside = |folder: &Path| [folder.join("libspirula.so"), folder.join("release/libspirula.so")];
    exe.ancestors()
        .skip(1)
        .take(3) // target/PROFILE/deps, target/PROFILE, target
        .flat_map(beside)
        .find(|path| path.exists())
        .ok_or_else(|| {
            "libspirula.so is not built: run `cargo build --release -p spirula-icd` first".to_string()
        })
}

/// The compiler that the library under test runs: beside it, or where cargo puts programs.
pub fn compiler() -> Result<PathBuf, String> {
    let library = library()?;
    let mut places = library.ancestors().skip(1).take(2).map(|folder| folder.join("spirula-compiler"));
    places.find(|path| path.is_file()).ok_or_else(|| format!("{} has no compiler", library.display()))
}

/// The variable that makes a loader find only `library`, with its value: a folder that holds one `.icd` file.
pub fn environment(library: &Path) -> io::Result<(&'static str, PathBuf)> {
    let stem = library.file_stem().unwrap_or_default().to_string_lossy();
    let folder = env::temp_dir().join(format!("spirula-icd-{stem}-{}", process::id()));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("one.icd"), format!("{}\n", library.display()))?;
    Ok((VENDORS_VARIABLE, folder))
}

/// The folder that [`environment`] wrote, removed on drop.
#[derive(Debug)]
pub struct Selected {
    folder: PathBuf,
}

impl Drop for Selected {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Points this process's loader, and those of its children, at the library under test. To be called first in `main`.
pub fn select() -> Result<Selected, String> {
    select_library(&library()?)
}

/// As [`select`], for this library.
pub fn select_library(library: &Path) -> Result<Selected, String> {
    let (variable, folder) = environment(library).map_err(|e| format!("can't write an .icd file: {e}"))?;
    // SAFETY: called at the start of `main`, before any other thread and before the loader reads its environment.
    unsafe { env::set_var(variable, &folder) };
    Ok(Selected { folder })
}
