//! Helpers of the tests: modules from text, and the SPIR fixtures.

use crate::llvm::{self, Module, Session};
use std::path::PathBuf;

/// SPIR's 64-bit triple and layout, to stand at the top of a module.
pub(crate) const HEADER: &str = "target datalayout = \"e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024\"\ntarget triple = \"spir64-unknown-unknown\"\n";

/// A module of SPIR's triple from its text.
pub(crate) fn module<'s>(session: &'s Session, text: &str) -> Module<'s> {
    let module =
        llvm::parse_text(session, &format!("{HEADER}{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    llvm::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    module
}

/// The bitcode of a module of SPIR's triple.
pub(crate) fn bitcode(text: &str) -> Vec<u8> {
    let session = Session::new();
    llvm::write_bitcode(&module(&session, text))
}

/// All 64-bit SPIR 1.2 fixtures, by name; empty (with a message) where there are none.
pub(crate) fn fixtures() -> Vec<(String, Vec<u8>)> {
    fixtures_of("bc64")
}

/// All SPIR 1.2 fixtures whose files end so.
pub(crate) fn fixtures_of(extension: &str) -> Vec<(String, Vec<u8>)> {
    let list = fixtures_in(fixture_folders(), extension);
    if list.is_empty() {
        eprintln!("no fixtures: tests/fixtures is empty, and SPIRULA_FIXTURES names no folder");
    }
    list
}

/// All SPIR 2.0 fixtures whose files end so.
pub(crate) fn fixtures_of_2_0(extension: &str) -> Vec<(String, Vec<u8>)> {
    let folders = fixture_folders().into_iter().flat_map(|folder| FOLDERS_OF_2_0.map(|own| folder.join(own)));
    fixtures_in(folders.collect(), extension)
}

const FOLDERS_OF_2_0: [&str; 2] = ["spir20", "kernels20"];

fn fixture_folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")];
    if let Ok(shared) = std::env::var("SPIRULA_FIXTURES") {
        folders.extend(shared.split(':').map(PathBuf::from));
    }
    folders
}

/// Files of folders and of those in them; those of SPIR 2.0 only where they are named.
fn fixtures_in(mut folders: Vec<PathBuf>, extension: &str) -> Vec<(String, Vec<u8>)> {
    let mut list = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders
                    .extend(Some(path).filter(|path| !FOLDERS_OF_2_0.iter().any(|own| path.ends_with(own))));
            } else if path.extension().is_some_and(|e| e == extension)
                && let Ok(bytes) = std::fs::read(&path)
            {
                list.push((path.display().to_string(), bytes));
            }
        }
    }
    list.sort();
    list
}
