//! The SPIR suite's data: sources and binaries in zip files or folders, and `khr.csv`, which says what a test needs of the
//! device.

use serde::{Deserialize, Serialize};
use spirula_tests::cl::{Device, sys};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// A program: its suite (the zip file's name) and its path in the zip file without extension, such as "half/test.vload".
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The zip file's name without its extension.
    pub suite: String,
    /// The path in it without its extension.
    pub stem: String,
}

impl Entry {
    /// The test's name in `khr.csv`.
    pub fn test(&self) -> &str {
        self.stem.rsplit('/').next().unwrap_or(&self.stem)
    }

    /// Another program of the same folder.
    pub fn sibling(&self, test: &str) -> Entry {
        let folder = self.stem.strip_suffix(self.test()).unwrap_or_default();
        Entry { suite: self.suite.clone(), stem: format!("{folder}{test}") }
    }

    /// SUITE/NAME
    pub fn name(&self) -> String {
        format!("{}/{}", self.suite, self.test())
    }
}

/// The suites of the paths that the user named, and their needs.
pub struct Data {
    /// The paths, as they were named.
    pub paths: Vec<PathBuf>,
    suites: BTreeMap<String, Store>,
    needs: Needs,
}

/// Where a suite's files are.
enum Store {
    Zip(PathBuf),
    /// In SUITE of this folder, as the zip file's contents are when they are unpacked here.
    Folder(PathBuf),
}

/// The extension of the files that make a program one of the suite.
const BINARY: &str = "bc64";

impl Data {
    /// Of zip files, folders of zip files or unpacked suites, and unpacked suites themselves. A suite's `khr.csv` is
    /// beside its zip file or folder.
    pub fn open(paths: &[PathBuf]) -> Result<Data, String> {
        let mut data = Data { paths: paths.to_vec(), suites: BTreeMap::new(), needs: Needs::default() };
        for path in paths {
            let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
            let inside = if path.is_dir() { children(&path)? } else { Vec::new() };
            // Khronos's own test unpacks zip files where they are: the folders say the same and come too late.
            let (mut stores, mut folders) = (Vec::new(), Vec::new());
            for path in std::iter::once(&path).chain(&inside) {
                if path.extension().is_some_and(|e| e == "zip") {
                    stores.push(path);
                } else if path.is_dir()
                    && children(path)?.iter().any(|f| f.extension() == Some(BINARY.as_ref()))
                {
                    folders.push(path);
                }
            }
            stores.extend(folders);
            if stores.is_empty() {
                return Err(format!("{}: neither zip files nor .{BINARY} files are in it", path.display()));
            }
            stores.into_iter().for_each(|store| data.add(store));
        }
        let beside = data.suites.values().map(|store| match store {
            Store::Zip(path) => path.with_file_name("khr.csv"),
            Store::Folder(folder) => folder.join("khr.csv"),
        });
        for csv in beside.collect::<BTreeSet<_>>() {
            data.needs.load(&csv)?;
        }
        Ok(data)
    }

    fn add(&mut self, path: &Path) {
        let (name, store) = match path.is_dir() {
            true => (path.file_name(), Store::Folder(path.parent().unwrap_or(path).to_path_buf())),
            false => (path.file_stem(), Store::Zip(path.to_path_buf())),
        };
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        self.suites.entry(name).or_insert(store);
    }

    /// Every program that exists as a 64-bit binary, sorted.
    pub fn entries(&self) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        for (suite, store) in &self.suites {
            let names: Vec<String> = match store {
                Store::Zip(path) => {
                    open(path)?.file_names().filter_map(Result::ok).map(|name| name.to_string()).collect()
                }
                Store::Folder(folder) => children(&folder.join(suite))?
                    .iter()
                    .map(|path| format!("{suite}/{}", path.file_name().unwrap_or_default().to_string_lossy()))
                    .collect(),
            };
            let stems = names.iter().filter_map(|name| name.strip_suffix(BINARY)?.strip_suffix('.'));
            entries.extend(stems.map(|stem| Entry { suite: suite.clone(), stem: stem.to_string() }));
        }
        if entries.is_empty() {
            return Err(format!("no .{BINARY} files are in the zip files"));
        }
        entries.sort_by(|a, b| (&a.suite, &a.stem).cmp(&(&b.suite, &b.stem)));
        Ok(entries)
    }

    /// Why the device can't run this test, if it says so itself.
    pub fn lacking(&self, entry: &Entry, device: Device) -> Option<String> {
        self.needs.lacking(entry, device)
    }
}

