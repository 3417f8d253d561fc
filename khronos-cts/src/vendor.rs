//! An ICD's shared library, and the environment in which a child process loads it and no other.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An ICD to run things against. Its `.icd` file lives as long as this.
pub struct Vendor {
    /// The library, absolute.
    pub library: PathBuf,
    folder: TempDir,
    /// A variable that its processes have besides.
    setting: Option<(String, String)>,
}

impl Vendor {
    /// The ICD in this library; `None` is the `libspirula.so` built beside this program.
    pub fn new(library: Option<&Path>) -> Result<Vendor, String> {
        let library = match library {
            Some(path) => path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?,
            None => spirula_tests::icd::library()?,
        };
        let explain = |e| format!("can't write an .icd file: {e}");
        let folder = tempfile::Builder::new().prefix("khronos-cts-icd").tempdir().map_err(explain)?;
        std::fs::write(folder.path().join("one.icd"), format!("{}\n", library.display())).map_err(explain)?;
        Ok(Vendor { library, folder, setting: None })
    }

    /// With this variable, as `NAME=VALUE`.
    pub fn with(self, setting: &str) -> Result<Vendor, String> {
        let (name, value) =
            setting.split_once('=').ok_or_else(|| format!("{setting:?} is not NAME=VALUE"))?;
        Ok(Vendor { setting: Some((name.to_owned(), value.to_owned())), ..self })
    }

    /// Points a child's loader at this ICD alone, and its dynamic linker at the libraries beside it.
    pub fn select(&self, command: &mut Command) {
        let beside = self.library.parent().map(Path::to_path_buf);
        let inherited = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let libraries = env::join_paths(beside.into_iter().chain(env::split_paths(&inherited)));
        command.env("OCL_ICD_VENDORS", self.folder.path()).env(spirula_tests::icd::CACHE_VARIABLE, "");
        command.envs(self.setting.clone());
        if let Ok(libraries) = libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
    }
}
