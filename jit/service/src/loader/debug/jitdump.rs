//! perf's jitdump: `/tmp/jit-PID.dump`, the code of each function with its lines and the time from which on it was there. `perf record`
//! notices that the file is mapped; `perf inject --jit` makes of it what `perf report` and `perf annotate` read.

#![allow(unsafe_code)]

use super::Function;
use super::lines::Line;
use crate::per_process::PerProcess;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

const MAGIC: u32 = 0x4A69_5444;
const VERSION: u32 = 1;
/// ELF's number of x86-64.
const MACHINE: u32 = 62;
const CODE_LOAD: u32 = 0;
const DEBUG_INFO: u32 = 2;

/// This process's file, and how many functions are in it; none if there can't be one.
type Dump = Mutex<Option<(File, u64)>>;

static DUMP: PerProcess<Dump> =
    PerProcess::new(|| Mutex::new(create().ok().map(|file| (file, 0))), |_parents| ());

/// Adds functions with their code and lines. Where that can't be, perf has its map of names.
pub(super) fn write(functions: &[Function], code: impl Fn(&Function) -> Option<Vec<u8>>, lines: &[Line]) {
    let mut dump = DUMP.get().lock().unwrap_or_else(PoisonError::into_inner);
    let Some((file, count)) = dump.as_mut() else { return };
    for function in functions {
        let Some(code) = code(function) else { continue };
        let records = records(function, &code, lines, (*count, now()));
        *count += 1;
        if file.write_all(&records).is_err() {
            *dump = None;
            return;
        }
    }
}

/// A file of this user's alone, with its header, mapped for as long as the process runs.
fn create() -> io::Result<File> {
    let path = format!("/tmp/jit-{}.dump", std::process::id());
    // What an earlier process of that number left.
    let _ = remove_file(&path);
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let mut header = Vec::new();
    for word in [MAGIC, VERSION, 40, MACHINE, 0, std::process::id()] {
        header.extend(word.to_le_bytes());
    }
    header.extend([now(), 0].map(u64::to_le_bytes).concat());
    file.write_all(&header)?;
    // SAFETY: the kernel chooses a free address; nobody reads there, or runs what is there.
    unsafe { mmap(null_mut(), 4096, ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE, &file, 0)? };
    Ok(file)
}

/// By the clock that `perf record -k mono` uses.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A function's lines, which come first, and its code.
fn records(function: &Function, code: &[u8], lines: &[Line], (number, time): (u64, u64)) -> Vec<u8> {
    let (start, end) = (function.address, function.address + code.len());
    let own: Vec<&Line> = lines.iter().filter(|line| (start..end).contains(&line.address)).collect();
    let mut out = Vec::new();
    if !own.is_empty() {
        let mut body = [start as u64, own.len() as u64].map(u64::to_le_bytes).concat();
        for Line { address, file, line } in own {
            body.extend((*address as u64).to_le_bytes());
            body.extend([*line, 0].map(u32::to_le_bytes).concat());
            body.extend(text(file));
        }
        record(&mut out, DEBUG_INFO, time, &body);
    }
    let process = std::process::id();
    let mut body = [process, process].map(u32::to_le_bytes).concat();
    body.extend([start as u64, start as u64, code.len() as u64, number].map(u64::to_le_bytes).concat());
    body.extend(text(&function.name));
    body.extend(code);
    record(&mut out, CODE_LOAD, time, &body);
    out
}

fn record(out: &mut Vec<u8>, kind: u32, time: u64, body: &[u8]) {
    // A length of 32 bits: more than any function's.
    out.extend([kind, 16 + body.len() as u32].map(u32::to_le_bytes).concat());
    out.extend(time.to_le_bytes());
    out.extend(body);
}

/// Ends with a zero, and has none before.
fn text(text: &str) -> Vec<u8> {
    text.bytes().filter(|&byte| byte != 0).chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_functions_lines_come_before_its_code() {
        let function = Function { address: 0x1000, size: 2, name: "k".into() };
        let line = |address, line| Line { address, file: "a.cl".into(), line };
        let lines = [line(0xfff, 1), line(0x1000, 7), line(0x1002, 8)];
        let made = records(&function, &[0x90, 0xc3], &lines, (5, 9));
        let word = |at: usize| u32::from_le_bytes(made[at..at + 4].try_into().unwrap());
        assert_eq!([word(0), word(4), word(8)], [DEBUG_INFO, 32 + 16 + 5, 9]);
        assert_eq!([word(16), word(24), word(32), word(40)], [0x1000, 1, 0x1000, 7]);
        assert_eq!(&made[48..53], b"a.cl\0");
        let load = 53;
        assert_eq!([word(load), word(load + 4)], [CODE_LOAD, (made.len() - load) as u32]);
        assert_eq!([word(load + 40), word(load + 48)], [2, 5]);
        assert_eq!(&made[load + 56..], b"k\0\x90\xc3");
    }
}
