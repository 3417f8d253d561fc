//! `spirula cache`: what was compiled before and is kept on disk.

use crate::arguments::{Action, Common};
use crate::output::{BAD, GOOD, styled};
use crate::{Result, output};
use serde::Serialize;
use spirula_service::cache::{Cache, Entry};
use spirula_service::settings;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Serialize)]
struct Listed {
    folder: Option<PathBuf>,
    bytes: u64,
    limit: u64,
    entries: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    path: PathBuf,
    bytes: u64,
    /// Since it was made or last used.
    seconds: u64,
    /// The program's, if it is one of this build.
    kernels: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Done {
    folder: Option<PathBuf>,
    entries: usize,
    removed: usize,
    removed_bytes: u64,
    /// What can't be removed.
    failed: Vec<String>,
}

pub fn run(common: &Common, action: Action) -> Result<bool> {
    let folder = settings::get().cache_folder.clone();
    let entries = folder.as_deref().map(Cache::entries).unwrap_or_default();
    match action {
        Action::List => list(common, folder, &entries),
        Action::Clear => {
            let done = remove(folder, &entries, |_| true);
            let failed = !done.failed.is_empty();
            say(common, &done)?;
            Ok(!failed)
        }
        Action::Verify => {
            let done = remove(folder, &entries, |entry| !entry.is_temporary() && !entry.is_whole());
            let sound = done.removed == 0 && done.failed.is_empty();
            say(common, &done)?;
            Ok(sound)
        }
    }
}

fn list(common: &Common, folder: Option<PathBuf>, entries: &[Entry]) -> Result<bool> {
    let line = |entry: &Entry| Line {
        path: entry.path.clone(),
        bytes: entry.size,
        seconds: SystemTime::now().duration_since(entry.used).unwrap_or_default().as_secs(),
        kernels: entry
            .program()
            .map(|program| program.kernels.iter().map(|kernel| kernel.signature.name.clone()).collect()),
    };
    let bytes = entries.iter().map(|entry| entry.size).sum();
    let listed = Listed {
        folder,
        bytes,
        limit: settings::get().cache_size,
        entries: entries.iter().map(line).collect(),
    };
    if common.json {
        output::json(&listed)?;
        return Ok(true);
    }
    let mut text = String::new();
    for Line { path, bytes, seconds, kernels } in &listed.entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let what = kernels.as_ref().map_or_else(|| "-".into(), |kernels| kernels.join(", "));
        let name = name.get(..16).unwrap_or(&name);
        text += &format!("{name}  {:>10}  {:>8}  {what}\n", output::bytes(*bytes), age(*seconds));
    }
    let (count, used, limit) =
        (listed.entries.len(), output::bytes(listed.bytes), output::bytes(listed.limit));
    text += &match &listed.folder {
        Some(folder) => format!("{}: {count} entries, {used} of {limit}\n", folder.display()),
        None => "nothing is kept: SPIRULA_CACHE_DIR says so, or there is no home\n".into(),
    };
    output::text(&text)?;
    Ok(true)
}

/// In the unit that suits it.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn remove(folder: Option<PathBuf>, entries: &[Entry], unwanted: impl Fn(&Entry) -> bool) -> Done {
    let mut done = Done { folder, entries: entries.len(), removed: 0, removed_bytes: 0, failed: Vec::new() };
    for entry in entries.iter().filter(|entry| unwanted(entry)) {
        match entry.remove() {
            Ok(()) => {
                done.removed += 1;
                done.removed_bytes += entry.size;
            }
            // Another process was faster.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => done.failed.push(format!("{}: {error}", entry.path.display())),
        }
    }
    done
}

fn say(common: &Common, done: &Done) -> Result<()> {
    if common.json {
        return output::json(done);
    }
    let Done { entries, removed, removed_bytes, failed, .. } = done;
    let style = if failed.is_empty() { GOOD } else { BAD };
    let size = output::bytes(*removed_bytes);
    let mut text = styled(style, &format!("{entries} entries looked at, {removed} removed ({size})")) + "\n";
    failed.iter().for_each(|failure| text += &format!("  {failure}\n"));
    output::text(&text)
}
