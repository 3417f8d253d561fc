//! What was compiled is kept on disk: programs are built at every start of an application, and seldom change.
//!
//! An entry is a file whose name is the hash of all that the answer depends on ([`Key`]). It is written beside its place
//! and moved there, so that a reader sees all of it or nothing, whoever is killed meanwhile; its checksum tells what a full
//! disk or a failing one left of it. What fails its check is removed and compiled again. Folders and files that another user
//! owns or may write to are not used: an entry is trusted as what it is, an answer that the compiler gave this user before,
//! and passes the same verification.
//!
//! ```text
//! FOLDER/0 .. FOLDER/f      by the first digit, so that looking for room means looking at a sixteenth
//!   KEY                     magic, checksum of key and answer, answer
//!   tmp.PROCESS.NUMBER      on its way to its place
//! ```

mod entries;

pub use entries::Entry;
use spirula_interface::identity;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// The first bytes of an entry: what it is, and in which version of this form.
const MAGIC: [u8; 8] = *b"spirula1";
/// Magic and checksum.
const HEADER: usize = MAGIC.len() + blake3::OUT_LEN;
/// Folders, by the first hexadecimal digit of the key.
const SHARES: usize = 16;
/// Nobody is still writing to what is older.
const ABANDONED: Duration = Duration::from_secs(600);
/// An entry that was used says so when its time is further back; each use would be a write.
const FRESH: Duration = Duration::from_secs(30);

/// What an entry is the answer to: a hash of everything that the answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(blake3::Hash);

impl Key {
    /// Of a question of that kind, and this build's answers.
    pub fn of(kind: &str, parts: &[&[u8]]) -> Key {
        let mut hasher = blake3::Hasher::new();
        for part in [identity::BUILD.as_bytes(), kind.as_bytes()].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Key(hasher.finalize())
    }

    /// For another process of this build.
    pub fn to_bytes(self) -> [u8; 32] {
        *self.0.as_bytes()
    }

    /// The inverse.
    pub fn of_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes.into())
    }

    fn checksum(&self, answer: &[u8]) -> blake3::Hash {
        blake3::Hasher::new().update(self.0.as_bytes()).update(answer).finalize()
    }

    /// An entry's answer, if it is one to this question and whole.
    fn answer_in<'e>(&self, entry: &'e [u8]) -> Option<&'e [u8]> {
        let (checksum, answer) = entry.strip_prefix(&MAGIC)?.split_at_checked(blake3::OUT_LEN)?;
        // In constant time, which nobody needs; the comparison of hashes is so.
        (self.checksum(answer) == *checksum).then_some(answer)
    }

    /// The folder's number.
    fn share(&self) -> usize {
        usize::from(self.0.as_bytes()[0] >> 4)
    }
}

/// A folder of entries, which other processes use as well.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    /// Bytes that each share's entries may take.
    limit: u64,
    /// Bytes in each share, as far as this process knows; none before it has looked.
    sizes: [AtomicU64; SHARES],
}

/// [`Cache::sizes`] of a share that was not looked at.
const UNKNOWN: u64 = u64::MAX;

impl Cache {
    /// Uses a folder, which is made if it does not exist, for `limit` bytes. Errors: why it can't be used.
    pub fn open(folder: &Path, limit: u64) -> Result<Cache, String> {
        let cache = Cache {
            folder: folder.to_owned(),
            limit: limit / SHARES as u64,
            sizes: std::array::from_fn(|_| AtomicU64::new(UNKNOWN)),
        };
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        make_folder(folder).map_err(failed)?;
        (0..SHARES).try_for_each(|share| make_folder(&cache.share(share))).map_err(failed)?;
        Ok(cache)
    }

    fn share(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number:x}"))
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.share(key.share()).join(key.0.to_hex().as_str())
    }

    /// The answer, if it is there and whole.
    pub fn find(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        let entry = read(&path, self.limit).ok()?;
        let answer = key.answer_in(&entry);
        if answer.is_none() {
            self.remove(key);
        }
        answer.map(<[u8]>::to_vec)
    }

    /// Removes an entry that is of no use.
    pub fn remove(&self, key: &Key) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Keeps an answer, if there is room; those that were not used for longest are removed for it. Whatever fails, there is
    /// no entry, and no error: the answer is known.
    pub fn keep(&self, key: &Key, answer: &[u8]) {
        let size = (HEADER + answer.len()) as u64;
        if size > self.limit {
            return;
        }
        let known = self.sizes[key.share()].load(Relaxed);
        let before =
            if known.saturating_add(size) > self.limit { self.make_room(key.share(), size) } else { known };
        if self.write(key, answer).is_ok() {
            self.sizes[key.share()].store(before + size, Relaxed);
        }
    }

    fn write(&self, key: &Key, answer: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let temporary = self.share(key.share()).join(format!("tmp.{}.{number}", std::process::id()));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(&[&MAGIC[..], key.checksum(answer).as_bytes(), answer].concat())?;
            fs::rename(&temporary, self.path(key))
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes what was not used for longest, and what was left behind, until a share has room for so many bytes and a
    /// quarter of its limit more. Returns the bytes that stay.
    fn make_room(&self, share: usize, size: u64) -> u64 {
        let now = SystemTime::now();
        let mut entries = Vec::new();
        for file in fs::read_dir(self.share(share)).into_iter().flatten().flatten() {
            let Some((kind, metadata)) = kind(&file.file_name().to_string_lossy()).zip(file.metadata().ok())
            else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let age = now.duration_since(used).unwrap_or_default();
            if kind == Kind::Temporary && age > ABANDONED {
                let _ = fs::remove_file(file.path());
            } else {
                entries.push((used, metadata.len(), file.path()));
            }
        }
        let mut total = entries.iter().fold(0_u64, |sum, (_, size, _)| sum.saturating_add(*size));
        if total.saturating_add(size) <= self.limit {
            return total;
        }
        entries.sort();
        for (_, bytes, path) in entries {
            if total.saturating_add(size) <= self.limit - self.limit / 4 {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
        total
    }
}

#[derive(PartialEq)]
enum Kind {
    Entry,
    Temporary,
}

/// None for files that are not the cache's.
fn kind(name: &str) -> Option<Kind> {
    if name.starts_with("tmp.") {
        return Some(Kind::Temporary);
    }
    let is_key = name.len() == 2 * blake3::OUT_LEN && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_key.then_some(Kind::Entry)
}

/// Makes a folder for this user alone, or finds it so.
fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() && is_ours(&metadata) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "others own it or may write to it"))
}

/// Whether nobody else could have put this here.
fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

/// An entry's bytes; it counts as used.
fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Neither a link nor a pipe that nobody writes to.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || !is_ours(&metadata) || metadata.len() > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    (&file).take(limit).read_to_end(&mut bytes)?;
    use_now(&file, &metadata);
    Ok(bytes)
}

fn use_now(file: &File, metadata: &Metadata) {
    let now = SystemTime::now();
    let age = metadata.modified().ok().and_then(|used| now.duration_since(used).ok());
    if age.is_none_or(|age| age > FRESH) {
        let _ = file.set_modified(now);
    }
}

#[cfg(test)]
mod tests;
