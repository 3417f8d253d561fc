//! What a translation reads besides what it is given: the files that its source may include, and those that they may include. A
//! translation is found again while all of them say what they said, and none came where one is looked for first.
//!
//! Nothing is preprocessed: each `#include` counts, wherever it stands, and each folder that it may be looked for in. That is more
//! than clang reads, never less; a text that may look for files in another way is translated each time.

use spirula_interface::translation::{Translation, normal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// Where clang is told that the program's own headers and its source are; nothing is there in reality.
const OWN: &str = "/spirula/headers/of/the/program";
/// Places that are looked at, and bytes of the files there: of more, a translation takes so long that nobody waits for a clang.
const MOST_PLACES: usize = 10_000;
const MOST_BYTES: u64 = 32 << 20;

/// The state of every place where a translation may look for a file: a hash of what is there, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Includes(BTreeMap<PathBuf, Option<blake3::Hash>>);

impl Includes {
    /// As they are now. None if a translation may depend on something else.
    pub fn now(translation: &Translation) -> Option<Includes> {
        let (found, seen, pending) = (Includes::default(), BTreeSet::new(), Vec::new());
        let mut search = Search { translation, found, seen, pending, bytes: 0 };
        if translation.options.iter().any(|option| !is_harmless(option)) {
            return None;
        }
        search.text(&translation.source, Path::new(OWN))?;
        for (name, text) in &translation.headers {
            search.text(text, Path::new(OWN).join(name).parent()?)?;
        }
        while let Some((text, folder)) = search.pending.pop() {
            search.text(&text, &folder)?;
        }
        Some(search.found)
    }

    /// For a key: others are other bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (place, hash) in &self.0 {
            let place = place.as_os_str().as_encoded_bytes();
            bytes.extend((place.len() as u64).to_le_bytes());
            bytes.extend(place);
            bytes.extend(hash.map_or([0; blake3::OUT_LEN], |hash| *hash.as_bytes()));
        }
        bytes
    }
}

/// What was looked at so far.
struct Search<'t> {
    translation: &'t Translation,
    found: Includes,
    /// Names that were looked for from a folder.
    seen: BTreeSet<(PathBuf, String)>,
    /// Texts that were found, and their folders.
    pending: Vec<(String, PathBuf)>,
    bytes: u64,
}

impl Search<'_> {
    /// Follows what a text in that folder includes.
    fn text(&mut self, text: &str, folder: &Path) -> Option<()> {
        for name in included(text)? {
            if self.seen.insert((folder.to_owned(), name.clone())) {
                self.name(&name, folder)?;
            }
        }
        Some(())
    }

    fn name(&mut self, name: &str, folder: &Path) -> Option<()> {
        let climbs = Path::new(name).components().any(|part| part == Component::ParentDir);
        // What is restricted clang looks up by its name alone, whatever links there are.
        if climbs && self.translation.allowed.is_some() {
            return None;
        }
        let Translation { directory, include_folders, .. } = self.translation;
        let own = Path::new(OWN);
        let folders = [folder, own].into_iter().chain(directory.as_deref());
        let folders: Vec<&Path> = folders.chain(include_folders.iter().map(PathBuf::as_path)).collect();
        for folder in folders {
            let place = folder.join(name);
            // Folders that are not there in reality have no links.
            self.place(if place.starts_with(own) { normal(&place) } else { place })?;
        }
        Some(())
    }

    fn place(&mut self, place: PathBuf) -> Option<()> {
        if self.found.0.contains_key(&place) {
            return Some(());
        }
        let contents = contents(&place, MOST_BYTES - self.bytes).ok()?;
        let hash = contents.as_deref().map(blake3::hash);
        self.found.0.insert(place.clone(), hash);
        if self.found.0.len() > MOST_PLACES {
            return None;
        }
        let Some(contents) = contents else { return Some(()) };
        self.bytes += contents.len() as u64;
        self.pending.push((String::from_utf8_lossy(&contents).into_owned(), place.parent()?.to_owned()));
        Some(())
    }
}

/// What a file says; None if there is none. Errors: it may say something else to clang, or is too long.
fn contents(place: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let unusable = || io::Error::from(io::ErrorKind::InvalidData);
    match fs::metadata(place) {
        Ok(metadata) if metadata.is_dir() => return Ok(None),
        Ok(metadata) if metadata.is_file() => {}
        // Opening a device may do something.
        Ok(_) => return Err(unusable()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(place)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    (&file).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    // Too long, or what the kernel makes up for who asks.
    if size > most || bytes.len() as u64 != size {
        return Err(unusable());
    }
    Ok(Some(bytes))
}

/// Words that make the preprocessor look at a clock.
const CLOCKS: [&str; 3] = ["__DATE__", "__TIME__", "__TIMESTAMP__"];
/// Words that make it look for a file, in a directive or a pragma.
const FILES: [&str; 4] = ["include", "import", "embed", "dependency"];
/// What such a line has, too. (`%:` is `#`.)
const DIRECTIVES: [&str; 4] = ["#", "%:", "_Pragma", "__has_"];

/// Whether an option names no file and no clock.
fn is_harmless(option: &str) -> bool {
    included(option).is_some_and(|names| names.is_empty()) && !FILES.iter().any(|word| option.contains(word))
}

/// The names that a text includes. None if it may look for files in another way than by `#include` and a plain name, or at a clock,
/// however its letters are spread over lines or written: a trigraph or a universal character name is taken for one.
fn included(text: &str) -> Option<Vec<String>> {
    let lines = joined_lines(text);
    let is_strange = |word: &&str| lines.contains(*word);
    if ["??/", "??=", "\\u", "\\U"].iter().chain(&CLOCKS).any(is_strange) {
        return None;
    }
    let mut names = Vec::new();
    for line in lines.lines() {
        // A comment that begins here may end in another line, in front of the word.
        let begins = |sign: &str| line.split(sign).skip(1).any(|rest| rest.trim_start().starts_with("/*"));
        if begins("#") || begins("%:") {
            return None;
        }
        let mentions = FILES.iter().any(|word| line.contains(word));
        if !mentions || !DIRECTIVES.iter().any(|sign| line.contains(sign)) {
            continue;
        }
        names.push(plain_include(line)?.to_owned());
    }
    Some(names)
}

/// The name of `#include "NAME"` or `#include <NAME>`, behind which a comment may stand.
fn plain_include(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let directive = line.strip_prefix('#').or_else(|| line.strip_prefix("%:"))?;
    let name = directive.trim_start().strip_prefix("include")?.trim_start();
    let (name, behind) = match name.strip_prefix('"') {
        Some(name) => name.split_once('"')?,
        None => name.strip_prefix('<')?.split_once('>')?,
    };
    let is_over = DIRECTIVES.iter().chain(&FILES).all(|word| !behind.contains(word));
    (is_over && !name.is_empty()).then_some(name)
}

/// The text with its continued lines in one.
fn joined_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.split('\n') {
        // Clang continues a line whose backslash has blanks behind it, too.
        let end = line.trim_end();
        lines.push_str(end.strip_suffix('\\').unwrap_or(line));
        if !end.ends_with('\\') {
            lines.push('\n');
        }
    }
    // A line ends at either.
    lines.replace('\r', "\n")
}

#[cfg(test)]
mod tests;
