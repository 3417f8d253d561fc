//! Images. A sampled image is a pair, which inlining takes apart. Coordinates and texels are widened to what OpenCL C takes.

use super::super::emit::{Emitter, Lane, Value};
use super::super::types::Type;
use super::{Argument, Call, INT, Ir, LONG, SAMPLED_IMAGE, by_number, forward, number, opaque, resized};

/// CL_SNORM_INT8 and CL_R: SPIR-V numbers data types and orders from these on.
const FIRST_TYPE: i128 = 0x10D0;
const FIRST_ORDER: i128 = 0x10B0;

/// Data types of signed integers, as SPIR-V numbers them.
const SIGNED_TYPES: [i128; 3] = [7, 8, 9];

/// What an image type's name says: `Image__void_1_0_1_0_0_0_0` has the numbers dimension, depth, arrayed and so on.
struct Shape {
    dimension: u32,
    is_depth: bool,
    is_array: bool,
}

impl Shape {
    fn of(ty: &Type) -> Option<Shape> {
        // Translators have images as pointers to what is called so.
        let ty = if let Type::Pointer(_, pointee) = ty { pointee } else { ty };
        let Type::Named(name) = ty else { return None };
        let name = name.strip_prefix("__spirv_").unwrap_or(name);
        let postfix = name.strip_prefix("SampledImage__").or_else(|| name.strip_prefix("Image__"))?;
        let numbers: Vec<u32> =
            postfix.split('_').skip(1).map(|number| number.parse().ok()).collect::<Option<_>>()?;
        match numbers[..] {
            [dimension, depth, arrayed, ..] => {
                Some(Shape { dimension, is_depth: depth == 1, is_array: arrayed == 1 })
            }
            _ => None,
        }
    }

    /// OpenCL C's type, as mangled.
    fn opaque(&self) -> Option<Type> {
        let name = match (self.dimension, self.is_array) {
            (0, false) => "image1d",
            (0, true) => "image1darray",
            (1, false) => "image2d",
            (1, true) => "image2darray",
            (2, false) => "image3d",
            (5, false) => "image1dbuffer",
            _ => return None,
        };
        Some(opaque(&format!("ocl_{name}{}", if self.is_depth { "depth" } else { "" })))
    }

    /// How many coordinates OpenCL C's functions take.
    fn coordinates(&self) -> u8 {
        match (self.dimension, self.is_array) {
            (0, true) | (1, false) => 2,
            (1 | 2, _) => 4,
            _ => 1,
        }
    }

    /// The queries whose answers are the components of the size.
    fn sizes(&self) -> Vec<&'static str> {
        let sides = match self.dimension {
            1 => &["width", "height"][..],
            2 => &["width", "height", "depth"],
            _ => &["width"],
        };
        let layers = if self.is_array { &["array_size"][..] } else { &[] };
        [sides, layers].concat()
    }
}

pub fn call(e: &mut Emitter, call: &Call) -> Option<Value> {
    let [first, rest @ ..] = call.arguments else { return None };
    match (call.op, rest) {
        ("SampledImage", [sampler]) => {
            let sampler = match sampler.value.ir.lane {
                Lane::Pointer(_) => e.cast("ptrtoint", &sampler.value, INT.lane),
                _ => sampler.value.clone(),
            };
            Some(join(e, &first.value, &sampler, call.result))
        }
        ("ImageSampleExplicitLod", [place, ..]) => {
            let (image, sampler) = part(e, &first.value);
            let sampler = (opaque("ocl_sampler"), sampler);
            read(e, &Shape::of(&first.ty)?, image, Some(sampler), place, call.ir()?)
        }
        ("ImageRead" | "ImageFetch", [place, ..]) => {
            read(e, &Shape::of(&first.ty)?, first.value.clone(), None, place, call.ir()?)
        }
        ("ImageWrite", [place, texel, ..]) => write(e, first, place, &texel.value),
        ("ImageQuerySize" | "ImageQuerySizeLod", _) => sizes(e, first, call.ir()?),
        ("ImageQueryFormat" | "ImageQueryOrder", []) => {
            let image = (Shape::of(&first.ty)?.opaque()?, first.value.clone());
            let (name, base) = match call.op {
                "ImageQueryFormat" => ("data_type", FIRST_TYPE),
                _ => ("order", FIRST_ORDER),
            };
            let value = forward(e, &format!("get_image_channel_{name}"), INT, &[image]);
            let base = e.int(INT, base);
            Some(e.binary("sub", &value, &base))
        }
        _ => None,
    }
}

/// Where a sampler's bits are beside an image's address, which has fewer, where a sampled image is a pointer.
const SAMPLER_SHIFT: i128 = 48;

/// A sampled image: a pair, or a pointer if the result is one.
fn join(e: &mut Emitter, image: &Value, sampler: &Value, result: Option<Ir>) -> Value {
    let Some(pointer) = result else {
        let first = e.value(super::VOID, &format!("insertvalue {SAMPLED_IMAGE} poison, {image}, 0"));
        return e.value(super::VOID, &format!("insertvalue {SAMPLED_IMAGE} {}, {sampler}, 1", first.text));
    };
    let address = e.value(LONG, &format!("ptrtoint {image} to i64"));
    let bits = resized(e, sampler, LONG.lane);
    let shift = e.int(LONG, SAMPLER_SHIFT);
    let bits = e.binary("shl", &bits, &shift);
    let both = e.binary("or", &address, &bits);
    e.value(pointer, &format!("inttoptr {both} to {pointer}"))
}

