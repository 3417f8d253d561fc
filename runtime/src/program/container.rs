//! Program binaries of our own (CL_PROGRAM_BINARIES): IR, its options and, for executables, the compiled object, for this machine, or
//! processors of its level (`SPIRULA_CPU`), and this version only. Of several in one file ([`bundle`]) the first that fits is taken.
//!
//! Layout: magic (8 bytes), checksum of the rest (8 bytes, little endian), then the [`Contents`] as postcard.
//!
//! Nothing proves who made a container: the checksum finds damage, and whoever forges one computes it anew. So no part is
//! trusted: [`super::verify`] checks what the runtime relies on, jit's loader the objects, and SPIR goes to the compiler's
//! process as any other does. Whatever the bytes, making, building and asking a program gives a result or an error, and
//! takes memory in proportion to them, but for the loader's bound. Launching its kernels is another matter: an executable's
//! machine code does with the application's rights what its maker wanted, as that of a shared library does. Applications
//! should load executables only from where they would load libraries from, and SPIR from anywhere else.

use super::BinaryType;
use crate::machine::CpuInfo;
use serde::{Deserialize, Serialize};
use spirula_interface::bundle;
use spirula_interface::options::CompileOptions;
use spirula_interface::program::CompiledProgram;
use spirula_interface::target::Level;
use std::sync::LazyLock;

/// Changes with the layout.
const MAGIC: [u8; 8] = *b"SPIRULA\x03";

/// What a container holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// Who may load it; see [`host`].
    host: String,
    /// A `cl_program_binary_type`.
    kind: u32,
    /// Bitcode: what was compiled or linked, and for an executable what it was built of.
    pub modules: Vec<Vec<u8>>,
    /// What it was compiled, linked or built with.
    pub options: CompileOptions,
    /// An executable's code.
    pub compiled: Option<CompiledProgram>,
}

/// Code that runs wherever this text is the same: these sources of Spirula (the build script says which), settings that make other
/// code, and the processor.
fn place(processor: &str) -> String {
    let (version, arch) = (spirula_interface::identity::BUILD, std::env::consts::ARCH);
    let settings = &spirula_service::settings::get().compiler;
    // Code with checks in it is of no use to who doesn't ask for them, nor is that without to who does.
    let checks = if settings.checks.any() { format!(" {:?}", settings.checks) } else { String::new() };
    // Nor is code without lines to who wants to see them.
    let lines = if settings.debug_info { " lines" } else { "" };
    format!("{version} {arch} {processor}{checks}{lines}")
}

/// This kind of CPU: code made for another one could use missing instructions.
fn own_processor() -> &'static str {
    static OWN: LazyLock<String> = LazyLock::new(|| {
        let cpu = CpuInfo::read();
        let field = |key| cpu.field(key).unwrap_or("");
        let features = checksum(field("flags").as_bytes()) ^ checksum(field("Features").as_bytes());
        format!("{} {features:x}", field("model name"))
    });
    &OWN
}

/// Where what is made here runs: on processors of a level, if code uses no more.
fn host() -> String {
    let level = spirula_service::settings::get().level;
    let level = level.filter(|&level| spirula_service::processor_level() >= Some(level));
    place(level.map_or_else(own_processor, Level::name))
}

/// Whether what was made there runs on this processor, or on one of that level.
fn runs(host: &str, level: Option<Level>) -> bool {
    let levels = [Level::V2, Level::V3, Level::V4].into_iter().filter(|&known| Some(known) <= level);
    host == place(own_processor()) || levels.map(Level::name).any(|name| host == place(name))
}

impl Contents {
    pub(crate) fn new(
        kind: BinaryType,
        modules: Vec<Vec<u8>>,
        options: CompileOptions,
        compiled: Option<CompiledProgram>,
    ) -> Contents {
        Contents { host: host(), kind: kind as u32, modules, options, compiled }
    }

    pub(crate) fn kind(&self) -> Option<BinaryType> {
        let kinds = [BinaryType::CompiledObject, BinaryType::Library, BinaryType::Executable];
        kinds.into_iter().find(|kind| *kind as u32 == self.kind)
    }

