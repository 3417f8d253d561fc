//! Builtins: which address space a generic pointer leads to (OpenCL C 2.0, 6.13.9). Pointers of all spaces are addresses of one
//! memory: the work-group function tells them apart by where they lead.

use super::emit::{Emitter, Ir, Lane, Value};
use super::mangle::Signature;
use super::table::{Call, FIXED, Rows};
use super::types::{Qualifiers, Type};

/// CLK_LOCAL_MEM_FENCE and CLK_GLOBAL_MEM_FENCE.
const FENCES: [i128; 2] = [1, 2];

pub fn rows(rows: &mut Rows) {
    let tests: [(&str, &str, &[&str]); 3] = [
        ("to_global", "global*void(generic*void)", &["is_local", "is_private"]),
        ("to_local", "local*void(generic*void)", &["is_local"]),
        ("to_private", "private*void(generic*void)", &["is_private"]),
    ];
    for (name, pattern, tests) in tests {
        rows.expand(name, FIXED, pattern, move |e, call| {
            let asked = tests.iter().map(|test| ask(e, test, call)).collect::<Vec<_>>();
            let either = asked.into_iter().reduce(|a, b| e.binary("or", &a, &b));
            let either = either.unwrap_or_else(|| unreachable!("each function has a test"));
            let pointer =
                e.value(call.result, &format!("addrspacecast {} to {}", call.arguments[0], call.result));
            let null = Value { ir: call.result, text: "null".to_string() };
            // Global is what is neither.
            if tests.len() > 1 {
                e.select(&either, &null, &pointer)
            } else {
                e.select(&either, &pointer, &null)
            }
        });
    }
    // Private memory needs no fence; one of global memory is valid and costs nothing.
    rows.expand("get_fence", FIXED, "uint(generic*void)", |e, call| {
        let is_local = ask(e, "is_local", call);
        let [local, global] = FENCES.map(|flags| e.int(call.result, flags));
        e.select(&is_local, &local, &global)
    });
    rows.mark("to_global to_local to_private get_fence", super::table::Effect::Pure);
}

fn ask(e: &mut Emitter, test: &str, call: &Call) -> Value {
    let name = format!("spirula.{test}");
    let arguments = std::slice::from_ref(&call.arguments[0]);
    e.call(&name, Ir::scalar(Lane::Int(1)), arguments, "memory(none) nounwind willreturn")
}

/// Clang has the conversions built in, and calls functions of these names.
pub fn of_clang(symbol: &str) -> Option<Signature> {
    let name =
        symbol.strip_prefix("__").filter(|name| ["to_global", "to_local", "to_private"].contains(name))?;
    let generic = Qualifiers { space: 4, constant: false, volatile: false };
    Some(Signature { name: name.to_string(), parameters: vec![Type::Pointer(generic, Box::new(Type::Void))] })
}
