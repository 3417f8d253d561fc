//! The user's settings: the only place that reads `SPIRULA_*` variables. They are read once, when the first one is needed,
//! as glibc's `secure_getenv` would: a program with more rights than its user (set-uid, file capabilities) obeys none.
//! `docs/settings.md` lists them; a test holds it against [`VARIABLES`].

use spirula_interface::address_bits::AddressBits;
use spirula_interface::check::Checks;
use spirula_interface::settings::{Settings, VERIFY_BY_DEFAULT};
use spirula_interface::target::Level;
use spirula_interface::tier::Tier;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// A variable of the environment, as the documentation lists it.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What may be written, in short.
    pub values: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// Every variable that is read.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "SPIRULA_BUILD_WAIT",
        values: "milliseconds, 400 by default",
        meaning: "how long the builds of a process, and `clCreateKernel`, wait all together for optimized code of kernels that is expected to be there soon; \
                  0: kernels begin in the baseline's",
    },
    Variable {
        name: "SPIRULA_CACHE_DIR",
        values: "a folder, or nothing",
        meaning: "keeps what was compiled; without it `spirula` in `XDG_CACHE_HOME` or in `~/.cache`; nothing: none is kept",
    },
    Variable {
        name: "SPIRULA_CACHE_SIZE",
        values: "MiB, 512 by default",
        meaning: "how much is kept; what was not used for longest is removed",
    },
    Variable {
        name: "SPIRULA_CHECK",
        values: "`memory`, `races`, `barriers`, `arithmetic`, `uninitialized`, `nan`, separated by `,`, or `all`, which is all but the last one",
        meaning: "looks for what kernels do wrong while they run, and says it, with its line, on standard error: [how](checking.md)",
    },
    Variable {
        name: "SPIRULA_CHECK_REPORT",
        values: "a file",
        meaning: "gets what `SPIRULA_CHECK` finds as well, an object of JSON a line, behind what is in it",
    },
    Variable {
        name: "SPIRULA_CLANG",
        values: "a path",
        meaning: "the clang 22 that translates OpenCL C; without it the package spirula-clang's, beside the library, then \
                  `clang-22` or `clang` in `PATH`, then the one beside LLVM 22",
    },
    Variable {
        name: "SPIRULA_COMPILER",
        values: "a path",
        meaning: "the program `spirula-compiler`; without it the one beside the library or in the folder `spirula` there",
    },
    Variable {
        name: "SPIRULA_COMPILER_STDERR",
        values: "anything",
        meaning: "compiler processes write to the application's stderr instead of into the build log",
    },
    Variable {
        name: "SPIRULA_COMPILER_TIMEOUT",
        values: "seconds, 120 by default",
        meaning: "how much processor time one compilation may take; by the clock it may take ten times as long",
    },
    Variable {
        name: "SPIRULA_CPU",
        values: "`x86-64-v2`, `x86-64-v3` or `x86-64-v4`",
        meaning: "code uses no more of the processor than that level has; the processor has to be of it",
    },
    Variable {
        name: "SPIRULA_DEBUG",
        values: "`lines`, `gdb`, `perf`, or several with commas",
        meaning: "kernels are known by their names, and by the lines of their source if the program has them, and have frame pointers: to GDB \
                  through its JIT interface, to `perf` by `/tmp/perf-PID.map` and `/tmp/jit-PID.dump`, for which all code stays in memory. \
                  With each of them a kernel's fault tells the line. Code is compiled anew for it. Not with `SPIRULA_ISOLATE`. \
                  See [debugging](debugging.md)",
    },
    Variable {
        name: "SPIRULA_DEVICES",
        values: "`cpu64`, `cpu32` or both, separated by a comma; `cpu64` by default",
        meaning: "which devices there are, in that order: `cpu32` has pointers of 32 bits, and takes SPIR of 32 bits; its kernels can't \
                  leave the [4 GiB of their context](cpu32.md)",
    },
    Variable {
        name: "SPIRULA_DUMP",
        values: "a folder",
        meaning: "gets what each stage of the last build yielded, as text",
    },
    Variable {
        name: "SPIRULA_INCLUDE",
        values: "folders, separated by `:`",
        meaning: "where every OpenCL C source may include files from, behind its own `-I`",
    },
    Variable {
        name: "SPIRULA_INCLUDE_ONLY",
        values: "folders, separated by `:`, or nothing",
        meaning: "OpenCL C sources can read files of these and of `SPIRULA_INCLUDE` only; without it, whatever the \
                  application itself can read",
    },
    Variable {
        name: "SPIRULA_ISOLATE",
        values: "0 or anything else",
        meaning: "kernels run in processes of their own, one for each context, which can reach nothing but the context's memory; \
                  [what that promises](../SECURITY.md)",
    },
    Variable {
        name: "SPIRULA_LOG",
        values: "`error`, `warn`, `info` or `debug`, then `:FILE` if wanted",
        meaning: "what goes wrong and is worth knowing, as lines on standard error or appended to a file",
    },
    Variable {
        name: "SPIRULA_REMARKS",
        values: "anything",
        meaning: "the build log says what was decided for each kernel; so does the log, from `SPIRULA_LOG=info` on",
    },
    Variable {
        name: "SPIRULA_THREADS",
        values: "1 to 1024",
        meaning: "compute units of the device, instead of one for each processor that may be used",
    },
    Variable {
        name: "SPIRULA_TIER",
        values: "`auto`, `baseline` or `optimized`",
        meaning: "what code is made by: `baseline` in milliseconds, and scalar; `optimized` as fast as it gets, which a build waits \
                  for; `auto`, the default, starts with the former where the latter is not there soon, and replaces it in the background \
                  where launches take their time. With `SPIRULA_DUMP`, `SPIRULA_REMARKS` or `SPIRULA_VECTOR_WIDTH`, which are about optimized code, that \
                  is the default",
    },
    Variable {
        name: "SPIRULA_TIMEOUT",
        values: "seconds",
        meaning: "how long a launch of a kernel may take, with all that it enqueues; one that takes longer ends with an error. Without it, \
                  as long as it likes",
    },
    Variable {
        name: "SPIRULA_TRACE",
        values: "a file",
        meaning: "gets a timeline of builds, commands, launches, their chunks on each thread, and waits, which <https://ui.perfetto.dev> and \
                  `chrome://tracing` open; `%p` in its name is the process's number",
    },
    Variable {
        name: "SPIRULA_TUNE",
        values: "0, 1 or `always`",
        meaning: "whether kernels that run long are tried in other numbers of lanes than the cost model's, to stay with what is measured to be \
                  the fastest; 0: no. `always`, for tests: from the first launch on, which waits for the code, in chunks of one work-group; baseline code runs the first chunk alone",
    },
    Variable {
        name: "SPIRULA_VECTOR_WIDTH",
        values: "1, 2, 4, 8, 16, 32 or 64",
        meaning: "work-items that share vector instructions, instead of what the cost model chooses; 1 is scalar code. Also the size of \
                  sub-groups",
    },
    Variable {
        name: "SPIRULA_VERIFY",
        values: "0 or anything else",
        meaning: "whether every pass over Kernel IR is followed by its verifier; without it in debug builds only",
    },
];

