//! The LLVM back end: types and constants.

use spirula_kir::{Constant, Scalar, Type};

/// A type; all pointers are `ptr`.
pub(super) fn llvm_type(ty: &Type) -> String {
    match ty {
        Type::Scalar(s) => scalar(*s),
        Type::Vector(s, n) => format!("<{n} x {}>", scalar(*s)),
        Type::Array(element, n) => format!("[{n} x {}]", llvm_type(element)),
        Type::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(llvm_type).collect();
            format!("{{ {} }}", fields.join(", "))
        }
    }
}

fn scalar(scalar: Scalar) -> String {
    match scalar {
        Scalar::Int(bits) => format!("i{bits}"),
        Scalar::Half => "half".into(),
        Scalar::Float => "float".into(),
        Scalar::Double => "double".into(),
        Scalar::Pointer(_) => "ptr".into(),
    }
}

/// A type as it stands in intrinsics' names: `v4f32`.
pub(super) fn suffix(ty: &Type) -> String {
    let name = match ty.scalar() {
        Some(Scalar::Int(bits)) => format!("i{bits}"),
        Some(Scalar::Half) => "f16".into(),
        Some(Scalar::Float) => "f32".into(),
        Some(Scalar::Double) => "f64".into(),
        Some(Scalar::Pointer(_)) => "p0".into(),
        None => unreachable!("no intrinsic is named after a structure"),
    };
    if let Type::Vector(_, n) = ty { format!("v{n}{name}") } else { name }
}

/// A constant without its type.
pub(super) fn llvm_constant(ty: &Type, constant: &Constant) -> String {
    match constant {
        Constant::Int(bits) => bits.to_string(),
        Constant::Float(bits) => float(ty.scalar(), *bits),
        Constant::Zero => zero(ty).into(),
        Constant::Undef => "undef".into(),
        Constant::Poison => "poison".into(),
        Constant::Elements(elements) => {
            let list: Vec<String> =
                elements.iter().map(|(t, c)| format!("{} {}", llvm_type(t), llvm_constant(t, c))).collect();
            let list = list.join(", ");
            match ty {
                Type::Vector(..) => format!("<{list}>"),
                Type::Array(..) => format!("[{list}]"),
                _ => format!("{{ {list} }}"),
            }
        }
    }
}

fn zero(ty: &Type) -> &'static str {
    match ty {
        Type::Scalar(Scalar::Pointer(_)) => "null",
        Type::Scalar(Scalar::Int(_)) => "0",
        Type::Scalar(_) => "0.0",
        _ => "zeroinitializer",
    }
}

/// LLVM writes a float in the double's format, bit by bit.
fn float(scalar: Option<Scalar>, bits: u64) -> String {
    match scalar {
        Some(Scalar::Half) => format!("0xH{bits:04X}"),
        Some(Scalar::Float) => format!("0x{:016X}", widen(bits as u32)),
        _ => format!("0x{bits:016X}"),
    }
}

/// A float's bits as the double of the same value; a NaN keeps its payload and stays signalling.
fn widen(bits: u32) -> u64 {
    let value = f32::from_bits(bits);
    if value.is_nan() {
        let sign = u64::from(bits >> 31) << 63;
        return sign | 0x7ff0_0000_0000_0000 | (u64::from(bits & 0x7f_ffff) << 29);
    }
    f64::from(value).to_bits()
}
