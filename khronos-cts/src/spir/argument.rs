//! What to give a kernel for an argument, from the name of its type: the same bytes on every ICD.

/// The numbers of an argument's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `char` to `long`: none is negative, as in Khronos's test. Also `bool` and enumerations, with few values.
    Signed { bytes: usize, most: u64 },
    /// `uchar` to `ulong`, `size_t`.
    Unsigned { bytes: usize },
    /// `half`: any that is not negative, infinities and NaN included.
    Half,
    /// `float`, between -2^24 and 2^24.
    Float,
    /// `double`, between -2^30 and 2^30.
    Double,
}

/// A kernel argument's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Numbers: so many in the value or in an element, in so many bytes.
    Numbers { scalar: Scalar, lanes: usize, size: usize },
    /// A structure of the suite: numbers, then padding.
    Structure { scalar: Scalar, lanes: usize, size: usize },
    /// An image.
    Image { shape: Shape, channels: Channels },
    /// `sampler_t`
    Sampler,
}

/// An image's kind, as in `image2d_array_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    D1,
    D1Buffer,
    D1Array,
    D2,
    D2Array,
    D3,
}

/// What an image's pixels are read as; the suite's type names say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    Signed,
    Unsigned,
    Float,
}

/// A type's name as `CL_KERNEL_ARG_TYPE_NAME` gives it, without a final `*`, and whether it had one. Compilers differ
/// in what else they leave in: qualifiers, `restrict`, blanks.
pub fn parse(name: &str) -> Option<(Type, bool)> {
    let name = name.trim();
    let (base, is_pointer) = match name.split_once('*') {
        Some((base, _)) => (base, true),
        None => (name, false),
    };
    let qualifiers =
        ["const", "volatile", "restrict", "__read_only", "__write_only", "read_only", "write_only"];
    let words: Vec<&str> = base.split_whitespace().filter(|word| !qualifiers.contains(word)).collect();
    Some((named(&words.join(" "))?, is_pointer))
}

fn named(name: &str) -> Option<Type> {
    if let Some(image) = image(name) {
        return Some(image);
    }
    let structure = |scalar, lanes, size| Some(Type::Structure { scalar, lanes, size });
    match name {
        "sampler_t" => return Some(Type::Sampler),
        // The suite's own types: float4 with an int; float4 or uint4; float4; three constants; as it names them.
        "struct struct_type" | "struct_type" | "typedef_struct_type" => {
            return structure(Scalar::Float, 5, 32);
        }
        "union union_type" | "union_type" | "typedef_union_type" | "typedef_type" => {
            return structure(Scalar::Float, 4, 16);
        }
        "image_kernel_data" | "struct __image_kernel_data" => {
            return structure(Scalar::Signed { bytes: 4, most: i32::MAX as u64 }, 5, 20);
        }
        "work_item_data" | "struct __work_item_data" => {
            return structure(Scalar::Signed { bytes: 4, most: 0 }, 19, 76);
        }
        // They differ from test to test; this is the largest, a double16.
        _ if name == "testStruct" || name.starts_with("struct my") => {
            return structure(Scalar::Double, 16, 128);
        }
        _ => {}
    }
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (base, lanes) = match &name[name.len() - digits..] {
        "" => (name, 1),
        lanes @ ("2" | "3" | "4" | "8" | "16") => (&name[..name.len() - digits], lanes.parse().ok()?),
        _ => return None,
    };
    let scalar = scalar(base)?;
    let room = if lanes == 3 { 4 } else { lanes };
    Some(Type::Numbers { scalar, lanes, size: room * scalar.bytes() })
}

fn scalar(name: &str) -> Option<Scalar> {
    let signed = |bytes: usize| Scalar::Signed { bytes, most: (1 << (8 * bytes - 1)) - 1 };
    Some(match name {
        "char" | "signed char" => signed(1),
        "short" => signed(2),
        "int" => signed(4),
        "long" => signed(8),
        "uchar" | "unsigned char" | "void" => Scalar::Unsigned { bytes: 1 },
        "ushort" | "unsigned short" => Scalar::Unsigned { bytes: 2 },
        "uint" | "unsigned int" | "unsigned" => Scalar::Unsigned { bytes: 4 },
        "ulong" | "unsigned long" | "size_t" | "uintptr_t" => Scalar::Unsigned { bytes: 8 },
        "ptrdiff_t" | "intptr_t" => signed(8),
        "bool" => Scalar::Signed { bytes: 1, most: 1 },
        "enum enum_type" | "enum_type" | "typedef_enum_type" => Scalar::Signed { bytes: 4, most: 2 },
        "half" => Scalar::Half,
        "float" => Scalar::Float,
        "double" => Scalar::Double,
        _ => return None,
    })
}

