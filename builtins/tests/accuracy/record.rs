//! `builtins/worst.txt`: the largest error of each function, measured; it goes into `docs/builtins.md`. A line is
//! `name float double`, in ULP rounded upwards, with a star where all floats were tried. Recording keeps the larger; take
//! out the line of a function that got better. `worst-unfused.txt` is the same for processors without fused sums of products.

use super::measure::{Format, SINGLE};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An error and whether it is of all arguments.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Entry {
    error: f64,
    all: bool,
}

/// The file's contents.
pub struct Record {
    lines: BTreeMap<String, [Entry; 2]>,
    updating: bool,
}

fn path() -> PathBuf {
    let name = if cfg!(feature = "unfused") { "worst-unfused.txt" } else { "worst.txt" };
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn hundredths(error: f64) -> f64 {
    (error * 100.0).ceil() / 100.0
}

impl Record {
    /// Reads the file.
    pub fn read() -> Record {
        let text = std::fs::read_to_string(path()).unwrap_or_default();
        let entry = |field: &str| Entry {
            error: field.trim_end_matches('*').parse().unwrap_or_else(|e| panic!("worst.txt: {field}: {e}")),
            all: field.ends_with('*'),
        };
        let lines = text.lines().map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [name, single, double] = fields[..] else { panic!("worst.txt: {line}") };
            (name.to_string(), [entry(single), entry(double)])
        });
        Record { lines: lines.collect(), updating: std::env::var_os("SPIRULA_UPDATE").is_some() }
    }

    /// Notes, or checks, a sample's worst error. Errors: the file says that it is less.
    pub fn sampled(&mut self, name: &str, format: Format, error: f64) -> Result<(), String> {
        let entry =
            &mut self.lines.entry(name.to_string()).or_default()[usize::from(format.digits != SINGLE.digits)];
        let error = hundredths(error);
        if error <= entry.error {
            return Ok(());
        }
        if self.updating {
            *entry = Entry { error, all: false };
            return Ok(());
        }
        Err(format!(
            "{name} in {}: {error} ULP, worst.txt says {} (SPIRULA_UPDATE=1 records)",
            format.name, entry.error
        ))
    }

    /// Notes the worst error of all floats.
    pub fn walked(&mut self, name: &str, error: f64) {
        self.lines.entry(name.to_string()).or_default()[0] = Entry { error: hundredths(error), all: true };
    }

    /// Changes the file.
    pub fn update(change: impl FnOnce(&mut Record)) {
        let mut record = Record { updating: true, ..Record::read() };
        change(&mut record);
        record.write();
    }

    /// Writes the file if it may change.
    pub fn write(&self) {
        if !self.updating {
            return;
        }
        let field = |entry: &Entry| format!("{:.2}{}", entry.error, if entry.all { "*" } else { "" });
        let line = |(name, [single, double]): (&String, &[Entry; 2])| {
            format!("{name} {} {}\n", field(single), field(double))
        };
        std::fs::write(path(), self.lines.iter().map(line).collect::<String>())
            .expect("worst.txt is writable");
    }
}
