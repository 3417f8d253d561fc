//! Builtins, step 1: mangled names to names and types, and back. An exact reader of the part of the Itanium scheme
//! that OpenCL C needs, in the spellings of SPIR 1.2 (`PKU3AS1f`), SPIR 2.0 (`PVU3AS4U7_Atomici`) and today's
//! clang (`PU3AS1Kf`, `14ocl_image2d_ro`), which differ in the order of qualifiers and the names of opaque types.

use super::types::{Element, Qualifiers, Type};

/// A function's name and its parameters' types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The name in the source.
    pub name: String,
    /// The types; `f(void)` has none.
    pub parameters: Vec<Type>,
}

/// The order in which a pointee's qualifiers are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// `VKU3AS1`: the SPIR 1.2 and 2.0 generators.
    Spir,
    /// `U3AS1VK`: clang since 3.9.
    Clang,
}

/// What a substitution may stand for: qualifiers belong to the pointee, as clang has it.
type Qualified = (Qualifiers, Type);

/// Reads a mangled function name; None if it is none.
pub fn parse(symbol: &str) -> Option<Signature> {
    read(symbol, Spelling::Spir).or_else(|| read(symbol, Spelling::Clang))
}

/// Reads a name; what is in the wrong order is accepted, but substitutions count as in this spelling.
fn read(symbol: &str, spelling: Spelling) -> Option<Signature> {
    let mut parser = Parser { rest: symbol.strip_prefix("_Z")?, seen: Vec::new(), spelling };
    let name = parser.source_name()?.to_string();
    let mut parameters = Vec::new();
    while !parser.rest.is_empty() {
        parameters.push(parser.qualified()?.1);
    }
    match parameters[..] {
        [] => None,
        [Type::Void] => Some(Signature { name, parameters: Vec::new() }),
        _ => Some(Signature { name, parameters }),
    }
}

/// Writes a mangled name.
pub fn mangle(signature: &Signature, spelling: Spelling) -> String {
    let mut writer =
        Writer { out: format!("_Z{}{}", signature.name.len(), signature.name), seen: Vec::new(), spelling };
    if signature.parameters.is_empty() {
        writer.out.push('v');
    }
    for parameter in &signature.parameters {
        writer.write(&(Qualifiers::default(), parameter.clone()));
    }
    writer.out
}

/// Whether a later mention of a type is a substitution. A compiler's own types are never substituted; today's clang,
/// which says how an image is accessed (`14ocl_image2d_ro`), doesn't count opaque types among them.
fn is_substitutable((qualifiers, ty): &Qualified, seen: &[Qualified]) -> bool {
    let is_opaque = |ty: &Type| matches!(ty, Type::Named(name) if name.starts_with("ocl_"));
    if *qualifiers != Qualifiers::default() {
        return true;
    }
    match ty {
        Type::Void | Type::Variadic | Type::Value(_, 1) => false,
        Type::Named(name) if is_opaque(ty) => {
            let says_access = ["_ro", "_wo", "_rw"].iter().any(|suffix| name.ends_with(suffix));
            says_access || seen.iter().any(|(_, ty)| is_opaque(ty))
        }
        _ => true,
    }
}

/// Today's clang has the private address space as a qualifier that is written as nothing, so that such a pointee may be
/// substituted with and without it.
fn is_counted_twice(qualifiers: Qualifiers, spelling: Spelling) -> bool {
    spelling == Spelling::Clang && qualifiers == Qualifiers::default()
}

struct Parser<'a> {
    rest: &'a str,
    seen: Vec<Qualified>,
    spelling: Spelling,
}

impl<'a> Parser<'a> {
    fn take(&mut self, prefix: &str) -> bool {
        let stripped = self.rest.strip_prefix(prefix);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    fn number(&mut self) -> Option<usize> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits.parse().ok()
    }

