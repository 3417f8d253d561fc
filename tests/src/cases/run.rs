//! Runs one case on the device that the loader finds.

use super::schema::{
    Argument, ArgumentKind, Case, Contents, ImageSpec, Init, Launch, OneOrMany, SamplerSpec,
};
use super::value::{Element, Number};
use crate::cl::sys::*;
use crate::cl::{
    Buffer, CL_SRGBA, Context, Device, Error, Image, ImageKind, Kernel, NdRange, Object, Program, Queue,
    Sampler, code_name,
};
use crate::fixtures;
use crate::isolate::{Failure, Outcome};

/// What a program is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A binary: SPIR.
    Spir,
    /// A binary: SPIR of 32 bits, on a device of as many.
    Spir32,
    /// An intermediate language: SPIR-V.
    SpirV,
    /// The same with 32-bit addressing, on a device of as many.
    SpirV32,
    /// A binary: SPIR-V as LLVM IR.
    Friendly,
}

impl Form {
    /// The path of a case's file.
    pub fn path(self, file: &str) -> String {
        match self {
            Form::Spir => format!("{file}.bc64"),
            Form::Spir32 => format!("{file}.bc32"),
            Form::SpirV => format!("spirv/{file}.spv"),
            Form::SpirV32 => format!("spirv/addresses32/{file}.spv"),
            Form::Friendly => format!("spirv/friendly/{file}.bc"),
        }
    }

    /// Options without those that only SPIR takes.
    fn options(self, options: &str) -> String {
        let mut words: Vec<&str> = options.split_whitespace().collect();
        if ![Form::Spir, Form::Spir32].contains(&self) {
            words.retain(|word| !word.starts_with("-spir-std=") && !["-x", "spir"].contains(word));
        }
        words.join(" ")
    }
}

/// Runs the case; what its kernels print goes to standard output, for the caller to compare.
pub fn run(case: &Case, form: Form) -> Outcome {
    let device = Device::first();
    check_requirements(case, device)?;
    let context = Context::new(device)?;
    let session = Session { case, form, device, queue: Queue::new(&context, device)?, context };
    if case.build_fails {
        return match session.build() {
            Ok(_) => Err("the build succeeded; it must fail".into()),
            Err(why) if why.contains(&case.log_contains) => Ok(()),
            Err(why) => Err(format!("the log lacks {:?}: {why}", case.log_contains).into()),
        };
    }
    let _device_queue = case.device_queue.then(|| Queue::on_device(&session.context, device)).transpose()?;
    let program = session.build()?;
    let values = case.args.iter().map(|a| session.value(a)).collect::<Result<Vec<_>, Failure>>()?;
    let single = case.launch.as_ref().map(std::slice::from_ref);
    let launches = case.sequence.as_deref().or(single).unwrap_or_default();
    for _ in 0..case.repeat {
        for launch in launches {
            if !session.launch(&program, launch, &values)? {
                return Ok(());
            }
        }
    }
    session.queue.finish()?;
    for (index, (argument, value)) in case.args.iter().zip(&values).enumerate() {
        session.check(argument, value).map_err(|why| format!("argument {index}: {why}"))?;
    }
    Ok(())
}

/// Skips the case if the device says that it lacks what the case needs.
fn check_requirements(case: &Case, device: Device) -> Outcome {
    let positive = |name| device.info::<u32>(name).unwrap_or(0) > 0;
    const CL_DEVICE_MAX_NUM_SUB_GROUPS: cl_uint = 0x105C;
    for need in &case.requires {
        let has = match need.as_str() {
            "fp16" => device.has_extension("cl_khr_fp16"),
            "int64_atomics" => device.has_extension("cl_khr_int64_base_atomics"),
            "pipes" => positive(CL_DEVICE_PIPE_MAX_PACKET_SIZE),
            "device_enqueue" => positive(CL_DEVICE_MAX_ON_DEVICE_QUEUES),
            "read_write_images" => positive(CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS),
            "subgroups" => positive(CL_DEVICE_MAX_NUM_SUB_GROUPS),
            other => return Err(format!("unknown requirement {other:?}").into()),
        };
        if !has {
            return Err(Failure::Skipped(format!("the device lacks {need}")));
        }
    }
    Ok(())
}

