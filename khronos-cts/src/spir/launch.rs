//! Runs every kernel of a program once, with arguments made from what the kernel says about them, and keeps what is in
//! its buffers and images afterwards.

use super::argument::{self, Channels, Domain, Random, Shape, Type};
use crate::suite::Entry;
use crate::worker::{Bench, Form};
use serde::{Deserialize, Serialize};
use spirula_tests::cl::{Buffer, Device, Image, ImageKind, Kernel, NdRange, Result, SPIR12, Sampler, sys};
use std::path::Path;

/// Work-items of a launch, in groups of [`GROUP`], unless the kernel asks for a size of its own.
const ITEMS: usize = 32;
/// See [`ITEMS`].
const GROUP: usize = 8;
/// Elements in a buffer for each work-item if they are scalars, since kernels may take several of those.
const SCALARS_FOR_EACH: usize = 16;
/// An image's width, height where it has one, and depth or layers where it has these.
const IMAGE: [usize; 3] = [32, 32, 8];
/// Bytes of a pixel: four channels of 32 bits.
const PIXEL: usize = 16;

/// What a program's kernels left behind.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// By name.
    pub kernels: Vec<KernelOutcome>,
    /// What they printed, if it was caught.
    pub printed: String,
}

/// What one kernel left behind.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelOutcome {
    /// Its name.
    pub kernel: String,
    /// The names of its arguments' types.
    pub types: Vec<String>,
    /// Its buffers and images.
    pub memory: Vec<Memory>,
}

