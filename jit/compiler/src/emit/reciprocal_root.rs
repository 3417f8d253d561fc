//! Emission: the primitive `spirula.reciprocal_root`, an approximation of 1/sqrt(x) that builtins make better. Where the
//! processor has one (AVX-512: 14 bits, denormals too), it is that; elsewhere the quotient itself.

use super::instruction::RegionText;
use super::types::llvm_type;
use super::work_group::Writer;
use spirula_kir::Value;

/// What the primitive is called in Kernel IR, before the type.
pub(super) const PRIMITIVE: &str = "llvm.spirula.reciprocal_root";

/// Lanes of one approximation.
const LANES: u32 = 16;
const APPROXIMATION: &str = "<16 x float> @llvm.x86.avx512.rsqrt14.ps.512";

impl RegionText<'_> {
    /// Writes the primitive of a float or a vector of them.
    pub(super) fn reciprocal_root(&self, name: &str, x: Value, out: &mut Writer) {
        if self.approximates {
            self.approximate(name, x, out);
            return;
        }
        let ty = llvm_type(self.body.ty(x));
        let (suffix, one) = match self.lanes(x) {
            Some(lanes) => (format!("v{lanes}f32"), "splat (float 1.0)"),
            None => ("f32".to_owned(), "1.0"),
        };
        out.declare(format!("declare {ty} @llvm.sqrt.{suffix}({ty})"));
        out.line(&format!("{name}.s = call {ty} @llvm.sqrt.{suffix}({})", self.typed(x)));
        out.line(&format!("{name} = fdiv {ty} {one}, {name}.s"));
    }

    /// In registers of 16 lanes.
    fn approximate(&self, name: &str, x: Value, out: &mut Writer) {
        out.declare(format!("declare {APPROXIMATION}(<16 x float>, <16 x float>, i16)"));
        let Some(lanes) = self.lanes(x) else {
            out.line(&format!(
                "{name}.v = insertelement <16 x float> zeroinitializer, {}, i32 0",
                self.typed(x)
            ));
            register(&format!("{name}.a"), &format!("{name}.v"), out);
            out.line(&format!("{name} = extractelement <16 x float> {name}.a, i32 0"));
            return;
        };
        let vector = self.typed(x);
        let registers = lanes.div_ceil(LANES);
        for r in 0..registers {
            let of = |i: u32| Some(r * LANES + i).filter(|&lane| lane < lanes);
            cut(&format!("{name}.v{r}"), &vector, (0..LANES).map(of), out);
            register(&format!("{name}.a{r}"), &format!("{name}.v{r}"), out);
        }
        // Joined one by one; with a single register, only cut to size.
        let mut whole = format!("<{LANES} x float> {name}.a0");
        for r in 1..registers {
            let (before, all) = (r * LANES, (r + 1) * LANES);
            let part = format!("{name}.w{r}");
            let widen = (0..before).map(|i| Some(i).filter(|&i| i < LANES));
            cut(&part, &format!("<{LANES} x float> {name}.a{r}"), widen, out);
            let order: Vec<String> = (0..all).map(|i| format!("i32 {i}")).collect();
            let order = order.join(", ");
            out.line(&format!(
                "{name}.j{r} = shufflevector {whole}, <{before} x float> {part}, <{all} x i32> <{order}>"
            ));
            whole = format!("<{all} x float> {name}.j{r}");
        }
        cut(name, &whole, (0..lanes).map(Some), out);
    }
}

/// The lanes that are asked for, or anything.
fn cut(name: &str, vector: &str, lanes: impl Iterator<Item = Option<u32>>, out: &mut Writer) {
    let mask: Vec<String> =
        lanes.map(|lane| lane.map_or("i32 poison".to_owned(), |lane| format!("i32 {lane}"))).collect();
    let ty = vector.rsplit_once(' ').map_or(vector, |(ty, _)| ty);
    out.line(&format!(
        "{name} = shufflevector {vector}, {ty} poison, <{} x i32> <{}>",
        mask.len(),
        mask.join(", ")
    ));
}

fn register(name: &str, x: &str, out: &mut Writer) {
    out.line(&format!(
        "{name} = call {APPROXIMATION}(<16 x float> {x}, <16 x float> zeroinitializer, i16 -1)"
    ));
}
