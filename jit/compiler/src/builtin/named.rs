//! Builtins of OpenCL C 2.0 that are told by their name and the kinds of their LLVM types alone, because producers mangle them
//! in several ways or not at all: `_Z10write_pipePU3AS110ocl_pipe_tPU3AS4vjj` of Khronos's generator, `..8ocl_pipe..` of the
//! specification and `__write_pipe_2` of today's clang are one function. No two of a name have parameters of the same kinds.

use super::emit::{Emitter, Ir, Lane, Value};
use super::table::Effect;
use super::{Definition, Signature, enqueue, pipe};
use spirula_interface::address_bits::AddressBits;

/// A builtin.
pub struct Named {
    /// What it is called: in OpenCL C, and by clang.
    pub names: Vec<String>,
    /// The kinds of its parameters, a letter each: `p` a pointer to whatever memory, `i` and `l` integers of 32 and 64 bits, `z` a
    /// `size_t`.
    pub parameters: &'static str,
    /// The kind of its result: also `b` for a boolean, `v` for none.
    pub result: char,
    /// Writes the body; of pointers it gets and yields those to private memory, [`POINTER`].
    pub body: Body,
    /// What it does besides.
    pub effect: Effect,
}

/// See [`Named::body`].
pub type Body = Box<dyn Fn(&mut Emitter, &[Value]) -> Value>;

pub const INT: Ir = Ir::scalar(Lane::Int(32));
pub const LONG: Ir = Ir::scalar(Lane::Int(64));
pub const POINTER: Ir = Ir::scalar(Lane::Pointer(0));
const BOOL: Ir = Ir::scalar(Lane::Int(1));

impl Named {
    /// A builtin that accesses memory; `names` are separated by spaces.
    pub fn new(
        names: &str,
        result: char,
        parameters: &'static str,
        body: impl Fn(&mut Emitter, &[Value]) -> Value + 'static,
    ) -> Named {
        let names = names.split_whitespace().map(str::to_owned).collect();
        Named { names, parameters, result, body: Box::new(body), effect: Effect::Memory }
    }

    /// One that all work-items of a group must call.
    pub fn of_group(self) -> Named {
        Named { effect: Effect::Barrier, ..self }
    }

    fn fits(&self, symbol: &Signature, addresses: AddressBits) -> bool {
        let size = if addresses.is_linear() { "i" } else { "l" };
        let kinds: Option<String> = symbol.params.iter().map(|text| kind(text)).collect();
        kinds == Some(self.parameters.replace('z', size)) && kind(&symbol.ret) == Some(self.result)
    }

    fn expected(&self, symbol: &str, addresses: AddressBits) -> String {
        let text = |kind| match kind {
            'p' => POINTER,
            'z' => Emitter::of(addresses).size(),
            'i' => INT,
            'l' => LONG,
            'b' => BOOL,
            _ => Ir::scalar(Lane::Void),
        };
        let parameters: Vec<String> = self.parameters.chars().map(|kind| text(kind).to_string()).collect();
        format!("declare {} @{symbol}({})", text(self.result), parameters.join(", "))
    }

    fn define(&self, symbol: &str, declared: &Signature, addresses: AddressBits) -> Definition {
        let mut emitter = Emitter::of(addresses);
        let e = &mut emitter;
        e.label("entry");
        let arguments: Vec<Value> = declared
            .params
            .iter()
            .enumerate()
            .filter_map(|(index, ty)| {
                let value = Value { ir: Ir::parse(ty)?, text: format!("%a{index}") };
                Some(if matches!(value.ir.lane, Lane::Pointer(_)) { cast(e, &value, POINTER) } else { value })
            })
            .collect();
        let result = (self.body)(e, &arguments);
        let wanted = Ir::parse(&declared.ret).unwrap_or(result.ir);
        let result = if self.result == 'p' { cast(e, &result, wanted) } else { result };
        let (body, declarations) = emitter.finish();
        let convergent = if self.effect == Effect::Barrier { " convergent" } else { "" };
        let parameters: Vec<String> =
            declared.params.iter().enumerate().map(|(i, ty)| format!("{ty} %a{i}")).collect();
        let result = if self.result == 'v' { "void".to_string() } else { result.to_string() };
        let ir = format!(
            "define linkonce_odr spir_func {} @{symbol}({}) alwaysinline{convergent} nounwind {{\n{body}  ret {result}\n}}\n",
            declared.ret,
            parameters.join(", "),
        );
        Definition { ir, declarations }
    }
}