/// Who is told where code lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debuggers {
    /// The user, of a fault's line; so with each of the others.
    pub lines: bool,
    /// GDB.
    pub gdb: bool,
    /// `perf`.
    pub perf: bool,
}

impl Debuggers {
    /// Those of a list; unknown ones are none.
    fn named(list: Option<&OsStr>) -> Debuggers {
        let list = list.and_then(OsStr::to_str).unwrap_or_default();
        let has = |name: &str| list.split(',').any(|named| named.trim() == name);
        let (gdb, perf) = (has("gdb"), has("perf"));
        Debuggers { lines: gdb || perf || has("lines"), gdb, perf }
    }
}

/// Whether lanes are chosen by measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tune {
    /// As the cost model says.
    Never,
    /// Of kernels that run long.
    #[default]
    WhereItPays,
    /// From the first launch on, each alternative for a while, whatever it takes.
    Always,
}

/// What the environment said.
#[derive(Clone, Debug, PartialEq)]
pub struct UserSettings {
    /// What changes the code that is made.
    pub compiler: Settings,
    /// `SPIRULA_CACHE_DIR`, or the user's folder for caches; None if nothing is to be kept.
    pub cache_folder: Option<PathBuf>,
    /// `SPIRULA_CACHE_SIZE`, in bytes.
    pub cache_size: u64,
    /// What `SPIRULA_CHECK` names that can't be checked.
    pub unknown_checks: Vec<String>,
    /// `SPIRULA_CHECK_REPORT`.
    pub check_report: Option<PathBuf>,
    /// `SPIRULA_CLANG`.
    pub clang: Option<PathBuf>,
    /// `PATH`, which a program with more rights than its user does not search.
    pub search_path: Vec<PathBuf>,
    /// `SPIRULA_COMPILER`.
    pub compiler_program: Option<PathBuf>,
    /// `SPIRULA_COMPILER_STDERR`.
    pub compiler_stderr: bool,
    /// `SPIRULA_COMPILER_TIMEOUT`.
    pub time_limit: Duration,
    /// `SPIRULA_CPU`.
    pub level: Option<Level>,
    /// `SPIRULA_DEBUG`.
    pub debug: Debuggers,
    /// `SPIRULA_DEVICES`: what the devices' pointers are; none twice, and one at least.
    pub devices: Vec<AddressBits>,
    /// `SPIRULA_DUMP`.
    pub dump: Option<PathBuf>,
    /// `SPIRULA_ISOLATE`.
    pub isolate: bool,
    /// `SPIRULA_LOG`, as it is written.
    pub log: Option<OsString>,
    /// `SPIRULA_BUILD_WAIT`.
    pub build_wait: Duration,
    /// `SPIRULA_THREADS`.
    pub threads: Option<u32>,
    /// `SPIRULA_TIER`: what all code is made by. None: the baseline, and optimized code where it pays.
    pub tier: Option<Tier>,
    /// `SPIRULA_TIMEOUT`.
    pub launch_limit: Option<Duration>,
    /// `SPIRULA_TRACE`.
    pub trace: Option<PathBuf>,
    /// `SPIRULA_TUNE`.
    pub tune: Tune,
    /// `SPIRULA_INCLUDE`, as absolute paths.
    pub include_folders: Vec<PathBuf>,
    /// `SPIRULA_INCLUDE_ONLY` and `SPIRULA_INCLUDE`, as absolute paths, if the former is set.
    pub include_only: Option<Vec<PathBuf>>,
}

