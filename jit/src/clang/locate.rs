//! Which clang: the one that SPIRULA_CLANG names, clang-22 or clang in PATH, or the one beside LLVM.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A clang that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clang {
    /// The program.
    pub program: PathBuf,
    /// The folder of its own headers: of OpenCL's types and constants.
    pub headers: PathBuf,
}

/// The header that `-finclude-default-header` includes.
pub(super) const BASE_HEADER: &str = "opencl-c-base.h";

/// The one whose options we know and whose bitcode our LLVM reads.
const VERSION: &str = "22";

/// Where LLVM is: where the build found it, or where Debian has it.
const LLVM: &str = match option_env!("LLVM_SYS_221_PREFIX") {
    Some(prefix) => prefix,
    None => "/usr/lib/llvm-22",
};

/// The compiler, looked for once. `SPIRULA_CLANG` names another one; if that is not to be used, there is none.
pub fn find() -> Option<&'static Clang> {
    static CLANG: LazyLock<Option<Clang>> = LazyLock::new(|| {
        choose(std::env::var_os("SPIRULA_CLANG"), std::env::var_os("PATH").unwrap_or_default())
    });
    CLANG.as_ref()
}

fn choose(named: Option<OsString>, path: OsString) -> Option<Clang> {
    if let Some(named) = named {
        return Clang::at(Path::new(&named));
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let in_path =
        ["clang-22", "clang"].into_iter().flat_map(|name| folders.iter().map(move |f| f.join(name)));
    in_path.chain([Path::new(LLVM).join("bin/clang")]).find_map(|path| Clang::at(&path))
}

impl Clang {
    /// The clang at this path, if there is one, of the right version, which its headers' place tells, and with these.
    pub fn at(path: &Path) -> Option<Clang> {
        let program = std::fs::canonicalize(path).ok().filter(|program| program.is_file())?;
        let version = program.file_name()?.to_str()?.strip_prefix("clang")?;
        if version.strip_prefix('-').is_some_and(|version| version != VERSION) {
            return None;
        }
        let root = program.parent()?.parent()?;
        let places =
            ["lib", "lib64"].map(|library| root.join(library).join("clang").join(VERSION).join("include"));
        let headers = places.into_iter().find(|headers| headers.join(BASE_HEADER).is_file())?;
        Some(Clang { program, headers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_clang_of_our_version_is_taken() {
        let folder = std::env::temp_dir().join(format!("spirula-locate-{}", std::process::id()));
        let place = |prefix: &str, version: &str| {
            let (bin, include) = (folder.join(prefix).join("bin"), format!("lib/clang/{version}/include"));
            let include = folder.join(prefix).join(include);
            fs::create_dir_all(&bin).unwrap();
            fs::create_dir_all(&include).unwrap();
            fs::write(bin.join("clang"), "").unwrap();
            fs::write(include.join(BASE_HEADER), "").unwrap();
            bin
        };
        fs::write(place("other", VERSION).join("clang-21"), "").unwrap();
        let (old, right) = (place("old", "15"), place("right", VERSION));
        let path = std::env::join_paths([&old, &right]).unwrap();
        assert_eq!(choose(None, path.clone()).unwrap().program, right.join("clang").canonicalize().unwrap());
        assert_eq!(choose(Some(old.join("clang").into()), path.clone()), None);
        assert_eq!(choose(Some(folder.join("other/bin/clang-21").into()), path.clone()), None);
        assert_eq!(choose(Some("/bin/sh".into()), path.clone()), None);
        assert_eq!(choose(Some("/nowhere/clang-22".into()), path), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