/// A buffer or image.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The argument's index.
    pub index: u32,
    /// How wide its floating-point numbers are; 0 if it has none.
    pub float_bytes: usize,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl Outcome {
    /// Writes a file for [`Outcome::read`].
    pub fn write(&self, path: &Path) -> std::result::Result<(), String> {
        let bytes = serde_json::to_vec(self).map_err(|e| e.to_string())?;
        std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// From a file that a worker wrote.
    pub fn read(path: &Path) -> std::result::Result<Outcome, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// What the device lacks for a test apart from `khr.csv`: a compiler for source, and correctly rounded division when the
/// test is about it.
pub fn lacking(entry: &Entry, form: Form, device: Device) -> Option<String> {
    let compiles = device.info::<u32>(sys::CL_DEVICE_COMPILER_AVAILABLE).is_ok_and(|n| n != 0);
    if form == Form::Source && !compiles {
        return Some("an OpenCL C compiler".to_string());
    }
    let rounded = device
        .info::<u64>(sys::CL_DEVICE_SINGLE_FP_CONFIG)
        .is_ok_and(|config| config & sys::CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0);
    (wants_correct_rounding(entry) && !rounded).then(|| "CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT".to_string())
}

fn wants_correct_rounding(entry: &Entry) -> bool {
    ["div_cr", "sqrt_cr"].iter().any(|name| entry.test().contains(name))
}

/// Builds the program and runs its kernels. The arguments' types are those of `like` where it has the kernel: the
/// binaries name what images hold, the sources do not.
pub fn run(
    bench: &mut Bench,
    entry: &Entry,
    form: Form,
    like: &Outcome,
) -> std::result::Result<Outcome, String> {
    let program = bench.program(entry, form)?;
    let mut options = "-cl-kernel-arg-info".to_string();
    if form == Form::Spir {
        options = format!("{SPIR12} {options}");
    }
    if wants_correct_rounding(entry) {
        options += " -cl-fp32-correctly-rounded-divide-sqrt";
    }
    program.build(&options).map_err(|error| bench.explain(&program, error))?;
    let mut outcome = Outcome::default();
    for kernel in program.kernels().map_err(|e| e.to_string())? {
        let name = kernel.info_string(sys::CL_KERNEL_FUNCTION_NAME).map_err(|e| e.to_string())?;
        let known = like.kernels.iter().find(|k| k.kernel == name).map(|k| k.types.clone());
        let attempt = || -> std::result::Result<_, String> {
            let types = known.map_or_else(|| type_names(&kernel).map_err(|e| e.to_string()), Ok)?;
            let memory = run_kernel(bench, &kernel, &types, entry)?;
            Ok(KernelOutcome { kernel: name.clone(), types, memory })
        };
        outcome.kernels.push(attempt().map_err(|why| format!("kernel {name}: {why}"))?);
    }
    outcome.kernels.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Ok(outcome)
}

fn type_names(kernel: &Kernel) -> Result<Vec<String>> {
    let count: u32 = kernel.info(sys::CL_KERNEL_NUM_ARGS)?;
    (0..count).map(|index| kernel.arg_info_string(index, sys::CL_KERNEL_ARG_TYPE_NAME)).collect()
}

/// Runs one kernel with arguments of these types, always the same for a test.
fn run_kernel(
    bench: &Bench,
    kernel: &Kernel,
    types: &[String],
    entry: &Entry,
) -> std::result::Result<Vec<Memory>, String> {
    let range = Range::of(kernel, bench.device).map_err(|e| e.to_string())?;
    let mut arguments = Vec::new();
    let local = local_budget(bench, kernel, types.len() as u64).map_err(|e| e.to_string())?;
    for (index, name) in (0..).zip(types) {
        let parsed = argument::parse(name);
        let (of, is_pointer) =
            parsed.ok_or_else(|| format!("argument {index} has the unknown type {name:?}"))?;
        let mut random = Random::of(&format!("{} {index}", entry.name()));
        let domain = Domain::of(entry.test(), index);
        let place = Place { index, of, is_pointer, domain, items: range.items(), local };
        arguments.push(place.set(bench, kernel, &mut random).map_err(|e| format!("argument {index}: {e}"))?);
    }
    range.launch(bench, kernel).map_err(|e| e.to_string())?;
    arguments
        .iter()
        .filter_map(|a| a.read(bench).transpose())
        .collect::<Result<_>>()
        .map_err(|e| e.to_string())
}

/// A launch's sizes.
struct Range {
    global: Vec<usize>,
    local: Vec<usize>,
}

impl Range {
    fn of(kernel: &Kernel, device: Device) -> Result<Range> {
        let required: [usize; 3] = kernel.work_group_info(device, sys::CL_KERNEL_COMPILE_WORK_GROUP_SIZE)?;
        Ok(match required {
            [0, ..] => Range { global: vec![ITEMS], local: vec![GROUP] },
            sizes => Range { global: sizes.to_vec(), local: sizes.to_vec() },
        })
    }

    fn items(&self) -> usize {
        self.global.iter().product()
    }

    fn launch(&self, bench: &Bench, kernel: &Kernel) -> Result<()> {
        bench.queue.launch(kernel, NdRange::new(&self.global, &self.local))?.wait()?;
        bench.queue.finish()
    }
}

/// Bytes that each `local` argument may have.
fn local_budget(bench: &Bench, kernel: &Kernel, count: u64) -> Result<usize> {
    let has: u64 = bench.device.info(sys::CL_DEVICE_LOCAL_MEM_SIZE)?;
    let used: u64 = kernel.work_group_info(bench.device, sys::CL_KERNEL_LOCAL_MEM_SIZE)?;
    Ok((has.saturating_sub(used) / count.max(1)) as usize)
}

/// Where a value is to go, and how much of it is wanted.
struct Place {
    index: u32,
    of: Type,
    is_pointer: bool,
    domain: Domain,
    items: usize,
    local: usize,
}

/// What was set, kept alive for the launch.
enum Argument {
    Value,
    Sampler(#[expect(dead_code, reason = "keeps it alive")] Sampler),
    Buffer { index: u32, float_bytes: usize, buffer: Buffer, size: usize },
    Image { index: u32, image: Image, size: usize },
}

impl Place {
    fn set(&self, bench: &Bench, kernel: &Kernel, random: &mut Random) -> Result<Argument> {
        match self.of {
            Type::Sampler => {
                let sampler =
                    Sampler::new(&bench.context, false, sys::CL_ADDRESS_NONE, sys::CL_FILTER_NEAREST)?;
                kernel.set_object(self.index, Some(&sampler))?;
                Ok(Argument::Sampler(sampler))
            }
            Type::Image { shape, channels } => self.set_image(bench, kernel, shape, channels, random),
            Type::Numbers { size, .. } | Type::Structure { size, .. } if !self.is_pointer => {
                kernel.set_bytes(self.index, &argument::values(self.of, size, self.domain, random))?;
                Ok(Argument::Value)
            }
            Type::Numbers { .. } | Type::Structure { .. } => self.set_memory(bench, kernel, random),
        }
    }

    fn set_memory(&self, bench: &Bench, kernel: &Kernel, random: &mut Random) -> Result<Argument> {
        let (element, float_bytes) = match self.of {
            Type::Numbers { scalar, lanes: 1, size } => (size * SCALARS_FOR_EACH, float_bytes(scalar)),
            Type::Numbers { scalar, size, .. } => (size, float_bytes(scalar)),
            Type::Structure { size, .. } => (size, 0),
            Type::Image { .. } | Type::Sampler => unreachable!("these are set elsewhere"),
        };
        let size = self.items * element;
        let space: u32 = kernel.arg_info(self.index, sys::CL_KERNEL_ARG_ADDRESS_QUALIFIER)?;
        if space == sys::CL_KERNEL_ARG_ADDRESS_LOCAL {
            kernel.set_local(self.index, size.min(self.local))?;
            return Ok(Argument::Value);
        }
        let buffer = Buffer::copy_of(&bench.context, &argument::values(self.of, size, self.domain, random))?;
        kernel.set_object(self.index, Some(&buffer))?;
        Ok(Argument::Buffer { index: self.index, float_bytes, buffer, size })
    }

    fn set_image(
        &self,
        bench: &Bench,
        kernel: &Kernel,
        shape: Shape,
        channels: Channels,
        random: &mut Random,
    ) -> Result<Argument> {
        let format = (
            sys::CL_RGBA,
            match channels {
                Channels::Signed => sys::CL_SIGNED_INT32,
                Channels::Unsigned => sys::CL_UNSIGNED_INT32,
                Channels::Float => sys::CL_FLOAT,
            },
        );
        let image = new_image(bench, shape, format)?;
        let size = image.region.iter().product::<usize>() * PIXEL;
        bench.queue.write_image(&image, &argument::values(self.of, size, self.domain, random))?;
        kernel.set_object(self.index, Some(&image))?;
        Ok(Argument::Image { index: self.index, image, size })
    }
}

/// An image of this shape in the runner's own size.
pub fn new_image(
    bench: &Bench,
    shape: Shape,
    format: (sys::cl_channel_order, sys::cl_channel_type),
) -> Result<Image> {
    let kind = match shape {
        Shape::D1 => ImageKind::D1,
        Shape::D1Buffer => ImageKind::D1Buffer,
        Shape::D1Array => ImageKind::D1Array,
        Shape::D2 => ImageKind::D2,
        Shape::D2Array => ImageKind::D2Array,
        Shape::D3 => ImageKind::D3,
    };
    let storage = (shape == Shape::D1Buffer)
        .then(|| Buffer::new(&bench.context, sys::CL_MEM_READ_WRITE, IMAGE[0] * PIXEL))
        .transpose()?;
    Image::new(&bench.context, kind, format, IMAGE, IMAGE[2], storage.as_ref())
}

fn float_bytes(scalar: argument::Scalar) -> usize {
    match scalar {
        argument::Scalar::Half | argument::Scalar::Float | argument::Scalar::Double => scalar.bytes(),
        argument::Scalar::Signed { .. } | argument::Scalar::Unsigned { .. } => 0,
    }
}

impl Argument {
    fn read(&self, bench: &Bench) -> Result<Option<Memory>> {
        Ok(match self {
            Argument::Value | Argument::Sampler(_) => None,
            Argument::Buffer { index, float_bytes, buffer, size } => {
                let mut bytes = vec![0u8; *size];
                bench.queue.read(buffer, &mut bytes)?;
                Some(Memory { index: *index, float_bytes: *float_bytes, bytes })
            }
            Argument::Image { index, image, size } => {
                let mut bytes = vec![0u8; *size];
                bench.queue.read_image(image, &mut bytes)?;
                Some(Memory { index: *index, float_bytes: 0, bytes })
            }
        })
    }
}