    fn source_name(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        if length == 0 || !self.rest.is_char_boundary(length) {
            return None;
        }
        let (name, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(name)
    }

    /// `S_` is the first, `S0_` the second and so on, in base 36.
    fn substitution(&mut self) -> Option<Qualified> {
        let (digits, rest) = self.rest.split_once('_')?;
        self.rest = rest;
        let index =
            if digits.is_empty() { 0 } else { usize::from_str_radix(digits, 36).ok()?.checked_add(1)? };
        self.seen.get(index).cloned()
    }

    fn qualified(&mut self) -> Option<Qualified> {
        if self.take("S") {
            return self.substitution();
        }
        let qualifiers = self.qualifiers()?;
        if qualifiers == Qualifiers::default() {
            let result = (qualifiers, self.unqualified()?);
            self.remember(&result);
            return Some(result);
        }
        let ty = if self.take("S") {
            let (inner, ty) = self.substitution()?;
            (inner == Qualifiers::default()).then_some(ty)?
        } else {
            let ty = self.unqualified()?;
            self.remember(&(Qualifiers::default(), ty.clone()));
            ty
        };
        let result = (qualifiers, ty);
        self.remember(&result);
        Some(result)
    }

    fn remember(&mut self, what: &Qualified) {
        if is_substitutable(what, &self.seen) {
            self.seen.push(what.clone());
        }
    }

    fn qualifiers(&mut self) -> Option<Qualifiers> {
        let mut found = Qualifiers::default();
        loop {
            if self.take("V") {
                found.volatile = true;
            } else if self.take("K") {
                found.constant = true;
            } else if self.take("r") {
                // `restrict` has no meaning for an overload.
            } else if self.rest.starts_with('U') && !self.rest.starts_with("U7_Atomic") {
                self.take("U");
                found.space = self.source_name()?.strip_prefix("AS")?.parse().ok()?;
            } else {
                return Some(found);
            }
        }
    }

    fn unqualified(&mut self) -> Option<Type> {
        if self.take("P") {
            let (qualifiers, pointee) = self.qualified()?;
            if is_counted_twice(qualifiers, self.spelling) {
                self.seen.push((qualifiers, pointee.clone()));
            }
            return Some(Type::Pointer(qualifiers, Box::new(pointee)));
        }
        if self.take("U7_Atomic") {
            return Some(Type::Atomic(Box::new(self.qualified()?.1)));
        }
        if self.take("Dv") {
            let width = u8::try_from(self.number()?).ok()?;
            let element = self.take("_").then(|| self.element())??;
            return Some(Type::Value(element, width));
        }
        if self.take("v") {
            return Some(Type::Void);
        }
        if self.take("z") {
            return Some(Type::Variadic);
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(Type::Named(self.source_name()?.to_string()));
        }
        self.element().map(Type::scalar)
    }

    fn element(&mut self) -> Option<Element> {
        let element = Element::parse(self.rest)?;
        let length = if self.rest.starts_with(element.code()) { element.code().len() } else { 1 };
        self.rest = &self.rest[length..];
        Some(element)
    }
}

struct Writer {
    out: String,
    seen: Vec<Qualified>,
    spelling: Spelling,
}

impl Writer {
    fn write(&mut self, what: &Qualified) {
        if let Some(index) = self.seen.iter().position(|seen| seen == what) {
            self.out += &match index {
                0 => "S_".to_string(),
                _ => format!("S{}_", base36(index - 1)),
            };
            return;
        }
        let (qualifiers, ty) = what;
        if *qualifiers != Qualifiers::default() {
            self.qualifiers(*qualifiers);
            self.write(&(Qualifiers::default(), ty.clone()));
        } else {
            self.unqualified(ty);
        }
        if is_substitutable(what, &self.seen) {
            self.seen.push(what.clone());
        }
    }

    fn qualifiers(&mut self, qualifiers: Qualifiers) {
        let space = if qualifiers.space > 0 { format!("U3AS{}", qualifiers.space) } else { String::new() };
        let volatile = if qualifiers.volatile { "V" } else { "" };
        let constant = if qualifiers.constant { "K" } else { "" };
        self.out += &match self.spelling {
            Spelling::Spir => format!("{volatile}{constant}{space}"),
            Spelling::Clang => format!("{space}{volatile}{constant}"),
        };
    }

