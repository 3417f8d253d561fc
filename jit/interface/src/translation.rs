//! OpenCL C to SPIR: what clang is given, and what it yields.

use crate::address_bits::AddressBits;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// A clang that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Clang {
    /// The program.
    pub program: PathBuf,
    /// The folder of its own headers: of OpenCL's types and constants.
    pub headers: PathBuf,
}

/// The header that `-finclude-default-header` includes.
pub const BASE_HEADER: &str = "opencl-c-base.h";

/// What is to be translated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Translation {
    /// With which compiler.
    pub clang: Clang,
    /// What the device's pointers are.
    pub addresses: AddressBits,
    /// OpenCL C.
    pub source: String,
    /// Files that it may include, by the names that it knows them by.
    pub headers: Vec<(String, String)>,
    /// Folders to look for included files in, absolute.
    pub include_folders: Vec<PathBuf>,
    /// The application's working directory, which comes before them.
    pub directory: Option<PathBuf>,
    /// If there are any, no file outside of these folders can be read.
    pub allowed: Option<Vec<PathBuf>>,
    /// Options for clang, each of which starts with a dash. They come from a list of known ones, not from strangers.
    pub options: Vec<String>,
}

/// SPIR, and what clang said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Translated {
    /// Bitcode.
    pub module: Vec<u8>,
    /// Warnings, for the build log.
    pub log: String,
    /// The files that clang read besides the source and its own header, by the names that it found them by. None if they can't be told.
    pub read: Option<Vec<PathBuf>>,
}

/// A path without `.` and `..`, as clang looks up what is not there in reality.
pub fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::ParentDir => {
                result.pop();
            }
            _ => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normal() {
        assert_eq!(normal(Path::new("/a/./b/../c//d")), Path::new("/a/c/d"));
        assert_eq!(normal(Path::new("/../../x")), Path::new("/x"));
    }
}