/// An argument as it is passed.
enum Value {
    Bytes(Vec<u8>),
    Local(usize),
    Null,
    Buffer(Buffer),
    /// An image and, for an image of a buffer, that buffer.
    Image(Image, Option<Buffer>),
    Sampler(Sampler),
    Queue(Queue),
}

struct Session<'a> {
    case: &'a Case,
    form: Form,
    device: Device,
    context: Context,
    queue: Queue,
}

impl Session<'_> {
    /// The executable program, or what the build said.
    fn build(&self) -> Result<Program, String> {
        let load = |file: &str| {
            let binary = fixtures::load(&self.form.path(file));
            let program = match self.form {
                Form::Spir | Form::Spir32 | Form::Friendly => {
                    Program::from_binary(&self.context, self.device, &binary)
                }
                Form::SpirV | Form::SpirV32 => Program::from_il(&self.context, &binary),
            };
            program.map_err(|e| e.to_string())
        };
        let explain = |program: &Program, error: Error| {
            format!("{error}: {}", program.log(self.device).unwrap_or_default().trim_end())
        };
        let options = self.form.options(&self.case.options);
        let program = load(&self.case.file)?;
        let Some(others) = &self.case.link else {
            program.build(&options).map_err(|e| explain(&program, e))?;
            return Ok(program);
        };
        let mut parts = vec![program];
        for file in others {
            parts.push(load(file)?);
        }
        for part in &parts {
            part.compile(&options).map_err(|e| explain(part, e))?;
        }
        let parts: Vec<&Program> = parts.iter().collect();
        Program::link(&self.context, &self.case.link_options, &parts).map_err(|e| e.to_string())
    }

    fn value(&self, argument: &Argument) -> Result<Value, Failure> {
        Ok(match &argument.kind {
            ArgumentKind::Buffer(element) => {
                Value::Buffer(Buffer::copy_of(&self.context, &initial(*element, &argument.contents))?)
            }
            ArgumentKind::Scalar(name) => Value::Bytes(scalar(name, argument.value.as_ref())?),
            ArgumentKind::StructHex(hex) => Value::Bytes(from_hex(hex)?),
            ArgumentKind::Null(_) => Value::Null,
            ArgumentKind::Local(bytes) => Value::Local(*bytes),
            ArgumentKind::Sampler(spec) => Value::Sampler(self.sampler(spec)?),
            ArgumentKind::Pipe(spec) => Value::Buffer(Buffer::pipe(&self.context, spec.packet, spec.max)?),
            ArgumentKind::Queue(_) => Value::Queue(Queue::on_device(&self.context, self.device)?),
            ArgumentKind::Image1d(spec) => self.image(ImageKind::D1, spec)?,
            ArgumentKind::Image1dBuffer(spec) => self.image(ImageKind::D1Buffer, spec)?,
            ArgumentKind::Image1dArray(spec) => self.image(ImageKind::D1Array, spec)?,
            ArgumentKind::Image2d(spec) => self.image(ImageKind::D2, spec)?,
            ArgumentKind::Image2dArray(spec) => self.image(ImageKind::D2Array, spec)?,
            ArgumentKind::Image3d(spec) => self.image(ImageKind::D3, spec)?,
        })
    }

    fn sampler(&self, spec: &SamplerSpec) -> Result<Sampler, Failure> {
        let addressing = match spec.address.as_str() {
            "NONE" => CL_ADDRESS_NONE,
            "CLAMP" => CL_ADDRESS_CLAMP,
            "CLAMP_TO_EDGE" => CL_ADDRESS_CLAMP_TO_EDGE,
            "REPEAT" => CL_ADDRESS_REPEAT,
            "MIRRORED_REPEAT" => CL_ADDRESS_MIRRORED_REPEAT,
            other => return Err(format!("unknown addressing mode {other}").into()),
        };
        let filter = match spec.filter.as_str() {
            "NEAREST" => CL_FILTER_NEAREST,
            "LINEAR" => CL_FILTER_LINEAR,
            other => return Err(format!("unknown filter {other}").into()),
        };
        Ok(Sampler::new(&self.context, spec.normalized, addressing, filter)?)
    }

    fn image(&self, kind: ImageKind, spec: &ImageSpec) -> Result<Value, Failure> {
        let (order, channels) = channel_order(&spec.order)?;
        let (data_type, element) = channel_type(&spec.data_type)?;
        let backing = match kind {
            ImageKind::D1Buffer => Some(Buffer::copy_of(&self.context, &initial(element, &spec.contents))?),
            _ => None,
        };
        let size = [spec.width, spec.height, spec.depth];
        let image =
            Image::new(&self.context, kind, (order, data_type), size, spec.array_size, backing.as_ref())?;
        if backing.is_none() {
            let bytes = image.region.iter().product::<usize>() * channels * element.size();
            let mut data = initial(element, &spec.contents);
            if spec.contents.init.is_none() {
                data.resize(bytes, 0);
            }
            if data.len() != bytes {
                return Err(format!("the image's init has {} bytes, it needs {bytes}", data.len()).into());
            }
            self.queue.write_image(&image, &data)?;
        }
        Ok(Value::Image(image, backing))
    }

    /// Launches; `false` if the launch was refused as it had to be.
    fn launch(&self, program: &Program, launch: &Launch, values: &[Value]) -> Result<bool, Failure> {
        let kernel = Kernel::new(program, &launch.kernel)?;
        let all: Vec<usize> = (0..values.len()).collect();
        for (index, &argument) in launch.arguments.as_ref().unwrap_or(&all).iter().enumerate() {
            set(&kernel, index as u32, &values[argument])?;
        }
        let range = NdRange {
            global: &launch.global,
            local: launch.local.as_deref(),
            offset: launch.offset.as_deref(),
        };
        match (self.queue.launch(&kernel, range), &self.case.launch_fails) {
            (Err(e), Some(status)) if code_name(e.code) == format!("CL_{status}") => return Ok(false),
            (Err(e), _) => return Err(e.into()),
            (Ok(_), Some(status)) => return Err(format!("the launch was accepted; {status} expected").into()),
            (Ok(_), None) => {}
        }
        if launch.finish {
            self.queue.finish()?;
        }
        Ok(true)
    }

    fn check(&self, argument: &Argument, value: &Value) -> Result<(), String> {
        let (element, contents) = match &argument.kind {
            ArgumentKind::Buffer(element) => (*element, &argument.contents),
            ArgumentKind::Image1d(spec)
            | ArgumentKind::Image1dBuffer(spec)
            | ArgumentKind::Image1dArray(spec)
            | ArgumentKind::Image2d(spec)
            | ArgumentKind::Image2dArray(spec)
            | ArgumentKind::Image3d(spec) => (channel_type(&spec.data_type)?.1, &spec.contents),
            _ => return Ok(()),
        };
        let Some(expected) = &contents.expect else { return Ok(()) };
        let mut got;
        match value {
            Value::Buffer(buffer) | Value::Image(_, Some(buffer)) => {
                got = vec![0u8; initial(element, contents).len()];
                self.queue.read(buffer, &mut got).map_err(|e| e.to_string())?;
            }
            Value::Image(image, None) => {
                got = vec![0u8; expected.len() * element.size()];
                self.queue.read_image(image, &mut got).map_err(|e| e.to_string())?;
            }
            _ => return Err("nothing to read back".to_string()),
        }
        element.compare(&got, expected, &contents.tolerance)
    }
}

