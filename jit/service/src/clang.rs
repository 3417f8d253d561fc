//! Which clang: the one that SPIRULA_CLANG names, the package spirula-clang's beside the library, clang-22 or clang in PATH, or
//! the one beside LLVM.

use crate::process::locate;
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

/// Seen from the folder of libraries.
const PACKAGED: &str = "spirula-clang/clang-22";

/// The compiler, looked for once. `SPIRULA_CLANG` names another one; if that is not to be used, there is none.
pub fn find() -> Option<&'static Clang> {
    static CLANG: LazyLock<Option<Clang>> = LazyLock::new(|| {
        let settings = settings::get();
        let packaged = locate::this_file().map(|own| packaged(&own)).unwrap_or_default();
        choose(settings.clang.as_deref(), &packaged, &settings.search_path)
    });
    CLANG.as_ref()
}

/// Where the package spirula-clang has it, for the library or a program of this path.
fn packaged(own: &Path) -> Vec<PathBuf> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let libraries = [folder.to_path_buf(), folder.join("../lib")];
    libraries.map(|library| library.join(PACKAGED)).into()
}

fn choose(named: Option<&Path>, packaged: &[PathBuf], search_path: &[PathBuf]) -> Option<Clang> {
    if let Some(named) = named {
        return clang_at(named);
    }
    if let Some(clang) = packaged.iter().find_map(|path| clang_at(path)) {
        return Some(clang);
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
    let folder = program.parent()?;
    let root = folder.parent()?;
    let installed =
        ["lib", "lib64"].map(|library| root.join(library).join("clang").join(VERSION).join("include"));
    // The package's has them beside it.
    let mut places = installed.into_iter().chain([folder.to_path_buf()]);
    let headers = places.find(|headers| headers.join(BASE_HEADER).is_file())?;
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
        let in_path = choose(None, &[], &path).unwrap();
        assert_eq!(in_path.program, right.join("clang").canonicalize().unwrap());
        assert_eq!(choose(Some(&old.join("clang")), &[], &path), None);
        assert_eq!(choose(Some(&folder.join("other/bin/clang-21")), &[], &path), None);
        assert_eq!(choose(Some(Path::new("/bin/sh")), &[], &path), None);
        assert_eq!(choose(Some(Path::new("/nowhere/clang-22")), &[], &path), None);
        // The package's comes before PATH's, if it is there, for the library and for a program beside its folder.
        let libraries = folder.join("lib");
        let places = packaged(&libraries.join("libspirula.so"));
        assert_eq!(choose(None, &places, &path), Some(in_path));
        let beside = libraries.join(PACKAGED);
        fs::create_dir_all(beside.parent().unwrap()).unwrap();
        fs::write(&beside, "").unwrap();
        assert_eq!(clang_at(&beside), None);
        fs::write(beside.with_file_name(BASE_HEADER), "").unwrap();
        for own in ["lib/libspirula.so", "old/spirula"] {
            let chosen = choose(None, &packaged(&folder.join(own)), &path).unwrap();
            assert_eq!(chosen.program, beside.canonicalize().unwrap(), "{own}");
        }
        let clang = choose(None, &[], &path).unwrap();
        let before = fingerprint(&clang).unwrap();
        assert_eq!(fingerprint(&clang).unwrap(), before);
        fs::write(&clang.program, "another").unwrap();
        assert_ne!(fingerprint(&clang).unwrap(), before);
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(fingerprint(&clang), None);
    }
}
