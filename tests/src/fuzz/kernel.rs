//! Random kernels: the frame around the statements.

use super::launch::Launch;
use super::types::{Base, Ty};
use crate::mutate::Random;
use std::collections::HashSet;
use std::fmt::Write;

/// Statements to leave out, by number: what is left is a kernel as well.
pub type Omitted = HashSet<usize>;

/// A variable of the kernel.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub name: String,
    pub ty: Ty,
}

/// A private array, of a power of two of elements.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub name: String,
    pub ty: Ty,
    pub length: usize,
}

/// What surrounds a statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    pub depth: usize,
    /// All work-items of the group come here together, and must go on together.
    pub together: bool,
    /// Inside of a loop through which the group goes together: nobody may leave it alone.
    pub bound: bool,
    /// Inside of a loop, for break and continue; their conditions must be uniform if `bound`.
    pub in_loop: bool,
    /// Inside of a switch within the loop: a break would leave that.
    pub in_switch: bool,
}

/// Writes one kernel.
pub(super) struct Writer<'a> {
    pub random: Random,
    pub omitted: &'a Omitted,
    /// Statements so far.
    pub statements: usize,
    /// Names so far.
    pub names: usize,
    pub variables: Vec<Variable>,
    /// uint variables that are the same for the group wherever it is together.
    pub uniform: Vec<String>,
    pub arrays: Vec<Array>,
    /// Some work-item may have returned: no more barriers.
    pub parted: bool,
    pub with_math: bool,
    pub has_struct: bool,
    /// Loop counters in scope, of type uint; true for those of loops run together.
    pub counters: Vec<(String, bool)>,
    /// Within a loop that the group goes through together: nobody may leave that by a goto or return.
    pub bound_outside: bool,
    /// Labels behind loops around this place.
    pub labels: Vec<String>,
}

/// The kernel of this seed as OpenCL C, and how many statements it has.
pub fn kernel(seed: u64, omitted: &Omitted) -> (String, usize) {
    let mut random = Random::new(seed);
    let with_math = random.below(8) == 0;
    let mut writer = Writer {
        random,
        omitted,
        statements: 0,
        names: 0,
        variables: Vec::new(),
        uniform: vec!["number".into(), "g0".into()],
        arrays: Vec::new(),
        parted: false,
        with_math,
        has_struct: false,
        counters: Vec::new(),
        labels: Vec::new(),
        bound_outside: false,
    };
    let text = writer.whole(seed);
    (text, writer.statements)
}

/// A work-item's own elements: of so many arrays of 8 uints each, by the number of the element.
const PLACES: [&str; 5] = [
    "(item * 8u + (j))",
    "((j) * items + item)",
    "((j) * items + (items - 1u - item))",
    "((items - 1u - item) * 8u + (j))",
    "(item * 8u + ((j) ^ (item & 7u)))",
];