fn set(kernel: &Kernel, index: u32, value: &Value) -> crate::cl::Result<()> {
    let object: &dyn Object = match value {
        Value::Bytes(bytes) => return kernel.set_bytes(index, bytes),
        Value::Local(bytes) => return kernel.set_local(index, *bytes),
        Value::Null => return kernel.set_object(index, None),
        Value::Buffer(buffer) => buffer,
        Value::Image(image, _) => image,
        Value::Sampler(sampler) => sampler,
        Value::Queue(queue) => queue,
    };
    kernel.set_object(index, Some(object))
}

/// A memory object's bytes at first.
fn initial(element: Element, contents: &Contents) -> Vec<u8> {
    match &contents.init {
        None => Vec::new(),
        Some(Init::Zeros(count)) => vec![0; count * element.size()],
        Some(Init::Elements(numbers)) => numbers.iter().flat_map(|n| element.encode(*n)).collect(),
    }
}

/// The bytes of a scalar or vector of a type such as "float" or "int3" (which has the size of "int4").
fn scalar(name: &str, value: Option<&OneOrMany>) -> Result<Vec<u8>, String> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let element = Element::named(base).ok_or_else(|| format!("unknown type {name}"))?;
    let mut numbers = match value {
        Some(OneOrMany::One(number)) => vec![*number],
        Some(OneOrMany::Many(numbers)) => numbers.clone(),
        None => return Err(format!("the {name} has no value")),
    };
    if numbers.len() == 3 {
        numbers.push(Number::Integer(0));
    }
    Ok(numbers.into_iter().flat_map(|n| element.encode(n)).collect())
}