    /// The container's bytes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let body = postcard::to_stdvec(self)?;
        Ok([&MAGIC[..], &checksum(&body).to_le_bytes(), &body].concat())
    }

    /// Reads a container, or the first of several that can be used here; the error says why there is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Contents, &'static str> {
        Contents::decode_for(bytes, spirula_service::processor_level())
    }

    fn decode_for(bytes: &[u8], level: Option<Level>) -> Result<Contents, &'static str> {
        let Some(binaries) = bundle::split(bytes) else { return Contents::decode_one(bytes, level) };
        let mut result = Err("a file of no containers");
        for binary in binaries {
            result = Contents::decode_one(binary, level);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn decode_one(bytes: &[u8], level: Option<Level>) -> Result<Contents, &'static str> {
        let body = bytes.strip_prefix(&MAGIC[..]).ok_or("not a container of this version")?;
        let (sum, body) = body.split_first_chunk::<8>().ok_or("a truncated container")?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return Err("a damaged container");
        }
        let contents: Contents = postcard::from_bytes(body).map_err(|_| "a container that can't be read")?;
        let whole = match contents.kind() {
            Some(BinaryType::Executable) => contents.compiled.is_some(),
            Some(_) => contents.compiled.is_none() && contents.modules.len() == 1,
            None => false,
        };
        // Code for one kernel is no program.
        if !whole || contents.options.specialization.is_some() {
            return Err("a container whose parts contradict each other");
        }
        match runs(&contents.host, level) {
            true => Ok(contents),
            false => Err(
                "built by another version, for another CPU, or under another SPIRULA_CHECK or SPIRULA_DEBUG",
            ),
        }
    }
}

/// Whether these bytes claim to be a container (of any version).
pub(crate) fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC[..7])
}

/// FNV-1a over words of 8 bytes, the rest as single bytes: finds damage, not malice.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x100_0000_01b3);
        mixed ^ mixed >> 32
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(mix(hash, bytes.len() as u64), |hash, &byte| mix(hash, byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirula_interface::options::{Groups, Specialization};

    fn executable() -> Contents {
        let compiled = CompiledProgram {
            objects: vec![vec![1, 2, 3]],
            kernels: Vec::new(),
            data: Default::default(),
            log: "fine".into(),
        };
        let options = CompileOptions { debug: true, ..Default::default() };
        Contents::new(BinaryType::Executable, vec![vec![9; 100]], options, Some(compiled))
    }

    #[test]
    fn containers_come_back() {
        let back = Contents::decode(&executable().encode().unwrap()).unwrap();
        assert!(back.options.debug);
        assert_eq!((back.kind(), back.modules), (Some(BinaryType::Executable), vec![vec![9; 100]]));
        assert_eq!(back.compiled.unwrap().objects, [[1, 2, 3]]);
    }

    /// Clients find binaries again by the device's versions: what we would refuse must go by another.
    #[test]
    fn other_sources_are_another_driver() {
        use crate::platform::Platform;
        assert!(host().starts_with(&format!("{} ", Platform::DRIVER_VERSION)));
        assert!(Platform::DRIVER_VERSION.len() > env!("CARGO_PKG_VERSION").len());
    }

    #[test]
    fn the_first_that_the_processor_can_run_is_taken() {
        let of = |level: Level| Contents {
            host: place(level.name()),
            modules: vec![level.name().into()],
            ..executable()
        };
        let binaries = [Level::V4, Level::V3, Level::V2].map(|level| of(level).encode().unwrap());
        let taken = |level| Contents::decode_for(&bundle::join(&binaries), level).map(|made| made.modules);
        for level in [Level::V2, Level::V3, Level::V4] {
            assert_eq!(taken(Some(level)).unwrap(), [level.name().as_bytes()]);
        }
        assert!(taken(None).unwrap_err().contains("another CPU"));
        assert!(Contents::decode(&bundle::join(&[])).is_err());
        let own = executable().encode().unwrap();
        assert!(Contents::decode_for(&own, None).is_ok());
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_noticed() {
        let good = executable().encode().unwrap();
        for position in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[position / 8] ^= 1 << (position % 8);
            assert!(Contents::decode(&bad).is_err(), "bit {position}");
        }
        assert!((0..good.len()).all(|length| Contents::decode(&good[..length]).is_err()));
    }

    #[test]
    fn foreign_containers_are_refused() {
        assert!(host().starts_with(concat!(env!("CARGO_PKG_VERSION"), "-")));
        let foreign = Contents { host: "another".into(), ..executable() };
        assert!(Contents::decode(&foreign.encode().unwrap()).unwrap_err().contains("another"));
        let alone = Specialization { kernel: "k".into(), groups: Groups::Any, lanes: None };
        let options = CompileOptions { specialization: Some(alone), ..Default::default() };
        assert!(Contents::decode(&Contents { options, ..executable() }.encode().unwrap()).is_err());
        let halved = Contents { compiled: None, ..executable() };
        assert!(Contents::decode(&halved.encode().unwrap()).is_err());
    }
}
