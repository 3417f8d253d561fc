//! How answers look: text in columns, with colours where there is a terminal, or JSON.

use crate::Result;
use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use serde::Serialize;
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

pub const HEADING: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const NOTE: Style = AnsiColor::Yellow.on_default();
pub const DIM: Style = Style::new().dimmed();

/// Writes text to standard output; styles are left out where nobody sees them.
pub fn text(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Writes a value to standard output.
pub fn json(value: &impl Serialize) -> Result<()> {
    text(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// In that style.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Says on standard error why there is no answer.
pub fn error(text: &str) {
    // Where there is no standard error nobody listens.
    let _ = writeln!(anstream::stderr(), "{}: {}", styled(BAD, "spirula"), text.trim_end());
}

/// Says on standard error what else is to be known.
pub fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", text.trim_end());
}

/// What is being done, while it takes its time and there is a terminal; gone with this value.
pub struct Doing(Option<ProgressBar>);

impl Doing {
    pub fn new(what: &str) -> Doing {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Doing(bar)
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Bytes, in words.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (count.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
    let value = count as f64 / f64::from(10 * unit as u32).exp2();
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Lines of a name and what is to be said of it, one below the other.
pub fn table(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter()
        .map(|(name, value)| format!("  {}  {value}\n", styled(DIM, &format!("{name:width$}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_the_unit_that_suits_them() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (3 << 29, "1.5 GiB"),
            (1 << 60, "1048576.0 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
