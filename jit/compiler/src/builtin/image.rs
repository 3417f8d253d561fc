//! Builtins: image functions (6.12.14). The library reads and writes; here its arguments are made of the kernel's.

use super::emit::{Emitter, Ir, Lane, Value};
use super::table::{FIXED, Rows, nothing};

const INT: Ir = Ir::scalar(Lane::Int(32));
const POINTER: Ir = Ir::scalar(Lane::Pointer(0));

/// An image type: its name, the number by which the library knows the kind, the suffix of its coordinates' type,
/// whether it can be sampled (a buffer can't), has a width, height, depth and layers, and what its texels are.
struct Kind {
    name: &'static str,
    number: i128,
    coordinates: u8,
    sampled: bool,
    has: &'static [&'static str],
    colours: &'static [Colour],
}

const fn kind(
    name: &'static str,
    number: i128,
    coordinates: u8,
    sampled: bool,
    has: &'static [&'static str],
    colours: &'static [Colour],
) -> Kind {
    Kind { name, number, coordinates, sampled, has, colours }
}

const KINDS: [Kind; 8] = [
    kind("image1d", 1, 1, true, &["width"], &COLOURS),
    kind("image1dbuffer", 1, 1, false, &["width"], &COLOURS),
    kind("image1darray", 0x11, 2, true, &["width", "array_size"], &COLOURS),
    kind("image2d", 2, 2, true, &["width", "height"], &COLOURS),
    kind("image2ddepth", 2, 2, true, &["width", "height"], &DEPTHS),
    kind("image2darray", 0x12, 4, true, &["width", "height", "array_size"], &COLOURS),
    kind("image2darraydepth", 0x12, 4, true, &["width", "height", "array_size"], &DEPTHS),
    kind("image3d", 3, 4, true, &["width", "height", "depth"], &COLOURS),
];

/// What functions with this ending read and write: so many of the first of the library's four components.
#[derive(Clone, Copy)]
struct Colour {
    ending: &'static str,
    ty: &'static str,
    ir: Ir,
}

const fn colour(ending: &'static str, ty: &'static str, lane: Lane, width: u8) -> Colour {
    Colour { ending, ty, ir: Ir { lane, width } }
}

impl Colour {
    /// The ending of the library's functions. It knows no halves.
    fn library(self) -> &'static str {
        if self.ending == "h" { "f" } else { self.ending }
    }
}

const COLOURS: [Colour; 4] = [
    colour("h", "half4", Lane::Half, 4),
    colour("f", "float4", Lane::Float, 4),
    colour("i", "int4", Lane::Int(32), 4),
    colour("ui", "uint4", Lane::Int(32), 4),
];

/// A depth, as red.
const DEPTHS: [Colour; 1] = [colour("f", "float", Lane::Float, 1)];

