//! Lets `cl-sys` link: it asks for `libOpenCL.so`, which only the loader's development package holds, while the
//! loader itself is `libOpenCL.so.1`. A link under the first name in the build folder serves as well.

use std::path::{Path, PathBuf};
use std::{env, fs};

const FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let Some(loader) = find_loader() else {
        println!(
            "cargo:warning=no libOpenCL.so.1 found: install an OpenCL ICD loader (Debian: ocl-icd-libopencl1)"
        );
        return;
    };
    println!("cargo:rerun-if-changed={}", loader.display());
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let link = folder.join("libOpenCL.so");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&loader, &link).expect("can't write to the build folder");
    println!("cargo:rustc-link-search=native={}", folder.display());
}

fn find_loader() -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join("libOpenCL.so.1")).find(|path| path.exists())
}