/// `image2d_t`, or as the suite's own `read_only_image2d_uint` says what is read from it.
fn image(name: &str) -> Option<Type> {
    let name = name.trim_start_matches("read_only_").trim_start_matches("write_only_");
    let (shape, channels) = name.strip_prefix("image")?.rsplit_once('_')?;
    let channels = match channels {
        "t" | "int" => Channels::Signed,
        "uint" => Channels::Unsigned,
        "float" => Channels::Float,
        _ => return None,
    };
    let shape = match shape {
        "1d" => Shape::D1,
        "1d_buffer" => Shape::D1Buffer,
        "1d_array" => Shape::D1Array,
        "2d" => Shape::D2,
        "2d_array" => Shape::D2Array,
        "3d" => Shape::D3,
        _ => return None,
    };
    Some(Type::Image { shape, channels })
}

impl Scalar {
    /// Its size.
    pub fn bytes(self) -> usize {
        match self {
            Scalar::Signed { bytes, .. } | Scalar::Unsigned { bytes } => bytes,
            Scalar::Half => 2,
            Scalar::Float => 4,
            Scalar::Double => 8,
        }
    }

    fn write(self, domain: Domain, random: &mut Random, into: &mut Vec<u8>) {
        let n = random.next();
        let between = |limit: f64| ((n >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * limit;
        match self {
            Scalar::Signed { bytes, most } => {
                let value = domain.restrict(n % (most + 1), 8 * bytes - 2);
                into.extend_from_slice(&value.to_le_bytes()[..bytes]);
            }
            Scalar::Unsigned { bytes } => {
                into.extend_from_slice(&domain.restrict(n, 8 * bytes - 1).to_le_bytes()[..bytes]);
            }
            Scalar::Half => into.extend_from_slice(&((n & 0x7fff) as u16).to_le_bytes()),
            Scalar::Float => into.extend_from_slice(&(between(domain.largest_float()) as f32).to_le_bytes()),
            Scalar::Double => into.extend_from_slice(&between(f64::from(1 << 30)).to_le_bytes()),
        }
    }
}

/// Which numbers a function is defined for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// All.
    All,
    /// Those of 24 bits.
    Bits24,
    /// The lower half of them.
    Low,
    /// The upper half of them.
    High,
    /// Up to 2^16, either sign.
    Angle,
}

impl Domain {
    /// Of an argument of a test: `mul24` wants 24 bits, `clamp` bounds in their order, `half_sin` no more than 2^16.
    pub fn of(test: &str, index: u32) -> Domain {
        match index {
            _ if test.contains("mul24") || test.contains("mad24") => Domain::Bits24,
            1 if test.contains("integer_clamp") => Domain::Low,
            2 if test.contains("integer_clamp") => Domain::High,
            _ if ["half_sin", "half_cos", "half_tan"].iter().any(|name| test.contains(name)) => Domain::Angle,
            _ => Domain::All,
        }
    }

    /// A value of this domain, of a number whose highest bit but the sign is `top`.
    fn restrict(self, n: u64, top: usize) -> u64 {
        match self {
            Domain::All | Domain::Angle => n,
            Domain::Bits24 => n & 0x7f_ffff,
            Domain::Low => n & !(1 << top),
            Domain::High => n | 1 << top,
        }
    }

