//! Random kernels: a launch's sizes and buffers, and running it.

use crate::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue};
use crate::mutate::Random;
use bytemuck::Pod;

/// Sizes of work-groups in dimension 0: multiples of no, one, or many lanes' number, and neither.
const LOCAL: [usize; 18] = [1, 2, 3, 4, 5, 7, 8, 12, 16, 16, 17, 20, 31, 32, 33, 40, 64, 67];

/// A launch of one to three dimensions.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Dimensions in use.
    pub dimensions: usize,
    /// Per dimension.
    pub local: [usize; 3],
    /// Per dimension.
    pub global: [usize; 3],
    /// Per dimension.
    pub offset: [usize; 3],
    /// The uniform argument.
    pub number: u32,
    seed: u64,
}

/// What a kernel writes, in the order in which [`run`] gives it: a name and bytes for each work-item, of which there are `items`.
const OUTPUTS: [(&str, usize); 3] = [("data", 32), ("bytes", 16), ("floats", 32)];
/// Bytes behind each buffer's part in use, which nobody writes.
const GUARD: usize = 64;

impl Launch {
    /// The launch for the kernel of this seed.
    pub fn new(seed: u64) -> Launch {
        let mut random = Random::new(seed ^ 0x5eed);
        let dimensions = [1, 1, 1, 2, 2, 3][random.below(6)];
        let mut launch = Launch {
            dimensions,
            local: [1; 3],
            global: [1; 3],
            offset: [0; 3],
            number: random.below(40) as u32,
            seed,
        };
        let moved = random.below(3) == 0;
        for d in 0..dimensions {
            launch.local[d] = if d == 0 { LOCAL[random.below(LOCAL.len())] } else { 1 + random.below(3) };
            launch.global[d] = launch.local[d] * (1 + random.below(3));
            launch.offset[d] = if moved { random.below(40) } else { 0 };
        }
        if dimensions > 1 && random.below(3) == 0 {
            // Long rows in another dimension; of these groups some are one item wide.
            launch.local.swap(0, dimensions - 1);
            launch.global.swap(0, dimensions - 1);
        }
        launch
    }

    fn items(&self) -> usize {
        self.global.iter().product()
    }

    /// Where the byte of that number in the result is.
    pub fn place(&self, byte: usize) -> String {
        let mut start = 0;
        for (name, size) in OUTPUTS {
            let end = start + size * self.items();
            if byte < end {
                return format!("{name}, byte {}", byte - start);
            }
            if byte < end + GUARD {
                return format!("{name}, {} bytes behind its end", byte - end);
            }
            start = end + GUARD;
        }
        format!("sums, byte {}", byte - start)
    }
}

/// Runs the kernels of these seeds and gives what each wrote.
pub fn run(binary: &[u8], seeds: &[u64]) -> Result<Vec<Vec<u8>>, String> {
    let device = Device::first();
    let result = || -> crate::cl::Result<Vec<Vec<u8>>> {
        let context = Context::new(device)?;
        let queue = Queue::new(&context, device)?;
        let program = Program::from_binary(&context, device, binary)?;
        if let Err(error) = program.build(crate::cl::SPIR12) {
            eprintln!("{}", program.log(device)?);
            return Err(error);
        }
        seeds.iter().map(|&seed| run_one(&context, &queue, &program, seed)).collect()
    };
    result().map_err(|error| error.to_string())
}

fn run_one(context: &Context, queue: &Queue, program: &Program, seed: u64) -> crate::cl::Result<Vec<u8>> {
    // The last line before a crash.
    eprintln!("kernel {seed}");
    let launch = Launch::new(seed);
    let kernel = Kernel::new(program, &format!("k{seed}"))?;
    let inputs = Inputs::new(&launch);
    let mut outputs = Vec::new();
    let mut size = 0;
    for (index, contents) in [(0, &inputs.data), (1, &inputs.bytes), (2, &inputs.floats), (7, &inputs.sums)] {
        let buffer = Buffer::copy_of(context, contents)?;
        kernel.set_object(index, Some(&buffer))?;
        size += contents.len();
        outputs.push((buffer, contents.len()));
    }
    let (of_integers, of_floats) =
        (Buffer::copy_of(context, &inputs.integers)?, Buffer::copy_of(context, &inputs.constants)?);
    kernel.set_object(3, Some(&of_integers))?;
    kernel.set_object(4, Some(&of_floats))?;
    kernel.set_local(5, 4 * launch.local.iter().product::<usize>())?;
    kernel.set(6, launch.number)?;
    let d = launch.dimensions;
    let range = NdRange {
        global: &launch.global[..d],
        local: Some(&launch.local[..d]),
        offset: Some(&launch.offset[..d]),
    };
    queue.launch(&kernel, range)?;
    let mut written = vec![0u8; size];
    let mut rest = written.as_mut_slice();
    for (buffer, length) in &outputs {
        let (part, after) = rest.split_at_mut(*length);
        queue.read(buffer, part)?;
        rest = after;
    }
    Ok(written)
}

/// What the buffers start with.
struct Inputs {
    data: Vec<u8>,
    bytes: Vec<u8>,
    floats: Vec<u8>,
    sums: Vec<u8>,
    integers: Vec<u32>,
    constants: Vec<f32>,
}

impl Inputs {
    fn new(launch: &Launch) -> Inputs {
        let random = &mut Random::new(launch.seed ^ 0xda7a);
        let items = launch.items();
        let data: Vec<u32> = (0..items * 8).map(|_| integer(random)).collect();
        let bytes: Vec<u64> = (0..items * 2).map(|_| random.bits()).collect();
        let floats: Vec<f32> = (0..items * 8).map(|_| float(random)).collect();
        // By operation: add, or, xor, min, max.
        let sums = [0, 0, 0, u32::MAX, 0].map(|start| [start; 4]).concat();
        Inputs {
            data: guarded(&data),
            bytes: guarded(&bytes),
            floats: guarded(&floats),
            sums: guarded(&sums),
            integers: (0..256).map(|_| integer(random)).collect(),
            constants: (0..16).map(|_| float(random)).collect(),
        }
    }
}

fn guarded<T: Pod>(values: &[T]) -> Vec<u8> {
    let mut bytes = bytemuck::cast_slice(values).to_vec();
    bytes.resize(bytes.len() + GUARD, 0xc3);
    bytes
}

/// Small numbers, extremes, anything.
fn integer(random: &mut Random) -> u32 {
    match random.below(5) {
        0 | 1 => random.below(20) as u32,
        2 => [0, 1, u32::MAX, 1 << 31, i32::MAX as u32, 0x8000, 0xff, 1 << 16][random.below(8)],
        _ => random.bits() as u32,
    }
}

fn float(random: &mut Random) -> f32 {
    match random.below(6) {
        0 => [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NAN, 1e-40, f32::MAX][random.below(8)],
        1 => random.below(100) as f32,
        _ => (random.bits() as i32) as f32 / 65536.0,
    }
}
