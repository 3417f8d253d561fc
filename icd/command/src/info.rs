//! `spirula info`: what is there, what is in force, and what is missing.

use crate::Result;
use crate::arguments::Common;
use crate::client::{Device, platform_string};
use crate::library::{self, Library};
use crate::output::{self, BAD, GOOD, HEADING, NOTE, styled};
use opencl_sys::*;
use serde::Serialize;
use spirula_interface::identity::BUILD;
use spirula_service::cache::Cache;
use spirula_service::process::locate;
use spirula_service::settings::{self, VARIABLES};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Serialize)]
struct Info {
    /// Of this command.
    build: &'static str,
    library: Option<PathBuf>,
    compiler: Option<PathBuf>,
    clang: Option<PathBuf>,
    cache: CacheInfo,
    device: Option<DeviceInfo>,
    settings: Vec<Setting>,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct CacheInfo {
    folder: Option<PathBuf>,
    entries: usize,
    bytes: u64,
    limit: u64,
}

#[derive(Serialize)]
struct DeviceInfo {
    platform: String,
    name: String,
    version: String,
    driver: String,
    opencl_c: String,
    spir: String,
    spirv: String,
    compute_units: u64,
    address_bits: u64,
    global_memory: u64,
    local_memory: u64,
    largest_work_group: u64,
    extensions: Vec<String>,
}

/// A variable of the environment that is set.
#[derive(Serialize)]
struct Setting {
    name: &'static str,
    value: String,
    meaning: &'static str,
}

/// What is not as it should be.
#[derive(Serialize)]
struct Problem {
    what: String,
    /// What to do about it.
    help: String,
    /// Whether nothing works before.
    serious: bool,
}

impl Problem {
    fn serious(what: impl ToString, help: &str) -> Problem {
        Problem { what: what.to_string(), help: help.into(), serious: true }
    }

    fn harmless(what: impl ToString, help: &str) -> Problem {
        Problem { what: what.to_string(), help: help.into(), serious: false }
    }
}

pub fn run(common: &Common) -> Result<bool> {
    let info = gather(common);
    if common.json {
        output::json(&info)?
    } else {
        output::text(&text(&info))?
    }
    Ok(!info.problems.iter().any(|problem| problem.serious))
}

fn gather(common: &Common) -> Info {
    let mut problems = Vec::new();
    let library = library::find(common)
        .inspect_err(|error| {
            problems.push(Problem::serious(error, "install Spirula, or name its library by --library"))
        })
        .ok();
    let compiler = library.as_deref().and_then(|library| compiler(library, &mut problems));
    let clang = spirula_service::find_clang().map(|clang| clang.program.clone());
    if clang.is_none() {
        problems.push(Problem::harmless(
            "there is no clang 22, so OpenCL C can't be built; SPIR and SPIR-V can",
            "install spirula-clang (pip install spirula[clang]) or clang-22 (Debian's name), or name one by SPIRULA_CLANG",
        ));
    }
    let device = library.is_some().then(|| device(common)).and_then(|device| {
        let failed = |error: &crate::Error| problems.push(Problem::serious(error, "install Spirula anew"));
        device.inspect_err(failed).ok()
    });
    if let Some(device) = device.as_ref().filter(|device| !device.driver.contains(BUILD)) {
        problems.push(Problem::harmless(
            format!("the library is of build {}, this command of {BUILD}", device.driver),
            "use the command that came with the library",
        ));
    }
    if let Some(library) = &library {
        applications_find(library, &mut problems);
    }
    problems.extend(unknown_variables());
    let settings = settings::get();
    let folder = settings.cache_folder.clone();
    let entries = folder.as_deref().map(Cache::entries).unwrap_or_default();
    let bytes = entries.iter().map(|entry| entry.size).sum();
    let cache = CacheInfo { folder, entries: entries.len(), bytes, limit: settings.cache_size };
    Info { build: BUILD, library, compiler, clang, cache, device, settings: variables(), problems }
}

/// The compiler that the library finds, if it runs and is of one build with this command.
fn compiler(library: &Path, problems: &mut Vec<Problem>) -> Option<PathBuf> {
    const HELP: &str = "install library and compiler together, of one build";
    let path = locate::compiler_of(library)
        .inspect_err(|error| problems.push(Problem::serious(error, HELP)))
        .ok()?;
    match Command::new(&path).arg("--version").output() {
        Ok(said) if String::from_utf8_lossy(&said.stdout).trim_end().ends_with(BUILD) => {}
        Ok(said) => {
            let said = String::from_utf8_lossy(&said.stdout);
            let what = format!("{} is {:?}, this command of build {BUILD}", path.display(), said.trim());
            problems.push(Problem::serious(what, HELP));
        }
        Err(error) => problems.push(Problem::serious(format!("{}: {error}", path.display()), HELP)),
    }
    Some(path)
}

fn device(common: &Common) -> Result<DeviceInfo> {
    let library = Library::load(common, &[])?;
    let device = Device::first(&library)?;
    let text = |name| device.string(name);
    let number = |name| device.number(name);
    /// cl_khr_spir: CL_DEVICE_SPIR_VERSIONS.
    const SPIR_VERSIONS: cl_device_info = 0x40E0;
    Ok(DeviceInfo {
        platform: platform_string(&library, CL_PLATFORM_NAME)?,
        name: text(CL_DEVICE_NAME)?,
        version: text(CL_DEVICE_VERSION)?,
        driver: text(CL_DRIVER_VERSION)?,
        opencl_c: text(CL_DEVICE_OPENCL_C_VERSION)?,
        spir: text(SPIR_VERSIONS)?,
        spirv: text(CL_DEVICE_IL_VERSION)?,
        compute_units: number(CL_DEVICE_MAX_COMPUTE_UNITS)?,
        address_bits: number(CL_DEVICE_ADDRESS_BITS)?,
        global_memory: number(CL_DEVICE_GLOBAL_MEM_SIZE)?,
        local_memory: number(CL_DEVICE_LOCAL_MEM_SIZE)?,
        largest_work_group: number(CL_DEVICE_MAX_WORK_GROUP_SIZE)?,
        extensions: text(CL_DEVICE_EXTENSIONS)?.split_whitespace().map(str::to_owned).collect(),
    })
}

/// Whether an ICD loader is there, and would find the library.
fn applications_find(library: &Path, problems: &mut Vec<Problem>) {
    const LOADERS: [&str; 5] = [
        "/usr/lib/x86_64-linux-gnu/libOpenCL.so.1",
        "/usr/lib64/libOpenCL.so.1",
        "/usr/lib/libOpenCL.so.1",
        "/usr/local/lib/libOpenCL.so.1",
        "/lib/x86_64-linux-gnu/libOpenCL.so.1",
    ];
    if !LOADERS.iter().any(|loader| Path::new(loader).exists()) {
        let what = "no OpenCL ICD loader (libOpenCL.so.1) is installed where they are";
        problems.push(Problem::harmless(
            what,
            "install ocl-icd-libopencl1 (Debian's name); PyPI's pyopencl has its own",
        ));
    }
    let folders = match std::env::var_os("OCL_ICD_VENDORS") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => vec![PathBuf::from("/etc/OpenCL/vendors")],
    };
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let named = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let is_it = |text: String| Path::new(text.trim()).canonicalize().is_ok_and(|path| path == library);
    if !named.into_iter().any(is_it) {
        let what = format!("no .icd file in {} names {}", folders[0].display(), library.display());
        let help = "`./x install` writes one; OCL_ICD_VENDORS=FOLDER names another folder of such files";
        problems.push(Problem::harmless(what, help));
    }
}

