//! Which clang: the one that SPIRULA_CLANG names, clang-22 or clang in PATH, or the one beside LLVM.

use crate::settings;
use spirula_interface::translation::{BASE_HEADER, Clang};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

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
        let settings = settings::get();
        choose(settings.clang.as_deref(), &settings.search_path)
    });
    CLANG.as_ref()
}

fn choose(named: Option<&Path>, search_path: &[PathBuf]) -> Option<Clang> {
    if let Some(named) = named {
        return clang_at(named);
    }
    let in_path =
        ["clang-22", "clang"].into_iter().flat_map(|name| search_path.iter().map(move |f| f.join(name)));
    in_path.chain([Path::new(LLVM).join("bin/clang")]).find_map(|path| clang_at(&path))
}

/// The clang at this path, if there is one, of the right version, which its headers' place tells, and with these.
fn clang_at(path: &Path) -> Option<Clang> {
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

/// Bytes that are others when the compiler or its own headers were replaced. None if they are gone.
pub fn fingerprint(clang: &Clang) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for path in [&clang.program, &clang.headers, &clang.headers.join(BASE_HEADER)] {
        let file = std::fs::metadata(path).ok()?;
        let told = [file.dev(), file.ino(), file.len(), file.mtime() as u64, file.mtime_nsec() as u64];
        bytes.extend(told.map(u64::to_le_bytes).concat());
    }
    Some(bytes)
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
        let path = [old.clone(), right.clone()];
        assert_eq!(choose(None, &path).unwrap().program, right.join("clang").canonicalize().unwrap());
        assert_eq!(choose(Some(&old.join("clang")), &path), None);
        assert_eq!(choose(Some(&folder.join("other/bin/clang-21")), &path), None);
        assert_eq!(choose(Some(Path::new("/bin/sh")), &path), None);
        assert_eq!(choose(Some(Path::new("/nowhere/clang-22")), &path), None);
        let clang = choose(None, &path).unwrap();
        let before = fingerprint(&clang).unwrap();
        assert_eq!(fingerprint(&clang).unwrap(), before);
        fs::write(&clang.program, "another").unwrap();
        assert_ne!(fingerprint(&clang).unwrap(), before);
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(fingerprint(&clang), None);
    }
}
