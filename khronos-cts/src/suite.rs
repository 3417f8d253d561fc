//! The SPIR suite's data: zip files of sources and binaries, and `khr.csv`, which says what a test needs of the device.

use serde::{Deserialize, Serialize};
use spirula_tests::cl::{Device, sys};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
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

/// Every program of the folder's zip files that exists as a 64-bit binary, sorted.
pub fn entries(data: &Path) -> Result<Vec<Entry>, String> {
    let folder = fs::read_dir(data).map_err(|e| format!("{}: {e}", data.display()))?;
    let mut entries = Vec::new();
    for file in folder {
        let path = file.map_err(|e| format!("{}: {e}", data.display()))?.path();
        if path.extension().is_some_and(|e| e == "zip") {
            let suite = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let archive = open(&path)?;
            let names = archive.file_names().filter_map(Result::ok);
            let stems = names.filter_map(|name| name.strip_suffix(".bc64").map(str::to_string));
            entries.extend(stems.map(|stem| Entry { suite: suite.clone(), stem }));
        }
    }
    if entries.is_empty() {
        return Err(format!("{}: no zip file with .bc64 files is in it", data.display()));
    }
    entries.sort_by(|a, b| (&a.suite, &a.stem).cmp(&(&b.suite, &b.stem)));
    Ok(entries)
}

fn open(path: &Path) -> Result<ZipArchive<File>, String> {
    let explain = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = File::open(path).map_err(|e| explain(&e))?;
    ZipArchive::new(file).map_err(|e| explain(&e))
}

/// The opened zip files of a folder.
pub struct Archives<'a> {
    data: &'a Path,
    open: HashMap<String, ZipArchive<File>>,
}

impl<'a> Archives<'a> {
    /// Of this folder; opens them when they are asked for.
    pub fn new(data: &'a Path) -> Self {
        Archives { data, open: HashMap::new() }
    }

    /// The bytes of an entry's file with this extension.
    pub fn read(&mut self, entry: &Entry, extension: &str) -> Result<Vec<u8>, String> {
        let (suite, path) = (&entry.suite, format!("{}.{extension}", entry.stem));
        if !self.open.contains_key(suite) {
            let archive = open(&self.data.join(format!("{suite}.zip")))?;
            self.open.insert(suite.clone(), archive);
        }
        let archive = self.open.get_mut(suite).ok_or("just opened")?;
        let mut file = archive.by_name(&path).map_err(|e| format!("{suite}.zip, {path}: {e}"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| format!("{suite}.zip, {path}: {e}"))?;
        Ok(bytes)
    }
}

/// What a test needs of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    extension: String,
    images: bool,
}

/// The needs of all tests that have some.
pub struct Needs(HashMap<(String, String), Vec<Need>>);

impl Needs {
    /// Reads the folder's `khr.csv`.
    pub fn load(data: &Path) -> Result<Needs, String> {
        let path = data.join("khr.csv");
        fs::read_to_string(&path)
            .map(|text| Needs::parse(&text))
            .map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(text: &str) -> Needs {
        let mut needs: HashMap<_, Vec<Need>> = HashMap::new();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
            if let [suite, test, extension, images, _images3d] = fields[..] {
                let need = Need { extension: extension.to_string(), images: images == "CL_TRUE" };
                needs.entry((suite.to_string(), test.to_string())).or_default().push(need);
            }
        }
        Needs(needs)
    }

    /// What a test needs, by itself or as all of its suite ("*").
    fn of(&self, entry: &Entry) -> impl Iterator<Item = &Need> {
        let named = |test: &str| self.0.get(&(entry.suite.clone(), test.to_string()));
        named(entry.test()).into_iter().chain(named("*")).flatten()
    }

    /// Why the device can't run this test, if it says so itself. Extensions of the embedded profile (`cles_`) are
    /// part of the full one.
    pub fn lacking(&self, entry: &Entry, device: Device) -> Option<String> {
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
        let needs = Needs::parse(
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