    fn unqualified(&mut self, ty: &Type) {
        match ty {
            Type::Void => self.out.push('v'),
            Type::Variadic => self.out.push('z'),
            Type::Value(element, 1) => self.out += element.code(),
            Type::Value(element, width) => self.out += &format!("Dv{width}_{}", element.code()),
            Type::Pointer(qualifiers, pointee) => {
                self.out.push('P');
                self.write(&(*qualifiers, (**pointee).clone()));
                if is_counted_twice(*qualifiers, self.spelling) {
                    self.seen.push((*qualifiers, Type::Variadic));
                }
            }
            Type::Atomic(inner) => {
                self.out += "U7_Atomic";
                self.write(&(Qualifiers::default(), (**inner).clone()));
            }
            Type::Named(name) => self.out += &format!("{}{name}", name.len()),
        }
    }
}

fn base36(mut number: usize) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((number % 36) as u32, 36).unwrap_or('0').to_ascii_uppercase());
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Element::*;

    /// Names from the three generators, with what they mean.
    const NAMES: [(&str, Spelling, &str); 17] = [
        ("_Z3dotDv4_fS_", Spelling::Spir, "dot(float4, float4)"),
        ("_Z10atomic_addPVU3AS1jj", Spelling::Spir, "atomic_add(global volatile uint *, uint)"),
        ("_Z6vload4mPKU3AS1f", Spelling::Spir, "vload4(ulong, global const float *)"),
        ("_Z6vload4mPU3AS1Kf", Spelling::Clang, "vload4(ulong, global const float *)"),
        (
            "_Z11read_imagef11ocl_image2d11ocl_samplerDv2_i",
            Spelling::Spir,
            "read_imagef(image2d_t, sampler_t, int2)",
        ),
        (
            "_Z11read_imagef14ocl_image2d_ro11ocl_samplerDv2_i",
            Spelling::Clang,
            "read_imagef(image2d_t, sampler_t, int2)",
        ),
        ("_Z15get_image_width20ocl_image2d_array_wo", Spelling::Clang, "get_image_width(image2d_array_t)"),
        (
            "_Z12write_imagei16ocl_image2darrayDv4_iS_",
            Spelling::Spir,
            "write_imagei(image2d_array_t, int4, int4)",
        ),
        ("_Z12write_imagei14ocl_image3d_woDv4_iS0_", Spelling::Clang, "write_imagei(image3d_t, int4, int4)"),
        ("_Z6selectDv4_fS_Dv4_j", Spelling::Spir, "select(float4, float4, uint4)"),
        ("_Z4modfDv4_fPS_", Spelling::Spir, "modf(float4, float4 *)"),
        ("_Z4modfDv4_fPU3AS1S_", Spelling::Clang, "modf(float4, global float4 *)"),
        (
            "_Z29async_work_group_strided_copyPU3AS3Dv4_iPKU3AS1S_mm9ocl_event",
            Spelling::Spir,
            "async_work_group_strided_copy(local int4 *, global const int4 *, ulong, ulong, event_t)",
        ),
        ("_Z17wait_group_eventsiP9ocl_event", Spelling::Spir, "wait_group_events(int, event_t *)"),
        (
            "_Z25atomic_fetch_add_explicitPVU3AS4U7_Atomicjj12memory_order12memory_scope",
            Spelling::Spir,
            "atomic_fetch_add_explicit(volatile _Atomic(uint) *, uint, memory_order, memory_scope)",
        ),
        ("_Z1fP3fooS0_S_", Spelling::Spir, "f(foo *, foo *, foo)"),
        ("_Z12get_work_dimv", Spelling::Spir, "get_work_dim()"),
    ];

    #[test]
    fn every_spelling_is_read_and_written_back() {
        for (symbol, spelling, meaning) in NAMES {
            let parsed = parse(symbol).unwrap_or_else(|| panic!("{symbol} is not read"));
            let types: Vec<String> = parsed.parameters.iter().map(Type::to_string).collect();
            assert_eq!(format!("{}({})", parsed.name, types.join(", ")), meaning);
            assert_eq!(mangle(&parsed, spelling), symbol);
        }
    }

    #[test]
    fn restrict_makes_no_other_overload() {
        let plain = parse("_Z6vload4mPKU3AS1f");
        assert!(plain.is_some());
        // In any order, as SPIR has its qualifiers.
        for symbol in ["_Z6vload4mPrKU3AS1f", "_Z6vload4mPKrU3AS1f", "_Z6vload4mPU3AS1rKf"] {
            assert_eq!(parse(symbol), plain, "{symbol}");
        }
    }

    #[test]
    fn qualified_pointees_are_substituted_as_a_whole() {
        let parsed = parse("_Z1fPKU3AS1Dv4_fS1_PKS_S_").expect("valid");
        let float4 = Type::Value(Float, 4);
        let constant = |space| Qualifiers { space, constant: true, volatile: false };
        let pointer = Type::Pointer(constant(1), Box::new(float4.clone()));
        let private = Type::Pointer(constant(0), Box::new(float4.clone()));
        assert_eq!(parsed.parameters, [pointer.clone(), pointer, private, float4]);
    }

    #[test]
    fn what_is_no_mangled_function_is_refused() {
        for symbol in [
            "",
            "printf",
            "_Z",
            "_Z3",
            "_Z3ab",
            "_Z3abc",
            "_Z1fS_",
            "_Z1fDv4_",
            "_Z1fU3AX1i",
            "_Z99999999999999999999f",
        ] {
            assert_eq!(parse(symbol), None, "{symbol}");
        }
    }
}
