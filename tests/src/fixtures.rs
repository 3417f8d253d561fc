//! The SPIR binaries under `tests/fixtures`.

use std::fs;
use std::path::{Path, PathBuf};

/// The fixtures' folder.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A fixture's bytes by its path, such as "spir12/vadd.bc64". Panics if there is none.
pub fn load(path: &str) -> Vec<u8> {
    let path = folder().join(path);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The paths of all 64-bit SPIR 1.2 binaries, sorted.
pub fn spir12() -> Vec<String> {
    ending(".bc64", &["spir12", "bench"])
}

/// The paths of all SPIR-V modules, sorted.
pub fn spirv() -> Vec<String> {
    ending(".spv", &["spirv/spir12", "spirv/spir20"])
}

fn ending(suffix: &str, sets: &[&str]) -> Vec<String> {
    let mut paths = Vec::new();
    for set in sets {
        for entry in fs::read_dir(folder().join(set)).expect("the fixtures are there") {
            let name = entry.expect("a readable folder").file_name().to_string_lossy().into_owned();
            if name.ends_with(suffix) {
                paths.push(format!("{set}/{name}"));
            }
        }
    }
    paths.sort();
    paths
}