impl UserSettings {
    /// From a function that knows the variables.
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let number = |name: &str| variable(name)?.to_str()?.parse::<u32>().ok();
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let paths = |name: &str| -> Vec<PathBuf> {
            variable(name).iter().flat_map(std::env::split_paths).filter(|path| path != "").collect()
        };
        let seconds = number("SPIRULA_COMPILER_TIMEOUT").filter(|&seconds| seconds > 0).unwrap_or(120);
        let absolute = |path: PathBuf| std::path::absolute(path).ok();
        let folders = |name: &str| -> Vec<PathBuf> { paths(name).into_iter().filter_map(absolute).collect() };
        let debug = Debuggers::named(variable("SPIRULA_DEBUG").as_deref());
        let check = variable("SPIRULA_CHECK").unwrap_or_default();
        let check = check.to_string_lossy();
        let (checks, unknown) = Checks::parse(&check);
        let compiler = Settings {
            debug_info: debug.lines,
            vector_width: number("SPIRULA_VECTOR_WIDTH").filter(|n| n.is_power_of_two() && *n <= 64),
            remarks: variable("SPIRULA_REMARKS").is_some(),
            verify: variable("SPIRULA_VERIFY").map_or(VERIFY_BY_DEFAULT, |value| value != "0"),
            checks,
        };
        let dump = path("SPIRULA_DUMP").and_then(absolute);
        let asks = compiler.vector_width.is_some() || compiler.remarks || dump.is_some();
        UserSettings {
            compiler,
            cache_folder: cache_folder(&variable),
            cache_size: u64::from(number("SPIRULA_CACHE_SIZE").unwrap_or(512)) << 20,
            unknown_checks: unknown.into_iter().map(str::to_owned).collect(),
            check_report: path("SPIRULA_CHECK_REPORT").and_then(absolute),
            clang: path("SPIRULA_CLANG"),
            search_path: paths("PATH"),
            compiler_program: path("SPIRULA_COMPILER"),
            compiler_stderr: variable("SPIRULA_COMPILER_STDERR").is_some(),
            time_limit: Duration::from_secs(seconds.into()),
            level: variable("SPIRULA_CPU").as_deref().and_then(OsStr::to_str).and_then(Level::named),
            debug,
            isolate: variable("SPIRULA_ISOLATE").is_some_and(|value| value != "0"),
            log: variable("SPIRULA_LOG").filter(|value| !value.is_empty()),
            build_wait: Duration::from_millis(number("SPIRULA_BUILD_WAIT").unwrap_or(400).into()),
            threads: number("SPIRULA_THREADS").filter(|count| (1..=1024).contains(count)),
            tier: tier(variable("SPIRULA_TIER").as_deref(), asks),
            devices: devices(variable("SPIRULA_DEVICES").as_deref()),
            dump,
            launch_limit: number("SPIRULA_TIMEOUT").filter(|&n| n > 0).map(|n| Duration::from_secs(n.into())),
            trace: path("SPIRULA_TRACE"),
            tune: match variable("SPIRULA_TUNE").as_deref().and_then(OsStr::to_str) {
                Some("0") => Tune::Never,
                Some("always") => Tune::Always,
                _ => Tune::WhereItPays,
            },
            include_folders: folders("SPIRULA_INCLUDE"),
            include_only: variable("SPIRULA_INCLUDE_ONLY")
                .map(|_| [folders("SPIRULA_INCLUDE_ONLY"), folders("SPIRULA_INCLUDE")].concat()),
        }
    }
}