    /// The largest `float` of this domain.
    fn largest_float(self) -> f64 {
        if self == Domain::Angle { f64::from(1 << 16) } else { f64::from(1 << 24) }
    }
}

/// So many bytes of values of this type: of an argument passed by value, or of a buffer of them.
pub fn values(of: Type, bytes: usize, domain: Domain, random: &mut Random) -> Vec<u8> {
    let mut values = Vec::with_capacity(bytes);
    while values.len() < bytes {
        match of {
            Type::Numbers { scalar, .. } => scalar.write(domain, random, &mut values),
            Type::Structure { scalar, lanes, size } => {
                let end = values.len() + size;
                (0..lanes).for_each(|_| scalar.write(Domain::All, random, &mut values));
                values.resize(end, 0);
            }
            Type::Image { .. } | Type::Sampler => values.push((random.next() & 0x7f) as u8),
        }
    }
    values.truncate(bytes);
    values
}

/// Steele, Lea and Flood's SplitMix64: the same numbers everywhere.
pub struct Random(u64);

impl Random {
    /// The numbers that belong to a name.
    pub fn of(name: &str) -> Random {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Random(name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_of_several_compilers() {
        let float4 = Type::Numbers { scalar: Scalar::Float, lanes: 4, size: 16 };
        for name in ["float4*", "float4 *", "const float4*restrict", "float4*  "] {
            assert_eq!(parse(name), Some((float4, true)), "{name}");
        }
        let uint3 = Type::Numbers { scalar: Scalar::Unsigned { bytes: 4 }, lanes: 3, size: 16 };
        assert_eq!(parse("uint3"), Some((uint3, false)));
        let unsigned = Type::Numbers { scalar: Scalar::Unsigned { bytes: 4 }, lanes: 1, size: 4 };
        assert_eq!(parse("unsigned int*"), Some((unsigned, true)));
        assert_eq!(parse("float5"), None);
        assert_eq!(parse("queue_t"), None);
    }

    #[test]
    fn images_say_what_is_read_from_them() {
        let image = |shape, channels| Some((Type::Image { shape, channels }, false));
        assert_eq!(parse("image2d_array_t"), image(Shape::D2Array, Channels::Signed));
        assert_eq!(parse("__read_only image3d_t"), image(Shape::D3, Channels::Signed));
        assert_eq!(parse("write_only_image1d_uint"), image(Shape::D1, Channels::Unsigned));
        assert_eq!(parse("read_only_image1d_array_float"), image(Shape::D1Array, Channels::Float));
    }

    #[test]
    fn values_are_the_same_each_time_and_in_range() {
        let float = Type::Numbers { scalar: Scalar::Float, lanes: 1, size: 4 };
        let make = || values(float, 4096, Domain::All, &mut Random::of("a/b 0"));
        assert_eq!(make(), make());
        assert_ne!(make(), values(float, 4096, Domain::All, &mut Random::of("a/b 1")));
        let floats: Vec<f32> =
            make().chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert!(floats.iter().all(|x| x.abs() <= 16_777_216.0));
        assert!(floats.iter().any(|x| *x < -1e6) && floats.iter().any(|x| *x > 1e6));
        let choice = Type::Numbers { scalar: Scalar::Signed { bytes: 4, most: 2 }, lanes: 1, size: 4 };
        let choices = values(choice, 400, Domain::All, &mut Random::of("x"));
        assert!(choices.chunks(4).all(|c| c[0] < 3 && c[1..] == [0, 0, 0]));
        let structure = Type::Structure { scalar: Scalar::Float, lanes: 5, size: 32 };
        assert_eq!(values(structure, 96, Domain::All, &mut Random::of("y"))[52..64], [0; 12]);
    }

    #[test]
    fn arguments_are_such_that_results_are_defined() {
        let chars = |scalar, test, index| {
            let numbers = Type::Numbers { scalar, lanes: 1, size: scalar.bytes() };
            values(numbers, 400, Domain::of(test, index), &mut Random::of("x"))
        };
        let signed = Scalar::Signed { bytes: 1, most: 127 };
        assert!(chars(signed, "sample_test.integer_clamp_char", 1).iter().all(|n| *n < 64));
        assert!(chars(signed, "sample_test.integer_clamp_char", 2).iter().all(|n| (64..128).contains(n)));
        assert!(chars(Scalar::Unsigned { bytes: 1 }, "x.integer_clamp_uchar", 2).iter().all(|n| *n > 127));
        let ints = chars(Scalar::Signed { bytes: 4, most: i32::MAX as u64 }, "test_int_mul24", 0);
        assert!(ints.chunks(4).all(|n| n[3] == 0 && n[2] < 128));
        let angles = chars(Scalar::Float, "math_kernel3.half_cos_float3", 1);
        let mut angles = angles.chunks_exact(4).map(|n| f32::from_le_bytes([n[0], n[1], n[2], n[3]]));
        assert!(angles.all(|angle| angle.abs() <= 65536.0));
    }
}
