//! What lies in the cache, for who looks after it: looking changes nothing, not even when an entry was last used.

use super::{Cache, Key, Kind, SHARES, kind};
use spirula_interface::program::CompiledProgram;
use spirula_interface::protocol::{self, Product};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file of the cache.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes, as it lies there.
    pub size: u64,
    /// When it was made or last used.
    pub used: SystemTime,
    /// What it answers; None for one on its way to its place, or left there.
    key: Option<Key>,
}

impl Entry {
    /// The answer's bytes, if it is whole.
    fn answer(&self) -> Option<Vec<u8>> {
        let bytes = fs::read(&self.path).ok()?;
        self.key?.answer_in(&bytes).map(<[u8]>::to_vec)
    }

    /// Whether it is an entry with all that was written; one on its way isn't.
    pub fn is_whole(&self) -> bool {
        self.answer().is_some()
    }

    /// Whether somebody may be writing it yet.
    pub fn is_temporary(&self) -> bool {
        self.key.is_none()
    }

    /// The program in it, if it is one, and of this build.
    pub fn program(&self) -> Option<CompiledProgram> {
        match protocol::decode(&self.answer()?).ok()? {
            Product::Built(program) => Some(program),
            _ => None,
        }
    }

    /// Removes it; whoever reads it at the moment has it yet.
    pub fn remove(&self) -> std::io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl Cache {
    /// All that lies in such a folder, the last used first; nothing where there is none.
    pub fn entries(folder: &Path) -> Vec<Entry> {
        let shares = (0..SHARES)
            .flat_map(|share| fs::read_dir(folder.join(format!("{share:x}"))).into_iter().flatten());
        let entry = |file: fs::DirEntry| {
            let (name, metadata) = (file.file_name(), file.metadata().ok().filter(fs::Metadata::is_file)?);
            let name = name.to_str()?;
            let key = match kind(name)? {
                Kind::Entry => Some(Key(name.parse().ok()?)),
                Kind::Temporary => None,
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some(Entry { path: file.path(), size: metadata.len(), used, key })
        };
        let mut entries: Vec<Entry> = shares.flatten().filter_map(entry).collect();
        entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        entries
    }
}