/// Those that the user names; of others, or of nothing, there is the usual one.
fn devices(named: Option<&OsStr>) -> Vec<AddressBits> {
    let names = named.and_then(OsStr::to_str).unwrap_or("").split(',').map(str::trim);
    let mut list = Vec::new();
    for name in names {
        let bits = match name {
            "cpu64" => AddressBits::Bits64,
            "cpu32" => AddressBits::Bits32,
            _ => continue,
        };
        if !list.contains(&bits) {
            list.push(bits);
        }
    }
    if list.is_empty() { vec![AddressBits::Bits64] } else { list }
}

/// As the user says; who asks about optimized code is answered by it.
fn tier(named: Option<&OsStr>, asks: bool) -> Option<Tier> {
    match named.and_then(OsStr::to_str) {
        Some("baseline") => Some(Tier::Baseline),
        Some("optimized") => Some(Tier::Optimized),
        Some("auto") => None,
        _ => asks.then_some(Tier::Optimized),
    }
}

/// By the XDG base directory specification, unless the user names another one.
fn cache_folder(variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = variable("SPIRULA_CACHE_DIR") {
        return std::path::absolute(named).ok();
    }
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("spirula"))
}

/// The settings of this process.
pub fn get() -> &'static UserSettings {
    static SETTINGS: LazyLock<UserSettings> = LazyLock::new(|| {
        let secure = has_more_rights_than_its_user();
        UserSettings::read(|name| if secure { None } else { std::env::var_os(name) })
    });
    &SETTINGS
}