impl Writer<'_> {
    fn whole(&mut self, seed: u64) -> String {
        let place = PLACES[self.below(PLACES.len())];
        let mut text = format!("#undef POS\n#define POS(j) {place}\n");
        let dimension = self.below(8);
        // Neighbours in memory are neighbours in the first dimension, or in the last.
        let item = match self.once_in(3) {
            true => "(gx * get_global_size(1) + gy) * get_global_size(2) + gz",
            false => "(gz * get_global_size(1) + gy) * get_global_size(0) + gx",
        };
        if self.once_in(3) {
            let [x, y, z] = Launch::new(seed).local;
            let _ = writeln!(text, "__attribute__((reqd_work_group_size({x}, {y}, {z})))");
        }
        let _ = write!(
            text,
            "kernel void k{seed}(global uint *data, global uchar *bytes, global float *floats, global const uint *in,\n    \
             constant float *cf, local uint *loc, uint number, global uint *sums) {{\n  \
             size_t gx = get_global_id(0) - get_global_offset(0), gy = get_global_id(1) - get_global_offset(1), gz = get_global_id(2) - get_global_offset(2);\n  \
             uint item = (uint)({item});\n  \
             uint items = (uint)(get_global_size(0) * get_global_size(1) * get_global_size(2));\n  \
             uint lid = (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));\n  \
             uint lsize = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));\n  \
             uint g0 = (uint)get_group_id({});\n  local uint shared[16];\n",
            dimension % 3
        );
        self.declare_variables(&mut text);
        self.declare_arrays(&mut text);
        // Local memory holds something before its first use.
        text += "  loc[lid] = data[POS(0)]; if (lid == 0) for (int i = 0; i < 16; i++) shared[i] = i * 3u;\n";
        text += "  barrier(CLK_LOCAL_MEM_FENCE);\n";
        let around =
            Surroundings { depth: 3, together: true, bound: false, in_loop: false, in_switch: false };
        let body = self.statements(4, around, 1);
        text += &body;
        self.fold(&mut text);
        text + "}\n"
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.random.below(from.len())]
    }

    pub fn new_name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn declare_variables(&mut self, text: &mut String) {
        *text += "  uint u1 = number * 3u + g0, u2 = in[number & 255u], u3 = (uint)get_num_groups(0);\n";
        self.uniform.extend(["u1", "u2", "u3"].map(String::from));
        let starts = ["lid", "item", "data[POS(1)]", "in[item & 255u]", "data[POS(2)] & 15u", "7u"];
        for i in 0..3 + self.below(5) {
            let ty = if i < 2 { Ty::UINT } else { Ty::any_scalar(&mut self.random) };
            let start = *self.pick(&starts);
            let start = if ty.base == Base::Float && self.once_in(2) { "floats[POS(0)]" } else { start };
            let name = format!("v{i}");
            let _ = writeln!(text, "  {} {name} = ({})({start});", ty.name(), ty.name());
            self.variables.push(Variable { name, ty });
        }
        for i in 0..self.below(3) {
            let ty = Ty::any_vector(&mut self.random);
            let name = format!("w{i}");
            let start = *self.pick(&starts);
            let _ = writeln!(text, "  {0} {name} = ({0})(({1})({start}));", ty.name(), ty.base.name());
            self.variables.push(Variable { name, ty });
        }
    }

    fn declare_arrays(&mut self, text: &mut String) {
        for i in 0..self.below(3) {
            let mut ty = Ty::any_scalar(&mut self.random);
            if self.once_in(6) {
                ty = Ty { lanes: 4, ..ty };
            }
            let length = 1 << (1 + self.below(4));
            let name = format!("a{i}");
            let _ = writeln!(
                text,
                "  {0} {name}[{length}]; for (int i = 0; i < {length}; i++) {name}[i] = ({0})(({1})(i * 5 + lid));",
                ty.name(),
                ty.base.name()
            );
            self.arrays.push(Array { name, ty, length });
        }
        if self.once_in(4) {
            self.has_struct = true;
            *text += "  struct { uchar b; uint n; float f; ushort s[4]; } st[2]; st[0].b = 1; st[0].n = lid; st[0].f = 0.5f;\n  \
                      for (int i = 0; i < 4; i++) st[0].s[i] = i + lid; st[1] = st[0]; st[1].n = 9;\n";
        }
    }

    /// Everything that was computed goes into the work-item's elements.
    fn fold(&mut self, text: &mut String) {
        *text += "  uint h = 1u;\n";
        for u in self.uniform.clone() {
            let _ = writeln!(text, "  h = mix_in(h, {u});");
        }
        for v in self.variables.clone() {
            for bits in bits_of(&v.name, v.ty) {
                let _ = writeln!(text, "  h = mix_in(h, {bits});");
            }
        }
        for a in self.arrays.clone() {
            let element = bits_of(&format!("{}[i]", a.name), a.ty);
            let element = element.iter().map(|bits| format!("h = mix_in(h, {bits});")).collect::<String>();
            let _ = writeln!(text, "  for (int i = 0; i < {}; i++) {{ {element} }}", a.length);
        }
        if self.has_struct {
            *text += "  for (int i = 0; i < 2; i++) { h = mix_in(h, st[i].b + st[i].s[i + 1]); h = mix_in(h, st[i].n); h = mix_in(h, fbits(st[i].f)); }\n";
        }
        *text += "  data[POS(3)] = h;\n";
        for v in self.variables.clone().iter().filter(|v| v.ty == Ty::scalar(Base::Float)).take(1) {
            let _ = writeln!(text, "  floats[POS(1)] = as_float(fbits({}));", v.name);
        }
    }
}

/// A value as uints that say all of it that is certain.
pub(super) fn bits_of(name: &str, ty: Ty) -> Vec<String> {
    let parts: Vec<String> = match ty.lanes {
        1 => vec![name.to_string()],
        n => (0..n).map(|i| format!("{name}.s{i:x}")).collect(),
    };
    let bits = |part: String| match ty.base {
        Base::Float => vec![format!("fbits({part})")],
        Base::Double => vec![format!("(uint)(dbits({part}) ^ (dbits({part}) >> 32))")],
        Base::ULong | Base::Long => vec![format!("(uint){part}"), format!("(uint)((ulong){part} >> 32)")],
        _ => vec![format!("(uint){part}")],
    };
    parts.into_iter().flat_map(bits).collect()
}
