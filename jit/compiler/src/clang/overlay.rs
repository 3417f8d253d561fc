//! The files that clang sees: its own header and the application's headers before all that the application itself can read, or,
//! if that is restricted, before certain folders. LLVM's virtual file system has nothing else then, whatever a source includes,
//! embeds or asks for, by whatever path.

use super::run::MemoryFile;
use spirula_interface::translation::{BASE_HEADER, Translation, normal};
use std::io;
use std::path::{Path, PathBuf};

/// Where clang finds its own header; nothing is there in reality.
const RESOURCES: &str = "/spirula/clang";
/// Where the application's headers are. Deep enough for some `..` in their names.
const HEADERS: &str = "/spirula/headers/of/the/program";

/// Bytes of the list of files that were read.
const READ: u64 = 1 << 20;

/// The files' contents, which live as long as this, and the list of them.
#[derive(Debug)]
pub(super) struct Overlay {
    list: MemoryFile,
    _headers: Vec<MemoryFile>,
    folders: Vec<String>,
    directory: Option<String>,
    /// Where clang writes which files it read, a line each.
    read: MemoryFile,
}

impl Overlay {
    pub(super) fn new(translation: &Translation) -> io::Result<Overlay> {
        let mut entries = Vec::new();
        let own = translation.clang.headers.join(BASE_HEADER);
        entries.push(entry("file", &format!("{RESOURCES}/include/{BASE_HEADER}"), text(&own)?)?);
        let mut headers = Vec::new();
        for (name, contents) in &translation.headers {
            let file = MemoryFile::new(c"spirula-header", contents.as_bytes())?;
            entries.push(entry("file", text(&normal(&Path::new(HEADERS).join(name)))?, &file.path())?);
            headers.push(file);
        }
        let mut folders = vec![HEADERS.to_string()];
        for folder in &translation.include_folders {
            // What is restricted is looked up by its name alone; what is not, as the system does it, symbolic links and all.
            let folder = if translation.allowed.is_some() { normal(folder) } else { folder.clone() };
            folders.push(text(&folder)?.to_string());
        }
        let mut allowed: Vec<&str> = Vec::new();
        for folder in translation.allowed.iter().flatten() {
            let folder = text(folder)?;
            // One that does not exist holds nothing; clang would give up on the whole list.
            if Path::new(folder).is_dir() && !allowed.contains(&folder) {
                entries.push(entry("directory-remap", text(&normal(Path::new(folder)))?, folder)?);
                allowed.push(folder);
            }
        }
        let others = if translation.allowed.is_some() { "redirect-only" } else { "fallthrough" };
        let list = format!(
            "{{ 'version': 0, 'case-sensitive': 'true', 'overlay-relative': 'false', 'use-external-names': 'false',\n\
             'redirecting-with': '{others}', 'roots': [\n{}\n] }}\n",
            entries.join(",\n")
        );
        let directory = translation.directory.as_deref().map(text).transpose()?.map(str::to_string);
        let list = MemoryFile::new(c"spirula-files", list.as_bytes())?;
        let read = MemoryFile::new(c"spirula-read", b"")?;
        Ok(Overlay { list, _headers: headers, folders, directory, read })
    }

    /// The options that make clang see these files, in this order: the source is among the program's headers, for `#include "NAME"`
    /// looks beside it first.
    pub(super) fn options(&self) -> impl Iterator<Item = String> + '_ {
        let fixed =
            ["-resource-dir", RESOURCES, "-working-directory", HEADERS, "-ivfsoverlay"].map(str::to_string);
        let told = ["-header-include-file".to_string(), self.read.path(), "-sys-header-deps".to_string()];
        let beside = self.directory.iter().flat_map(|directory| ["-iquote".to_string(), directory.clone()]);
        let folders = self.folders.iter().map(|folder| format!("-I{folder}"));
        fixed.into_iter().chain([self.list.path()]).chain(told).chain(beside).chain(folders)
    }

    /// The files that a clang which has ended read, but for its own header. None if they can't be told.
    pub(super) fn read(&mut self) -> Option<Vec<PathBuf>> {
        let told = self.read.contents(READ + 1).ok().filter(|told| told.len() as u64 <= READ)?;
        files_in(std::str::from_utf8(&told).ok()?)
    }
}

/// The files of such a list. Clang's own header is always one of them: a list without it was not written.
fn files_in(told: &str) -> Option<Vec<PathBuf>> {
    let names = told.lines().map(unescaped).collect::<Option<Vec<String>>>()?;
    let (own, others): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| Path::new(name).starts_with(RESOURCES));
    let others = others.into_iter().map(|name| Path::new(HEADERS).join(name));
    (!own.is_empty()).then(|| others.collect())
}

/// A name as clang writes it in a line, where quotes and backslashes have a backslash before them.
fn unescaped(line: &str) -> Option<String> {
    let mut name = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        name.push(match letter {
            '\\' => letters.next().filter(|letter| ['\\', '"'].contains(letter))?,
            letter => letter,
        });
    }
    Some(name)
}

/// One file or folder: its name for clang, and where it is.
fn entry(kind: &str, name: &str, real: &str) -> io::Result<String> {
    if name.chars().chain(real.chars()).any(char::is_control) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the path {name:?} has a control character"),
        ));
    }
    let quote = |text: &str| text.replace('\'', "''");
    Ok(format!("{{ 'type': '{kind}', 'name': '{}', 'external-contents': '{}' }}", quote(name), quote(real)))
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("the path {} is not Unicode", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_list() {
        assert!(entry("file", "/a', 'b", "/c").unwrap().contains("'/a'', ''b'"));
        assert!(entry("file", "/a\n", "/c").is_err());
    }

    #[test]
    fn names_of_files_that_were_read_are_told_as_they_are() {
        let own = "/spirula/clang/include/opencl-c-base.h\n";
        let told = format!("{own}./a.h\n/a b/\\\"c\\\\.h\n");
        let files = [Path::new(HEADERS).join("a.h"), "/a b/\"c\\.h".into()];
        assert_eq!(files_in(&told).unwrap(), files);
        assert_eq!(files_in(own), Some(vec![]));
        assert_eq!(files_in(""), None);
        assert_eq!(files_in(&format!("{own}/a\\n\n")), None);
    }
}
