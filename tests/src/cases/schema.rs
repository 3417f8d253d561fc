//! The form of `cases.json`.

use super::value::{Element, Number};
use serde::Deserialize;
use std::fs;

/// A case: what to build, with what to launch it, and what must come of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Unique.
    pub name: String,
    /// The binary's path without its extension, such as "spir12/vadd".
    pub file: String,
    /// Build options.
    pub options: String,
    /// The only launch, unless there is a sequence.
    #[serde(flatten)]
    pub launch: Option<Launch>,
    /// Several launches.
    pub sequence: Option<Vec<Launch>>,
    /// The kernels' arguments.
    pub args: Vec<Argument>,
    /// How often to run the launch or the sequence.
    #[serde(default = "one")]
    pub repeat: usize,
    /// Further modules to link with.
    pub link: Option<Vec<String>>,
    /// clLinkProgram's options.
    #[serde(default)]
    pub link_options: String,
    /// Whether an on-device default queue must exist.
    #[serde(default)]
    pub device_queue: bool,
    /// What printf must have printed.
    pub stdout: Option<String>,
    /// Whether the build must fail.
    #[serde(default)]
    pub build_fails: bool,
    /// What the log must say then.
    #[serde(default)]
    pub log_contains: String,
    /// The status (without CL_) with which the launch must be refused.
    pub launch_fails: Option<String>,
    /// What a device may lack.
    #[serde(default)]
    pub requires: Vec<String>,
}

/// A launch of a kernel.
#[derive(Clone, Debug, Deserialize)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: String,
    /// Global size.
    pub global: Vec<usize>,
    /// Local size.
    pub local: Option<Vec<usize>>,
    /// Global offset.
    pub offset: Option<Vec<usize>>,
    /// Indices into the case's arguments; all in order if absent.
    #[serde(rename = "use")]
    pub arguments: Option<Vec<usize>>,
    /// Whether to wait before the next launch.
    #[serde(default)]
    pub finish: bool,
}

/// A kernel's argument. For buffers the contents stand beside the type, for images within it.
#[derive(Clone, Debug, Deserialize)]
pub struct Argument {
    /// What it is.
    #[serde(flatten)]
    pub kind: ArgumentKind,
    /// A buffer's contents.
    #[serde(flatten)]
    pub contents: Contents,
    /// A scalar's or vector's value.
    pub value: Option<OneOrMany>,
}

/// The kinds of arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ArgumentKind {
    Buffer(Element),
    Scalar(String),
    StructHex(String),
    Local(usize),
    Image1d(ImageSpec),
    Image1dBuffer(ImageSpec),
    Image1dArray(ImageSpec),
    Image2d(ImageSpec),
    Image2dArray(ImageSpec),
    Image3d(ImageSpec),
    Sampler(SamplerSpec),
    Pipe(PipeSpec),
    Queue(bool),
    Null(bool),
}

/// What a memory object starts with, and what it must hold in the end.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Contents {
    /// The elements at first.
    pub init: Option<Init>,
    /// The elements at last, if they are to be checked.
    pub expect: Option<Vec<Option<Number>>>,
    /// How elements are compared.
    #[serde(flatten)]
    pub tolerance: Tolerance,
}

/// How far an element may be from the expected one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Tolerance {
    /// Units in the last place.
    pub ulp: f64,
    /// Absolute error.
    pub abs: f64,
    /// Whether the order does not matter.
    pub sorted: bool,
    /// Whether 0.0 and -0.0 differ.
    pub signed_zero: bool,
}

/// Elements, or a number of zeros.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Init {
    Zeros(usize),
    Elements(Vec<Number>),
}

/// A scalar or a vector.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum OneOrMany {
    One(Number),
    Many(Vec<Number>),
}

/// An image.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ImageSpec {
    pub order: String,
    #[serde(rename = "type")]
    pub data_type: String,
    pub width: usize,
    #[serde(default = "one")]
    pub height: usize,
    #[serde(default = "one")]
    pub depth: usize,
    #[serde(default = "one")]
    pub array_size: usize,
    #[serde(flatten)]
    pub contents: Contents,
}

/// A sampler.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct SamplerSpec {
    pub normalized: bool,
    pub address: String,
    pub filter: String,
}

/// A pipe.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct PipeSpec {
    pub packet: u32,
    pub max: u32,
}

fn one() -> usize {
    1
}

/// All cases. Panics if the file is damaged.
pub fn load() -> Vec<Case> {
    let path = crate::fixtures::folder().join("cases.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cases_can_be_read() {
        let cases = load();
        assert!(cases.len() > 400);
        for case in &cases {
            let launches = case.sequence.as_ref().map_or(usize::from(case.launch.is_some()), Vec::len);
            assert!(launches > 0 || case.build_fails, "{} launches nothing", case.name);
        }
        let images = |a: &Argument| matches!(&a.kind, ArgumentKind::Image2d(s) if s.contents.init.is_some());
        assert!(cases.iter().flat_map(|c| &c.args).any(images));
        assert!(cases.iter().flat_map(|c| &c.args).any(|a| a.contents.tolerance.ulp > 0.0));
    }
}
