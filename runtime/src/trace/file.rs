//! The file: a list of events in JSON that is whole after each write.

use super::{Record, What};
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What the file ends with.
const END: &[u8] = b"\n]\n";

#[derive(Debug)]
pub(super) struct TraceFile {
    file: File,
    /// Where the list ends so far.
    end: u64,
    /// Of the process that began it. A forked child has this, too, and must leave the file alone.
    process: u32,
}

impl TraceFile {
    /// A list with the process's name in it. `%p` in the path is the process's number.
    pub(super) fn create(path: &Path) -> io::Result<TraceFile> {
        let process = std::process::id();
        let path = path.as_os_str().to_string_lossy().replace("%p", &process.to_string());
        let program = std::env::current_exe().unwrap_or_default();
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        let mut text = format!(
            "[\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"tid\":{process},\"args\":{{\"name\":"
        );
        string(&mut text, &program);
        text += "}}";
        let mut file = TraceFile { file: File::create(path)?, end: 0, process };
        file.append(&text)?;
        Ok(file)
    }

    /// Adds records, and how many there was no room for.
    pub(super) fn write(&mut self, records: &[Record], lost: u64) {
        if records.is_empty() && lost == 0 || self.process != std::process::id() {
            return;
        }
        let mut text = String::new();
        for record in records {
            text += ",\n";
            event(&mut text, self.process, record);
        }
        if let (1.., Some(last)) = (lost, records.last()) {
            let time = match &last.what {
                What::Span { ended, .. } | What::Between { ended, .. } => *ended,
                What::Thread(_) => 0,
            };
            let _ = write!(
                text,
                ",\n{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"{lost} spans were lost here: they came too fast\",\"pid\":{},\"tid\":{},\"ts\":{}}}",
                self.process,
                last.thread,
                Micros(time)
            );
        }
        // A disk that is full keeps what it has.
        let _ = self.append(&text);
    }

    /// At the end of the list, with the file's end behind it, at once: then it is whole before and after.
    fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all_at(&[text.as_bytes(), END].concat(), self.end)?;
        self.end += text.len() as u64;
        Ok(())
    }
}

/// Nanoseconds, as the format wants them.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// The format's objects for a record.
fn event(text: &mut String, process: u32, Record { thread, what }: &Record) {
    // Writing to a string can't fail.
    let place = format_args!("\"pid\":{process},\"tid\":{thread}").to_string();
    match what {
        What::Thread(name) => {
            let _ = write!(text, "{{\"ph\":\"M\",\"name\":\"thread_name\",{place},\"args\":{{\"name\":");
            string(text, name);
            *text += "}}";
        }
        What::Span { category, name, begun, ended, notes } => {
            // Viewers add the two in floating point: what begins where this ends must not seem to begin before.
            let (start, duration) = (Micros(*begun), Micros(ended.saturating_sub(*begun).saturating_sub(1)));
            let _ = write!(
                text,
                "{{\"ph\":\"X\",\"cat\":\"{category}\",{place},\"ts\":{start},\"dur\":{duration},\"name\":"
            );
            string(text, name);
            *text += ",\"args\":{";
            for (number, (name, value)) in notes.iter().enumerate() {
                *text += if number == 0 { "" } else { "," };
                string(text, name);
                text.push(':');
                string(text, value);
            }
            *text += "}}";
        }
        What::Between { category, name, begun, ended, number } => {
            // A number of this process: those of all processes are drawn apart from it.
            for (phase, time, end) in [('b', begun, ",\n"), ('e', ended, "")] {
                let time = Micros(*time);
                let _ = write!(
                    text,
                    "{{\"ph\":\"{phase}\",\"cat\":\"{category}\",\"id2\":{{\"local\":\"{number:#x}\"}},{place},\"ts\":{time},\"name\":"
                );
                string(text, name);
                let _ = write!(text, "}}{end}");
            }
        }
    }
}

/// A string as JSON writes it.
fn string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            _ if character.is_control() => {
                let _ = write!(text, "\\u{:04x}", character as u32);
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_json_whatever_their_names() {
        let mut text = String::new();
        let name = "a\"b\\c\nd\u{7f}é".to_owned();
        let notes = vec![("one", "1".to_owned()), ("two", "2".to_owned())];
        let span = What::Span { category: "c", name, begun: 1_234_567, ended: 1_236_567, notes };
        event(&mut text, 1, &Record { thread: 2, what: span });
        assert_eq!(
            text,
            r#"{"ph":"X","cat":"c","pid":1,"tid":2,"ts":1234.567,"dur":1.999,"name":"a\"b\\c\u000ad\u007fé","args":{"one":"1","two":"2"}}"#
        );
        text.clear();
        let between = What::Between { category: "c", name: "n".into(), begun: 1000, ended: 2000, number: 7 };
        event(&mut text, 1, &Record { thread: 2, what: between });
        assert_eq!(text.matches(r#""id2":{"local":"0x7"},"pid":1,"tid":2,"ts":"#).count(), 2, "{text}");
    }
}