fn from_hex(hex: &str) -> Result<Vec<u8>, String> {
    let byte = |at| hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (0..hex.len())
        .step_by(2)
        .map(|at| byte(at).ok_or_else(|| format!("{hex:?} is not hexadecimal")))
        .collect()
}

/// A channel order and its number of channels.
fn channel_order(name: &str) -> Result<(cl_channel_order, usize), String> {
    Ok(match name {
        "R" => (CL_R, 1),
        "A" => (CL_A, 1),
        "INTENSITY" => (CL_INTENSITY, 1),
        "LUMINANCE" => (CL_LUMINANCE, 1),
        "DEPTH" => (CL_DEPTH, 1),
        "RG" => (CL_RG, 2),
        "RGBA" => (CL_RGBA, 4),
        "BGRA" => (CL_BGRA, 4),
        "sRGBA" => (CL_SRGBA, 4),
        other => return Err(format!("unknown channel order {other}")),
    })
}

/// A channel type and the element that holds it in memory.
fn channel_type(name: &str) -> Result<(cl_channel_type, Element), String> {
    Ok(match name {
        "FLOAT" => (CL_FLOAT, Element::Float),
        "HALF_FLOAT" => (CL_HALF_FLOAT, Element::Half),
        "UNORM_INT8" => (CL_UNORM_INT8, Element::Uchar),
        "SNORM_INT8" => (CL_SNORM_INT8, Element::Char),
        "UNORM_INT16" => (CL_UNORM_INT16, Element::Ushort),
        "SNORM_INT16" => (CL_SNORM_INT16, Element::Short),
        "SIGNED_INT8" => (CL_SIGNED_INT8, Element::Char),
        "SIGNED_INT16" => (CL_SIGNED_INT16, Element::Short),
        "SIGNED_INT32" => (CL_SIGNED_INT32, Element::Int),
        "UNSIGNED_INT8" => (CL_UNSIGNED_INT8, Element::Uchar),
        "UNSIGNED_INT16" => (CL_UNSIGNED_INT16, Element::Ushort),
        "UNSIGNED_INT32" => (CL_UNSIGNED_INT32, Element::Uint),
        other => return Err(format!("unknown channel type {other}")),
    })
}
