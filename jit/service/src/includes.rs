//! What a translation reads besides what it is given: the files that its source may include, and those that they may include. A
//! translation is found again while all of them say what they said, and none came where one is looked for first.
//!
//! Nothing is preprocessed: each `#include` counts, wherever it stands, and each folder that it may be looked for in. That is more
//! than clang reads, never less. Where a macro computes a file's name, clang has said once what it read, and each name that may
//! have been meant by that counts; a text that may look for files in yet another way is translated each time.

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

/// The state of every place where a translation may look for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Includes {
    /// A hash of what is there, or nothing.
    places: BTreeMap<PathBuf, Option<blake3::Hash>>,
    /// The working directory, if something may be found in it.
    directory: Option<PathBuf>,
    /// The names that were said to be looked for besides.
    names: BTreeSet<PathBuf>,
    /// Whether a macro computes the name of a file.
    computed: bool,
}

impl Includes {
    /// As they are now; the names are [`names`](Includes::names) of an earlier translation. None if a translation may depend on
    /// something else.
    pub fn now(translation: &Translation, names: &[PathBuf]) -> Option<Includes> {
        let found = Includes { names: names.iter().cloned().collect(), ..Includes::default() };
        let mut search = Search { translation, found, seen: BTreeSet::new(), pending: Vec::new(), bytes: 0 };
        if translation.options.iter().any(|option| !is_harmless(option)) {
            return None;
        }
        search.text(&translation.source, Path::new(OWN))?;
        for (name, text) in &translation.headers {
            search.text(text, Path::new(OWN).join(name).parent()?)?;
        }
        for name in names {
            search.name(name, Path::new(OWN))?;
        }
        while let Some((text, folder)) = search.pending.pop() {
            search.text(&text, &folder)?;
            for name in names {
                search.name(name, &folder)?;
            }
        }
        Some(search.found)
    }

    /// Whether a macro computes the name of a file: only clang can tell which one that is.
    pub fn computed(&self) -> bool {
        self.computed
    }

    /// By which names the files may have been looked for that clang has read: the part of each behind any folder that it may have been
    /// looked for in, or all of it.
    pub fn names(translation: &Translation, read: &[PathBuf]) -> Vec<PathBuf> {
        let Translation { directory, include_folders, .. } = translation;
        let beside = read.iter().filter_map(|file| file.parent());
        let folders = beside.chain(directory.as_deref()).chain(include_folders.iter().map(PathBuf::as_path));
        let folders: BTreeSet<&Path> = folders.chain([Path::new(OWN)]).collect();
        let behind = |file| folders.iter().filter_map(move |folder| Path::strip_prefix(file, folder).ok());
        let names = read.iter().flat_map(|file| behind(file).chain([file.as_path()]));
        names.map(Path::to_owned).collect::<BTreeSet<PathBuf>>().into_iter().collect()
    }

    /// For a key: what makes a difference has other bytes. Where nothing is, nothing is read, whichever folder that would have been in.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |part: &[u8]| {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        };
        for (place, hash) in &self.places {
            if let Some(hash) = hash {
                add(place.as_os_str().as_encoded_bytes());
                add(hash.as_bytes());
            }
        }
        add(self.directory.as_deref().unwrap_or(Path::new("")).as_os_str().as_encoded_bytes());
        self.names.iter().for_each(|name| add(name.as_os_str().as_encoded_bytes()));
        bytes
    }
}

/// What was looked at so far.
struct Search<'t> {
    translation: &'t Translation,
    found: Includes,
    /// Names that were looked for from a folder.
    seen: BTreeSet<(PathBuf, PathBuf)>,
    /// Texts that were found, and their folders.
    pending: Vec<(String, PathBuf)>,
    bytes: u64,
}

