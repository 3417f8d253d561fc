//! Measures what OpenCL C 2.0 adds against what does the same without it: work-group functions against trees in local memory,
//! relaxed atomics against sequentially consistent ones, and how many kernels kernels launch. Every result is checked.
//! `cargo run --release -p spirula-tests --example opencl20`, once `./x build` has run; on a machine that does nothing else.

use spirula_tests::cl::sys::CL_MEM_READ_WRITE;
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue};
use spirula_tests::icd;
use std::error::Error;
use std::time::Instant;

/// How often each kernel runs; the median time is told.
const RUNS: usize = 15;
const ITEMS: usize = 1 << 22;
const LOCAL: usize = 256;

struct Bench {
    device: Device,
    context: Context,
    queue: Queue,
    /// What kernels read, and what they write.
    buffers: [Buffer; 2],
}

type Outcome<T> = Result<T, Box<dyn Error>>;

impl Bench {
    fn kernel(&self, source: &str) -> Outcome<Kernel> {
        let program = Program::from_source(&self.context, source)?;
        program
            .build("-cl-std=CL2.0")
            .map_err(|error| format!("{error}: {}", program.log(self.device).unwrap_or_default()))?;
        let kernel = Kernel::new(&program, "k")?;
        self.buffers
            .iter()
            .zip(0..)
            .try_for_each(|(buffer, index)| kernel.set_object(index, Some(buffer)))?;
        Ok(kernel)
    }

    /// Seconds, and what the kernel leaves in the second buffer.
    fn run(&self, source: &str, items: usize, local: usize) -> Outcome<(f64, Vec<i32>)> {
        let kernel = self.kernel(source)?;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            self.queue.write(&self.buffers[1], &vec![0_i32; ITEMS])?;
            let start = Instant::now();
            self.queue.launch(&kernel, NdRange::new(&[items], &[local]))?.wait()?;
            times.push(start.elapsed().as_secs_f64());
        }
        let mut written = vec![0; ITEMS];
        self.queue.read(&self.buffers[1], &mut written)?;
        times.sort_by(f64::total_cmp);
        Ok((times[RUNS / 2], written))
    }

    /// Tells how two kernels compare that do the same.
    fn compare(&self, names: [&str; 2], sources: [String; 2]) -> Outcome<()> {
        let [one, other] = sources.map(|source| self.run(&source, ITEMS, LOCAL));
        let ((one, result), (other, expected)) = (one?, other?);
        if result != expected {
            return Err(format!("{} and {} differ", names[0], names[1]).into());
        }
        let per_item = |seconds: f64| seconds * 1e9 / ITEMS as f64;
        println!(
            "{:28} {:7.3} ns for each work-item; {:28} {:7.3} ns; ratio {:.2}",
            names[0],
            per_item(one),
            names[1],
            per_item(other),
            one / other
        );
        Ok(())
    }

    /// Tells how many kernels a second a kernel launches.
    fn launches(&self, name: &str, source: &str, items: usize, children: i32) -> Outcome<()> {
        let (seconds, written) = self.run(source, items, 1.max(items.min(50)))?;
        if written[..2] != [children, 0] {
            return Err(format!("{name}: {:?} children and errors", &written[..2]).into());
        }
        println!("{name:28} {:9.0} kernels a second", f64::from(children) / seconds);
        Ok(())
    }
}

/// What one work-item of many does.
fn each(statements: &str) -> String {
    format!(
        "kernel void k(global int *in, global int *out) {{
            int i = get_global_id(0), l = get_local_id(0); {statements}
        }}"
    )
}

const TREE: &str = "local int t[256]; t[l] = in[i]; barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = 128; n > 0; n /= 2) { if (l < n) t[l] += t[l + n]; barrier(CLK_LOCAL_MEM_FENCE); }
    if (l == 0) out[get_group_id(0)] = t[0];";

const STEPS: &str = "local int t[2][256]; int at = 0; t[0][l] = in[i]; barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = 1; n < 256; n *= 2) {
        t[1 - at][l] = t[at][l] + (l >= n ? t[at][l - n] : 0); at = 1 - at; barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[i] = t[at][l];";

const WIDE: &str = "kernel void k(global int *in, global int *out) {
    int e = enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), ^{ atomic_inc(out); });
    if (e) atomic_inc(out + 1);
}";

const CHAIN: &str = "void step(global int *out, int left);
void step(global int *out, int left) {
    ++out[0];
    if (left && enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{ step(out, left - 1); }))
        ++out[1];
}
kernel void k(global int *in, global int *out) { step(out, 99999); }";

fn main() -> Outcome<()> {
    let _selected = icd::select()?;
    let device = Device::first();
    let context = Context::new(device)?;
    let input: Vec<i32> = (0..ITEMS as i32).map(|i| i.wrapping_mul(7919) % 1000).collect();
    let buffers = [Buffer::copy_of(&context, &input)?, Buffer::new(&context, CL_MEM_READ_WRITE, 4 * ITEMS)?];
    let bench = Bench { device, queue: Queue::new(&context, device)?, context, buffers };
    let reduce = each("int all = work_group_reduce_add(in[i]); if (l == 0) out[get_group_id(0)] = all;");
    bench.compare(["work_group_reduce_add", "tree in local memory"], [reduce, each(TREE)])?;
    let scan = each("out[i] = work_group_scan_inclusive_add(in[i]);");
    bench.compare(["work_group_scan_inclusive_add", "steps in local memory"], [scan, each(STEPS)])?;
    for (name, operation) in [
        ("atomic_store", "atomic_store_explicit(p, in[i], ORDER, memory_scope_device);"),
        ("atomic_load", "out[i] = in[i] + atomic_load_explicit(p, ORDER, memory_scope_device);"),
        ("atomic_fetch_add", "atomic_fetch_add_explicit(p, in[i], ORDER, memory_scope_device);"),
        (
            "fence",
            "out[i] = in[i]; atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, ORDER, memory_scope_device);",
        ),
    ] {
        let source = |order: &str| {
            let operation = operation.replace("ORDER", order);
            each(&format!("global atomic_int *p = (global atomic_int *)out + i; {operation}"))
        };
        let names = [format!("{name}, relaxed"), format!("{name}, seq_cst")];
        let sources = [source("memory_order_relaxed"), source("memory_order_seq_cst")];
        bench.compare([&names[0], &names[1]], sources)?;
    }
    let _on_device = Queue::on_device(&bench.context, device)?;
    bench.launches("100,000 children of one", WIDE, 100_000, 100_000)?;
    bench.launches("a chain of 100,000", CHAIN, 1, 100_000)
}
