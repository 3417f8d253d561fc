//! perf's map: `/tmp/perf-PID.map`, a line for each function, which `perf report` looks for where no file is behind an address.

use super::Function;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// Adds functions. Where that can't be, perf shows addresses.
pub(super) fn write(functions: &[Function]) {
    // perf takes a file of the user's own only; a link in /tmp would be another's trick.
    let mut options = OpenOptions::new();
    let options =
        options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(format!("/tmp/perf-{}.map", std::process::id()));
    let _ = file.and_then(|mut file| file.write_all(lines(functions).as_bytes()));
}

fn lines(functions: &[Function]) -> String {
    let line = |Function { address, size, name }: &Function| {
        let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        format!("{address:x} {size:x} {name}\n")
    };
    functions.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_start_size_and_name() {
        let function = Function { address: 0x7f00, size: 0x20, name: "sax\npy".into() };
        assert_eq!(lines(&[function]), "7f00 20 sax?py\n");
    }
}