/// The letter of a type.
fn kind(text: &str) -> Option<char> {
    let ir = Ir::parse(text).filter(|ir| ir.width == 1)?;
    Some(match ir.lane {
        Lane::Pointer(_) => 'p',
        Lane::Int(1) => 'b',
        Lane::Int(32) => 'i',
        Lane::Int(64) => 'l',
        Lane::Void => 'v',
        _ => return None,
    })
}

/// A pointer to another address space.
fn cast(e: &mut Emitter, pointer: &Value, to: Ir) -> Value {
    match pointer.ir == to {
        true => pointer.clone(),
        false => e.value(to, &format!("addrspacecast {pointer} to {to}")),
    }
}

/// The name in the source of a symbol, mangled or not.
pub fn source_name(symbol: &str) -> &str {
    let mangled = || {
        let rest = symbol.strip_prefix("_Z")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[digits..].get(..rest[..digits].parse().ok()?)
    };
    mangled().unwrap_or(symbol)
}

/// What [`find`] finds.
pub enum Found {
    Definition(Definition),
    /// Only others of that name, one of which is this.
    Other(String),
}

/// Every builtin of this kind.
fn all() -> Vec<Named> {
    pipe::builtins().into_iter().chain(enqueue::builtins()).collect()
}

fn of_name(symbol: &str) -> impl Iterator<Item = Named> {
    let name = source_name(symbol).to_owned();
    // A symbol that can't be one of them is most symbols: the list is made for a few calls of a few programs.
    const WORDS: [&str; 6] = ["pipe", "reserve_id", "ndrange_", "_event", "default_queue", "enqueue_marker"];
    let worth_looking = WORDS.iter().any(|word| name.contains(word));
    let list = if worth_looking { all() } else { Vec::new() };
    list.into_iter().filter(move |builtin| builtin.names.contains(&name))
}

/// The builtin that a declared symbol is.
pub fn find(symbol: &str, declared: &Signature, addresses: AddressBits) -> Option<Found> {
    let candidates: Vec<Named> = of_name(symbol).collect();
    match candidates.iter().find(|builtin| builtin.fits(declared, addresses)) {
        Some(builtin) => Some(Found::Definition(builtin.define(symbol, declared, addresses))),
        None => candidates.first().map(|builtin| Found::Other(builtin.expected(symbol, addresses))),
    }
}

/// Whether calls of the symbol synchronize a work-group.
pub fn is_barrier(symbol: &str) -> bool {
    of_name(symbol).any(|builtin| builtin.effect == Effect::Barrier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_either_form() {
        for (symbol, name) in [
            ("_Z10write_pipePU3AS110ocl_pipe_tPU3AS4vjj", "write_pipe"),
            ("_Z9read_pipePU3AS18ocl_pipePU3AS4vjj", "read_pipe"),
            ("__read_pipe_2", "__read_pipe_2"),
            ("_Z99f", "_Z99f"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(source_name(symbol), name);
        }
    }

    #[test]
    fn every_builtin_is_valid_ir_in_every_memory() {
        for (builtin, addresses) in
            all().iter().flat_map(|builtin| [(builtin, AddressBits::Bits64), (builtin, AddressBits::Bits32)])
        {
            for pointer in ["ptr", "ptr addrspace(1)", "ptr addrspace(4)"] {
                let text = |kind| match kind {
                    'p' => pointer,
                    'z' if addresses.is_linear() => "i32",
                    'z' => "i64",
                    'i' => "i32",
                    'l' => "i64",
                    'b' => "i1",
                    _ => "void",
                };
                let params = builtin.parameters.chars().map(|kind| text(kind).to_owned()).collect();
                let declared = Signature { ret: text(builtin.result).into(), params };
                let symbol = &builtin.names[0];
                let Some(Found::Definition(definition)) = find(symbol, &declared, addresses) else {
                    panic!("{symbol} is not found for {declared:?}")
                };
                definition.must_be_valid();
            }
        }
    }

    #[test]
    fn other_types_are_named() {
        let declared = Signature { ret: "i32".into(), params: vec!["float".into(), "ptr".into()] };
        let Some(Found::Other(expected)) = find("__read_pipe_2", &declared, AddressBits::Bits64) else {
            panic!("found")
        };
        assert_eq!(expected, "declare i32 @__read_pipe_2(ptr, ptr, i32, i32)");
        assert!(find("__read_pipe_3", &declared, AddressBits::Bits64).is_none());
    }
}