/// A field of `ImageDescriptor`: name, offset, type.
type Field = (&'static str, i128, Ir);
const FIELDS: [Field; 6] = [
    ("width", 8, INT),
    ("height", 12, INT),
    ("depth", 16, INT),
    ("array_size", 20, INT),
    ("channel_order", 40, INT),
    ("channel_type", 44, INT),
];

/// CLK_FILTER_NEAREST: how images are read without a sampler.
const NEAREST: i128 = 0x10;

/// OpenCL's name of a vector of this width.
fn vector(element: &str, width: u8) -> String {
    if width == 1 { element.to_string() } else { format!("{element}{width}") }
}

pub fn rows(rows: &mut Rows) {
    for image in &KINDS {
        image.colours.iter().for_each(|&colour| accesses(rows, image, colour));
        queries(rows, image);
    }
}

fn accesses(rows: &mut Rows, image: &'static Kind, colour: Colour) {
    let Kind { name, number, coordinates, .. } = *image;
    let Colour { ending, ty: texel, ir } = colour;
    let library = colour.library();
    let (read, write) = (format!("read_image{ending}"), format!("write_image{ending}"));
    let integers = vector("int", coordinates);
    rows.expand(&read, FIXED, format!("{texel}(@{name},{integers})"), move |e, call| {
        let sampler = e.int(INT, NEAREST);
        let function = format!("spirula_read_image{library}_int");
        fetch(e, &function, ir, number, [&call.arguments[0], &sampler, &call.arguments[1]])
    });
    for (ty, suffix) in [("int", "int"), ("float", "float")] {
        if !image.sampled {
            continue;
        }
        let place = vector(ty, coordinates);
        rows.expand(&read, FIXED, format!("{texel}(@{name},@sampler,{place})"), move |e, call| {
            let [image, sampler, place] = call.arguments else { unreachable!("reads have three parameters") };
            let function = format!("spirula_read_image{library}_{suffix}");
            fetch(e, &function, ir, number, [image, sampler, place])
        });
    }
    rows.expand(&write, FIXED, format!("void(@{name},{integers},{texel})"), move |e, call| {
        let [image, place, colour] = call.arguments else { unreachable!("writes have three parameters") };
        let mut arguments = vec![descriptor(e, image), e.int(INT, number)];
        arguments.extend(three(e, place));
        let colour = e.half_to_float(colour);
        arguments.extend(components(e, &colour));
        let function = format!("spirula_write_image{library}");
        e.call(&function, Ir::scalar(Lane::Void), &arguments, "nounwind willreturn")
    });
}

/// The image's descriptor as the library takes it.
pub(super) fn descriptor(e: &mut Emitter, image: &Value) -> Value {
    match image.ir.lane {
        Lane::Pointer(0) => image.clone(),
        _ => e.value(POINTER, &format!("addrspacecast {image} to ptr")),
    }
}

/// A colour's four components; zeros where a depth has none.
fn components(e: &mut Emitter, colour: &Value) -> [Value; 4] {
    [0, 1, 2, 3].map(|index| match index < colour.ir.width {
        true => e.extract(colour, index),
        false => e.float(Ir::scalar(Lane::Float), 0.0),
    })
}

/// Three coordinates; zeros where there are less.
fn three(e: &mut Emitter, place: &Value) -> [Value; 3] {
    [0, 1, 2].map(|index| match index < place.ir.width {
        true => e.extract(place, index),
        false if place.ir.lane == Lane::Float => e.float(Ir::scalar(Lane::Float), 0.0),
        false => e.int(INT, 0),
    })
}

fn fetch(
    e: &mut Emitter,
    function: &str,
    texel: Ir,
    kind: i128,
    [image, sampler, place]: [&Value; 3],
) -> Value {
    let stored = if texel.lane == Lane::Half { texel.with(Lane::Float) } else { texel };
    let colour = Ir { width: 4, ..stored };
    let memory = e.value(POINTER, &format!("alloca {colour}, align 16"));
    let mut arguments = vec![descriptor(e, image), sampler.clone(), e.int(INT, kind)];
    arguments.extend(three(e, place));
    arguments.push(memory.clone());
    e.call(function, Ir::scalar(Lane::Void), &arguments, "nounwind willreturn");
    let read = e.load(stored, &memory, 16);
    e.cast("fptrunc", &read, texel.lane)
}

fn queries(rows: &mut Rows, image: &'static Kind) {
    let pattern = |result: &str| format!("{result}(@{})", image.name);
    for &field in image.has {
        let result = if field == "array_size" { "size_t" } else { "int" };
        rows.expand(&format!("get_image_{field}"), FIXED, pattern(result), move |e, call| {
            let value = query(e, &call.arguments[0], field);
            e.cast("zext", &value, call.result.lane)
        });
    }
    for (name, field) in [("channel_data_type", "channel_type"), ("channel_order", "channel_order")] {
        rows.expand(&format!("get_image_{name}"), FIXED, pattern("int"), move |e, call| {
            query(e, &call.arguments[0], field)
        });
    }
    let dimensions = match image.name {
        "image3d" => 4,
        name if name.starts_with("image2d") => 2,
        _ => return,
    };
    rows.expand("get_image_dim", FIXED, pattern(&vector("int", dimensions)), move |e, call| {
        let mut lanes: Vec<Value> =
            ["width", "height"].map(|field| query(e, &call.arguments[0], field)).to_vec();
        if dimensions == 4 {
            lanes.push(query(e, &call.arguments[0], "depth"));
            lanes.push(e.int(INT, 0));
        }
        e.gather(&lanes)
    });
}

fn query(e: &mut Emitter, image: &Value, field: &str) -> Value {
    let Some(&(_, offset, ir)) = FIELDS.iter().find(|f| f.0 == field) else { return nothing() };
    let offset = e.int(Ir::scalar(Lane::Int(64)), offset);
    let image = descriptor(e, image);
    let address = e.element(&image, Lane::Int(8), &offset);
    e.load(ir, &address, 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirula_interface::ImageDescriptor;
    use std::mem::offset_of;

    #[test]
    fn fields_are_where_the_descriptor_has_them() {
        let offsets = [
            offset_of!(ImageDescriptor, width),
            offset_of!(ImageDescriptor, height),
            offset_of!(ImageDescriptor, depth),
            offset_of!(ImageDescriptor, array_size),
            offset_of!(ImageDescriptor, channel_order),
            offset_of!(ImageDescriptor, channel_type),
        ];
        assert_eq!(FIELDS.map(|f| f.1 as usize), offsets);
    }
}