fn variables() -> Vec<Setting> {
    let set = VARIABLES.iter().filter_map(|variable| {
        let value = std::env::var_os(variable.name)?.to_string_lossy().into_owned();
        Some(Setting { name: variable.name, value, meaning: variable.meaning })
    });
    set.collect()
}

/// Variables that look like settings and are none.
fn unknown_variables() -> Vec<Problem> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown = names.filter(|name| {
        name.starts_with("SPIRULA_") && !VARIABLES.iter().any(|variable| variable.name == name)
    });
    let problem =
        |name: String| Problem::harmless(format!("{name} is no setting"), "docs/settings.md lists them all");
    unknown.map(problem).collect()
}

fn text(info: &Info) -> String {
    let heading = |name: &str| format!("{}\n", styled(HEADING, name));
    let path = |path: &Option<PathBuf>| match path {
        Some(path) => path.display().to_string(),
        None => styled(NOTE, "none"),
    };
    let mut text = heading("Spirula");
    text += &output::table(&[
        ("build", info.build.into()),
        ("library", path(&info.library)),
        ("compiler", path(&info.compiler)),
        ("clang", path(&info.clang)),
        (
            "cache",
            match &info.cache {
                CacheInfo { folder: Some(folder), entries, bytes, limit } => {
                    let (bytes, limit) = (output::bytes(*bytes), output::bytes(*limit));
                    format!("{}, {entries} entries, {bytes} of {limit}", folder.display())
                }
                CacheInfo { folder: None, .. } => "none".into(),
            },
        ),
    ]);
    if let Some(device) = &info.device {
        text += &heading("Device");
        text += &output::table(&[
            ("name", device.name.clone()),
            ("platform", device.platform.clone()),
            ("version", format!("{}, {}", device.version, device.opencl_c)),
            (
                "takes",
                format!("SPIR {}; {}", device.spir.replace(' ', ", "), device.spirv.replace(' ', ", ")),
            ),
            ("compute units", device.compute_units.to_string()),
            (
                "memory",
                format!(
                    "{} global, {} local",
                    output::bytes(device.global_memory),
                    output::bytes(device.local_memory)
                ),
            ),
            ("work-group", format!("up to {} work-items", device.largest_work_group)),
            ("extensions", device.extensions.len().to_string()),
        ]);
        text += &wrapped(&device.extensions);
    }
    text += &heading("Settings in force");
    let settings: Vec<(&str, String)> = info
        .settings
        .iter()
        .map(|setting| (setting.name, format!("{} ({})", setting.value, setting.meaning)))
        .collect();
    text += &if settings.is_empty() { "  none but the defaults\n".into() } else { output::table(&settings) };
    text += &heading("Missing");
    for Problem { what, help, serious } in &info.problems {
        let style = if *serious { BAD } else { NOTE };
        text += &format!("  {}\n    {help}\n", styled(style, what));
    }
    if info.problems.is_empty() {
        text += &format!("  {}\n", styled(GOOD, "nothing"));
    }
    text
}

/// Words in lines.
fn wrapped(words: &[String]) -> String {
    const WIDTH: usize = 90;
    let mut lines = vec![String::new()];
    for word in words {
        if lines.last().is_some_and(|line| line.len() + word.len() > WIDTH) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            *line += word;
            line.push(' ');
        }
    }
    lines.iter().map(|line| format!("    {}\n", line.trim_end())).collect()
}
