//! Names the sources that compiled code depends on, so that no two builds of Spirula take each other's.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Everything that decides what compiled code looks like and how it is called.
const SOURCES: [&str; 9] = [
    "src",
    "../kir/src",
    "../compiler/src",
    "../compiler/build.rs",
    "../service/src",
    "../../builtins/src",
    "../../runtime/src/isolation",
    "../../runtime/src/program",
    "../../Cargo.lock",
];

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        collect(Path::new(source), &mut files)?;
    }
    files.sort();
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in &files {
        for byte in fs::read(file)? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    println!(
        "cargo:rustc-env=SPIRULA_BUILD={}-{hash:016x}",
        env::var("CARGO_PKG_VERSION").unwrap_or_default()
    );
    Ok(())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    fs::read_dir(path)?.try_for_each(|entry| collect(&entry?.path(), files))
}