/// Whether the system started this program in secure-execution mode (ld.so(8)).
fn has_more_rights_than_its_user() -> bool {
    // SAFETY: reads a word that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> UserSettings {
        UserSettings::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn every_listed_variable_changes_something_and_no_other_is_asked_for() {
        let nothing = read(&[]);
        for variable in VARIABLES {
            let changes = |value: &str| read(&[(variable.name, value)]) != nothing;
            let any = ["16", "0", "baseline", "x86-64-v3", "gdb", "cpu32"].into_iter().any(changes);
            assert!(any, "{} is listed but not read", variable.name);
        }
        UserSettings::read(|name| {
            let known = ["PATH", "HOME", "XDG_CACHE_HOME"].contains(&name)
                || VARIABLES.iter().any(|variable| variable.name == name);
            assert!(known, "{name} is read but not listed");
            None
        });
    }

    #[test]
    fn caches_lie_where_the_user_has_them() {
        let folder = |variables: &[(&str, &str)]| read(variables).cache_folder;
        let home = ("HOME", "/home/me");
        assert_eq!(folder(&[home]), Some("/home/me/.cache/spirula".into()));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "/c")]), Some("/c/spirula".into()));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "relative")]), Some("/home/me/.cache/spirula".into()));
        assert_eq!(folder(&[home, ("SPIRULA_CACHE_DIR", "/mine")]), Some("/mine".into()));
        assert_eq!(folder(&[home, ("SPIRULA_CACHE_DIR", "")]), None);
        assert_eq!(folder(&[]), None);
    }

    #[test]
    fn who_asks_about_optimized_code_gets_it() {
        let tier = |variables: &[(&str, &str)]| read(variables).tier;
        assert_eq!(tier(&[]), None);
        assert_eq!(tier(&[("SPIRULA_TIER", "optimized")]), Some(Tier::Optimized));
        for asking in ["SPIRULA_DUMP", "SPIRULA_REMARKS", "SPIRULA_VECTOR_WIDTH"] {
            assert_eq!(tier(&[(asking, "4")]), Some(Tier::Optimized));
            assert_eq!(tier(&[(asking, "4"), ("SPIRULA_TIER", "baseline")]), Some(Tier::Baseline));
            assert_eq!(tier(&[(asking, "4"), ("SPIRULA_TIER", "auto")]), None);
        }
    }

    #[test]
    fn debuggers_are_listed() {
        let debug = |value: &str| read(&[("SPIRULA_DEBUG", value)]).debug;
        assert_eq!(debug("lines"), Debuggers { lines: true, gdb: false, perf: false });
        assert_eq!(debug("gdb"), Debuggers { lines: true, gdb: true, perf: false });
        assert_eq!(debug("perf, gdb,lldb"), Debuggers { lines: true, gdb: true, perf: true });
        assert_eq!(debug("1"), Debuggers::default());
        assert!(read(&[("SPIRULA_DEBUG", "perf")]).compiler.debug_info);
    }

    #[test]
    fn nonsense_is_as_nothing() {
        let nothing = read(&[]);
        for value in ["3", "128", "-1", "x", ""] {
            assert_eq!(read(&[("SPIRULA_VECTOR_WIDTH", value)]), nothing);
            assert_eq!(read(&[("SPIRULA_TIER", value)]), nothing);
        }
        for value in ["gpu", "cpu64,cpu64", ",", ""] {
            assert_eq!(read(&[("SPIRULA_DEVICES", value)]), nothing);
        }
        let both = read(&[("SPIRULA_DEVICES", "cpu32, cpu64,cpu32")]).devices;
        assert_eq!(both, [AddressBits::Bits32, AddressBits::Bits64]);
        for value in ["0", "-5", "soon", ""] {
            assert_eq!(read(&[("SPIRULA_COMPILER_TIMEOUT", value)]), nothing);
            assert_eq!(read(&[("SPIRULA_THREADS", value)]), nothing);
        }
        assert_eq!(read(&[("SPIRULA_THREADS", "1025")]), nothing);
        assert_eq!(read(&[("SPIRULA_CLANG", ""), ("SPIRULA_INCLUDE", ""), ("SPIRULA_DUMP", "")]), nothing);
    }

    /// `SPIRULA_UPDATE=1 cargo test -p spirula-service settings` writes the page anew.
    #[test]
    fn the_page_lists_every_variable() {
        let mut page = String::from(
            "# Settings\n\nVariables of the environment, read once by the library. A program that has more rights than its \
             user (set-uid) obeys none of them.\n\n| variable | values | what it does |\n|---|---|---|\n",
        );
        for Variable { name, values, meaning } in VARIABLES {
            page += &format!("| `{name}` | {values} | {meaning} |\n");
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
        if std::env::var_os("SPIRULA_UPDATE").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            written, page,
            "docs/settings.md is out of date: SPIRULA_UPDATE=1 cargo test -p spirula-service settings"
        );
    }
}
