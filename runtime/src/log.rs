//! The log: what failed and what is worth knowing, in lines of text, for a user who has set `SPIRULA_LOG`:
//!
//! - `SPIRULA_LOG=LEVEL` writes to standard error,
//! - `SPIRULA_LOG=LEVEL:FILE` appends to a file.
//!
//! The levels, each with what those before it write:
//!
//! | level | what is written |
//! |---|---|
//! | `off` | nothing, as without the variable |
//! | `error` | every error that a function of OpenCL returns or a command ends with, and what failed in the background |
//! | `warn` | what goes on, but worse than it should: a thread that is not bound, a kernel whose code can't be made better |
//! | `info` | each build, compilation and link: of what, how long it took, how it ended; its log if it succeeded; each launch that took 100 ms or longer |
//! | `debug` | what is done without being asked for: better code for a kernel; how long the stages of each build took |
//!
//! A line names the process and the level. It is written at once and as a whole, so that lines of different threads and
//! processes don't mix. Further lines of a text are indented; characters that a terminal would obey are escaped. What is
//! wrong with the variable itself is said on standard error. A set-uid program ignores it (as any setting).

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    const ALL: [Level; 4] = [Level::Error, Level::Warn, Level::Info, Level::Debug];

    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// Writes what failed.
pub fn error(text: impl Display) {
    write(Level::Error, &text);
}

/// Writes what works worse than it should.
pub(crate) fn warn(text: impl Display) {
    write(Level::Warn, &text);
}

/// Writes what was asked for and done.
pub(crate) fn info(text: impl Display) {
    write(Level::Info, &text);
}

/// Whether [`info`] writes anything: to be asked where it takes something to know what to say.
pub(crate) fn wants_info() -> bool {
    log().most >= Some(Level::Info)
}

/// Writes what was done without being asked for.
pub(crate) fn debug(text: impl Display) {
    write(Level::Debug, &text);
}

fn write(level: Level, text: &dyn Display) {
    log().write(level, text);
}

/// Opened when it is first needed.
fn log() -> &'static Log {
    static LOG: LazyLock<Log> = LazyLock::new(|| {
        Log::open(spirula_service::settings::get().log.clone()).unwrap_or_else(|error| {
            to_stderr(&line(Level::Error, &error));
            error.instead()
        })
    });
    &LOG
}

/// Who gets which lines.
#[derive(Debug)]
struct Log {
    /// The last level that is written; None for no line at all.
    most: Option<Level>,
    /// None: standard error.
    file: Option<File>,
}

/// What is wrong with the setting.
#[derive(Debug, thiserror::Error)]
enum SettingError {
    #[error(
        "SPIRULA_LOG={0:?} is not understood: LEVEL or LEVEL:FILE is, with off, error, warn, info or debug for LEVEL"
    )]
    Level(OsString),
    #[error("can't write the log to {0:?}, so it is written here: {2}")]
    File(OsString, Level, std::io::Error),
}

impl SettingError {
    /// The log that there is all the same.
    fn instead(&self) -> Log {
        match self {
            SettingError::Level(_) => Log { most: None, file: None },
            SettingError::File(_, level, _) => Log { most: Some(*level), file: None },
        }
    }
}

impl Log {
    /// The log that a value of `SPIRULA_LOG` asks for.
    fn open(setting: Option<OsString>) -> Result<Log, SettingError> {
        let setting = setting.unwrap_or_default();
        let bytes = setting.as_bytes();
        let colon = bytes.iter().position(|&byte| byte == b':');
        let (name, path) = colon.map_or((bytes, None), |at| (&bytes[..at], Some(&bytes[at + 1..])));
        let Some(level) = Level::ALL.into_iter().find(|level| level.name().as_bytes() == name) else {
            return match name {
                b"" | b"off" => Ok(Log { most: None, file: None }),
                _ => Err(SettingError::Level(setting)),
            };
        };
        let open = |path: &[u8]| {
            let path = Path::new(OsStr::from_bytes(path));
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map_err(|error| SettingError::File(path.into(), level, error))
        };
        Ok(Log { most: Some(level), file: path.map(open).transpose()? })
    }

    fn write(&self, level: Level, text: &dyn Display) {
        if self.most < Some(level) {
            return;
        }
        let line = line(level, text);
        match &self.file {
            // A log that can't be written has nobody to tell.
            Some(file) => drop((&mut &*file).write_all(line.as_bytes())),
            None => to_stderr(&line),
        }
    }
}

fn to_stderr(line: &str) {
    // As above.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// A text as it stands in the log.
fn line(level: Level, text: &dyn Display) -> String {
    let mut line = Line(format!("spirula[{}] {}: ", std::process::id(), level.name()));
    // Only a text's own Display can fail: what it wrote until then stays.
    let _ = write!(line, "{text}");
    let length = line.0.trim_end().len();
    line.0.truncate(length);
    line.0.push('\n');
    line.0
}

/// A line on its way, to which texts are added in harmless form.
struct Line(String);

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '\n' => self.0.push_str("\n    "),
                '\t' => self.0.push('\t'),
                _ if character.is_control() => self.0.extend(character.escape_default()),
                _ => self.0.push(character),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(setting: &str) -> Result<Log, SettingError> {
        Log::open(Some(setting.into()))
    }

    #[test]
    fn levels_are_named() {
        for (setting, most) in [
            ("", None),
            ("off", None),
            ("off:/nowhere/at/all", None),
            ("error", Some(Level::Error)),
            ("warn", Some(Level::Warn)),
            ("info", Some(Level::Info)),
            ("debug", Some(Level::Debug)),
        ] {
            let log = open(setting).unwrap();
            assert_eq!((log.most, log.file.is_some()), (most, false), "{setting}");
        }
        assert_eq!(Log::open(None).unwrap().most, None);
    }

    #[test]
    fn what_is_wrong_with_the_setting_is_said() {
        for setting in ["Error", "1", "all", "info ", "/tmp/log"] {
            let error = open(setting).unwrap_err();
            assert!(error.to_string().contains(setting) && error.to_string().contains("LEVEL:FILE"));
            assert_eq!(error.instead().most, None);
        }
        for setting in ["warn:", "warn:/nowhere/at/all"] {
            let error = open(setting).unwrap_err();
            assert!(error.to_string().contains(&format!("{:?}", &setting[5..])), "{error}");
            assert_eq!(error.instead().most, Some(Level::Warn));
        }
    }

    #[test]
    fn a_file_gets_whole_lines_of_its_levels() {
        let path = std::env::temp_dir().join(format!("spirula:log-{}", std::process::id()));
        // A second log of the same file adds to it.
        for _ in 0..2 {
            let log = open(&format!("warn:{}", path.display())).unwrap();
            for level in Level::ALL {
                log.write(level, &format_args!("{level:?}\n  more\u{1b}[31m\n\n"));
            }
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let line = |level: &str, text: &str| {
            format!("spirula[{}] {level}: {text}\n      more\\u{{1b}}[31m\n", std::process::id())
        };
        assert_eq!(text, (line("error", "Error") + &line("warn", "Warn")).repeat(2));
    }
}