fn children(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let explain = |e| format!("{}: {e}", folder.display());
    let mut paths = Vec::new();
    for file in fs::read_dir(folder).map_err(explain)? {
        paths.push(file.map_err(explain)?.path());
    }
    Ok(paths)
}

fn open(path: &Path) -> Result<ZipArchive<File>, String> {
    let explain = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = File::open(path).map_err(|e| explain(&e))?;
    ZipArchive::new(file).map_err(|e| explain(&e))
}

/// The data, its zip files opened when they are asked for.
pub struct Archives {
    /// The data.
    pub data: Data,
    open: HashMap<String, ZipArchive<File>>,
}

impl Archives {
    /// Opens none yet.
    pub fn new(data: Data) -> Self {
        Archives { data, open: HashMap::new() }
    }

    /// The bytes of an entry's file with this extension.
    pub fn read(&mut self, entry: &Entry, extension: &str) -> Result<Vec<u8>, String> {
        let (suite, path) = (&entry.suite, format!("{}.{extension}", entry.stem));
        let explain = |e: &dyn std::fmt::Display| format!("{suite}, {path}: {e}");
        match self.data.suites.get(suite).ok_or_else(|| format!("there is no suite {suite}"))? {
            Store::Folder(folder) => fs::read(folder.join(&path)).map_err(|e| explain(&e)),
            Store::Zip(zip) => {
                if !self.open.contains_key(suite) {
                    self.open.insert(suite.clone(), open(zip)?);
                }
                let archive = self.open.get_mut(suite).ok_or("just opened")?;
                let mut file = archive.by_name(&path).map_err(|e| explain(&e))?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(|e| explain(&e))?;
                Ok(bytes)
            }
        }
    }
}

/// What a test needs of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    extension: String,
    images: bool,
}

/// The needs of all tests that have some.
#[derive(Default)]
struct Needs(HashMap<(String, String), Vec<Need>>);

impl Needs {
    /// Adds those of a `khr.csv`.
    fn load(&mut self, path: &Path) -> Result<(), String> {
        let text = fs::read_to_string(path).map_err(|e| {
            format!("{}: {e}; it says what tests need, and belongs to the data", path.display())
        })?;
        self.add(&text);
        Ok(())
    }

    fn add(&mut self, text: &str) {
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
            if let [suite, test, extension, images, _images3d] = fields[..] {
                let need = Need { extension: extension.to_string(), images: images == "CL_TRUE" };
                self.0.entry((suite.to_string(), test.to_string())).or_default().push(need);
            }
        }
    }

    /// What a test needs, by itself or as all of its suite ("*").
    fn of(&self, entry: &Entry) -> impl Iterator<Item = &Need> {
        let named = |test: &str| self.0.get(&(entry.suite.clone(), test.to_string()));
        named(entry.test()).into_iter().chain(named("*")).flatten()
    }

    /// Why the device can't run this test, if it says so itself. Extensions of the embedded profile (`cles_`) are
    /// part of the full one.
    fn lacking(&self, entry: &Entry, device: Device) -> Option<String> {
        let has = |name: &str| name.is_empty() || name.starts_with("cles_") || device.has_extension(name);
        let has_images = || device.info::<u32>(sys::CL_DEVICE_IMAGE_SUPPORT).is_ok_and(|n| n != 0);
        self.of(entry).find_map(|need| match need {
            need if !has(&need.extension) => Some(need.extension.clone()),
            need if need.images && !has_images() => Some("images".to_string()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_needs() {
        let mut needs = Needs::default();
        needs.add(
            "\"suite name\", \"test name\", \"extension name\", \"CL_DEVICE_IMAGE_SUPPORT\", \"3D\"\n\
             \"half\", \"test.x\", \"cl_khr_fp64\", \"CL_FALSE\", \"CL_FALSE\"\n\
             \"images\", \"*\", \"\", \"CL_TRUE\", \"CL_TRUE\"\n",
        );
        let entry = |suite: &str, stem: &str| Entry { suite: suite.into(), stem: stem.into() };
        assert_eq!(entry("half", "half/test.x").name(), "half/test.x");
        let of = |suite, stem| {
            needs.of(&entry(suite, stem)).map(|n| (&*n.extension, n.images)).collect::<Vec<_>>()
        };
        assert_eq!(of("half", "half/test.x"), [("cl_khr_fp64", false)]);
        assert_eq!(of("images", "images/y"), [("", true)]);
        assert_eq!(of("half", "half/z"), []);
    }
}