impl Search<'_> {
    /// Follows what a text in that folder includes.
    fn text(&mut self, text: &str, folder: &Path) -> Option<()> {
        for name in included(text)? {
            match name {
                Name::Plain(name) => self.name(Path::new(&name), folder)?,
                Name::Computed => self.found.computed = true,
            }
        }
        Some(())
    }

    fn name(&mut self, name: &Path, folder: &Path) -> Option<()> {
        if !self.seen.insert((folder.to_owned(), name.to_owned())) {
            return Some(());
        }
        let climbs = name.components().any(|part| part == Component::ParentDir);
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
            let is_there = self.place(if place.starts_with(own) { normal(&place) } else { place })?;
            if is_there && name.is_relative() && Some(folder) == directory.as_deref() {
                self.found.directory.clone_from(directory);
            }
        }
        Some(())
    }

    /// Whether something is there.
    fn place(&mut self, place: PathBuf) -> Option<bool> {
        if let Some(known) = self.found.places.get(&place) {
            return Some(known.is_some());
        }
        let contents = contents(&place, MOST_BYTES - self.bytes).ok()?;
        let hash = contents.as_deref().map(blake3::hash);
        self.found.places.insert(place.clone(), hash);
        if self.found.places.len() > MOST_PLACES {
            return None;
        }
        let Some(contents) = contents else { return Some(false) };
        self.bytes += contents.len() as u64;
        self.pending.push((String::from_utf8_lossy(&contents).into_owned(), place.parent()?.to_owned()));
        Some(true)
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

/// What a text includes.
#[derive(Debug, PartialEq)]
enum Name {
    /// `"NAME"` or `<NAME>`.
    Plain(String),
    /// What a macro says.
    Computed,
}

/// The names that a text includes. None if it may look for files in another way than by `#include`, or at a clock,
/// however its letters are spread over lines or written: a trigraph or a universal character name is taken for one.
fn included(text: &str) -> Option<Vec<Name>> {
    let lines = joined_lines(text);
    if ["??/", "??="].iter().any(|sign| lines.contains(sign)) {
        return None;
    }
    let lines = without_comments(&lines)?;
    if ["\\u", "\\U"].iter().chain(&CLOCKS).any(|word| lines.contains(word)) {
        return None;
    }
    let mut names = Vec::new();
    for line in lines.lines() {
        let mentions = FILES.iter().any(|word| line.contains(word));
        if mentions && DIRECTIVES.iter().any(|sign| line.contains(sign)) {
            names.push(included_by(line)?);
        }
    }
    Some(names)
}

/// What `#include` names in a line without comments.
fn included_by(line: &str) -> Option<Name> {
    let line = line.trim_start();
    let directive = line.strip_prefix('#').or_else(|| line.strip_prefix("%:"))?;
    let behind = directive.trim_start().strip_prefix("include")?;
    let name = behind.trim_start();
    // Not the rest of another word.
    if name.len() < behind.len()
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
    {
        return Some(Name::Computed);
    }
    let (name, behind) = match name.strip_prefix('"') {
        Some(name) => name.split_once('"')?,
        None => name.strip_prefix('<')?.split_once('>')?,
    };
    let is_over = DIRECTIVES.iter().chain(&FILES).all(|word| !behind.contains(word));
    (is_over && !name.is_empty()).then(|| Name::Plain(name.to_owned()))
}

/// Joined lines with a blank for each comment. None where it can't be said whether a comment begins: where a literal doesn't end, in
/// the name of a file, behind digits with separators and in C++'s raw literals.
fn without_comments(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(['/', '"', '\'']) {
        plain.push_str(&rest[..place]);
        rest = &rest[place..];
        if let Some(comment) = rest.strip_prefix("/*") {
            if names_a_file(&plain) {
                return None;
            }
            plain.push(' ');
            rest = comment.split_once("*/")?.1;
        } else if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with('/') {
            plain.push('/');
            rest = &rest[1..];
        } else {
            let (literal, is_whole) = literal(rest);
            let is_certain = is_whole && !plain.ends_with(|letter: char| letter.is_ascii_alphanumeric());
            if plain.ends_with('R') || !is_certain && literal.contains("/*") {
                return None;
            }
            plain.push_str(literal);
            rest = &rest[literal.len()..];
        }
    }
    plain.push_str(rest);
    Some(plain)
}

/// Whether the last line may be in the midst of `#include <NAME>`.
fn names_a_file(text: &str) -> bool {
    let line = text.rsplit('\n').next().unwrap_or(text);
    FILES.iter().any(|word| line.contains(word)) && line.contains('<') && !line.contains('>')
}

/// The literal that a text begins with, and whether it ends before its line does.
fn literal(text: &str) -> (&str, bool) {
    let mut letters = text.char_indices();
    let quote = letters.next().map(|(_, quote)| quote);
    while let Some((place, letter)) = letters.next() {
        match letter {
            '\n' => return (&text[..place], false),
            '\\' if !text[place + 1..].starts_with('\n') => _ = letters.next(),
            _ if Some(letter) == quote => return (&text[..=place], true),
            _ => {}
        }
    }
    (text, false)
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