/// A sampled image's image and sampler.
fn part(e: &mut Emitter, both: &Value) -> (Value, Value) {
    let global = Ir::scalar(Lane::Pointer(1));
    if !matches!(both.ir.lane, Lane::Pointer(_)) {
        let pair = format!("{SAMPLED_IMAGE} {}", both.text);
        return (
            e.value(global, &format!("extractvalue {pair}, 0")),
            e.value(INT, &format!("extractvalue {pair}, 1")),
        );
    }
    let bits = e.value(LONG, &format!("ptrtoint {both} to i64"));
    let (shift, mask) = (e.int(LONG, SAMPLER_SHIFT), e.int(LONG, (1 << SAMPLER_SHIFT) - 1));
    let address = e.binary("and", &bits, &mask);
    let sampler = e.binary("lshr", &bits, &shift);
    (e.value(global, &format!("inttoptr {address} to {global}")), resized(e, &sampler, INT.lane))
}

/// Coordinates as OpenCL C has them: of three components it takes four.
fn coordinates(e: &mut Emitter, shape: &Shape, place: &Value) -> Option<(Type, Value)> {
    let lanes: Vec<Value> = (0..shape.coordinates())
        .map(|index| match index < place.ir.width {
            true => {
                let lane = e.extract(place, index);
                if lane.ir.lane == Lane::Int(64) { resized(e, &lane, INT.lane) } else { lane }
            }
            false if matches!(place.ir.lane, Lane::Int(_)) => e.int(INT, 0),
            false => e.float(Ir::scalar(place.ir.lane), 0.0),
        })
        .collect();
    let all = e.gather(&lanes);
    Some((number(all.ir, true)?, all))
}

/// The ending of the functions for texels of this lane. Whether integers are signed only the image's data type says.
fn by_lane(
    e: &mut Emitter,
    image: &(Type, Value),
    lane: Lane,
    mut write: impl FnMut(&mut Emitter, &str, bool) -> Option<Value>,
) -> Option<Value> {
    match lane {
        Lane::Float => write(e, "f", true),
        Lane::Half => write(e, "h", true),
        Lane::Int(32) => {
            let ty = forward(e, "get_image_channel_data_type", INT, std::slice::from_ref(image));
            let signed = SIGNED_TYPES.map(|number| number + FIRST_TYPE);
            by_number(e, &ty, &signed, |e, way| match way < SIGNED_TYPES.len() {
                true => write(e, "i", true),
                false => write(e, "ui", false),
            })
        }
        _ => None,
    }
}

fn read(
    e: &mut Emitter,
    shape: &Shape,
    image: Value,
    sampler: Option<(Type, Value)>,
    place: &Argument,
    result: Ir,
) -> Option<Value> {
    let image = (shape.opaque()?, image);
    let place = coordinates(e, shape, &place.value)?;
    // A depth is one float for OpenCL C, and may be the first of four for SPIR-V.
    let texel = Ir { lane: result.lane, width: if shape.is_depth { 1 } else { 4 } };
    let colour = by_lane(e, &image.clone(), result.lane, |e, ending, _| {
        let arguments: Vec<(Type, Value)> =
            [Some(image.clone()), sampler.clone(), Some(place.clone())].into_iter().flatten().collect();
        Some(forward(e, &format!("read_image{ending}"), texel, &arguments))
    })?;
    if colour.ir == result {
        return Some(colour);
    }
    let lanes: Vec<Value> = (0..result.width)
        .map(|index| match index < texel.width {
            true => e.extract(&colour, index),
            false => e.float(Ir::scalar(result.lane), 0.0),
        })
        .collect();
    Some(e.gather(&lanes))
}

fn write(e: &mut Emitter, image: &Argument, place: &Argument, texel: &Value) -> Option<Value> {
    let shape = Shape::of(&image.ty)?;
    let image = (shape.opaque()?, image.value.clone());
    let place = coordinates(e, &shape, &place.value)?;
    let wanted = if shape.is_depth { 1 } else { 4 };
    let texel = match texel.ir.width == wanted {
        true => texel.clone(),
        false => {
            let lanes: Vec<Value> = (0..wanted)
                .map(|index| match index < texel.ir.width {
                    true => e.extract(texel, index),
                    false if matches!(texel.ir.lane, Lane::Int(_)) => e.int(Ir::scalar(texel.ir.lane), 0),
                    false => e.float(Ir::scalar(texel.ir.lane), 0.0),
                })
                .collect();
            e.gather(&lanes)
        }
    };
    by_lane(e, &image.clone(), texel.ir.lane, |e, ending, signed| {
        let texel = (number(texel.ir, signed)?, texel.clone());
        let arguments = [image.clone(), place.clone(), texel];
        Some(forward(e, &format!("write_image{ending}"), super::VOID, &arguments))
    })
}

fn sizes(e: &mut Emitter, image: &Argument, result: Ir) -> Option<Value> {
    let shape = Shape::of(&image.ty)?;
    let image = (shape.opaque()?, image.value.clone());
    let scalar = Ir::scalar(result.lane);
    let mut lanes: Vec<Value> = shape
        .sizes()
        .into_iter()
        .map(|what| {
            let ir = if what == "array_size" { LONG } else { INT };
            let size = forward(e, &format!("get_image_{what}"), ir, std::slice::from_ref(&image));
            resized(e, &size, result.lane)
        })
        .collect();
    lanes.resize_with(usize::from(result.width), || e.int(scalar, 0));
    Some(e.gather(&lanes))
}
