//! Builtins: printf (6.12.13). Each call is a function of its own, which puts a record into the launch's buffer as
//! [`spirula_interface::printf`] lays it out. One atomic addition reserves a record's place; nothing else is shared by work-items, so
//! that lanes may do it one by one or together.

use super::Definition;
use super::emit::{Emitter, Ir, Lane, Value};
use spirula_interface::printf::{Argument, BUFFER_SIZE, UNIT};

const I8: Ir = Ir::scalar(Lane::Int(8));
const I32: Ir = Ir::scalar(Lane::Int(32));
const I64: Ir = Ir::scalar(Lane::Int(64));
const GLOBAL: Ir = Ir::scalar(Lane::Pointer(1));

/// Bytes that a record has of a parameter of this LLVM type; None if printf can't print it.
pub fn bytes(ty: &str) -> Option<u32> {
    let ir = Ir::parse(ty)?;
    let bits = ir.lane.bits();
    [8, 16, 32, 64].contains(&bits).then(|| bits / 8 * u32::from(ir.width))
}

/// Defines `symbol`, the call of this number. `parameters` are the LLVM types of the arguments behind the format; those
/// that `arguments` doesn't list are ignored.
pub fn define(symbol: &str, number: u32, parameters: &[String], arguments: &[Argument]) -> Definition {
    let mut emitter = Emitter::default();
    let e = &mut emitter;
    e.label("entry");
    let mut label = "entry".to_string();
    let given: Vec<Value> = parameters
        .iter()
        .enumerate()
        .filter_map(|(index, ty)| Some(Value { ir: Ir::parse(ty)?, text: format!("%a{index}") }))
        .collect();
    let lengths: Vec<Option<Value>> = arguments
        .iter()
        .zip(&given)
        .map(|(argument, text)| (*argument == Argument::Copied).then(|| length(e, text, &mut label)))
        .collect();

    let fixed: u32 = arguments.iter().map(unit_bytes).sum::<u32>() + UNIT as u32;
    let mut size = e.int(I64, fixed.into());
    for length in lengths.iter().flatten() {
        let padded = round_up(e, length);
        size = e.binary("add", &size, &padded);
    }
    let buffer = e.primitive("printf_buffer", GLOBAL);
    let start = e.value(I64, &format!("atomicrmw add {buffer}, {size} monotonic, align 8"));
    let end = e.binary("add", &start, &size);
    let most = e.int(I64, BUFFER_SIZE as i128);
    let fits = e.compare("icmp ule", &end, &most);
    e.effect(&format!("br {fits}, label %write, label %end"));

    e.label("write");
    let mut written = "write".to_string();
    let record = e.element(&buffer, Lane::Int(8), &start);
    let number = e.int(I32, i128::from(number) + 1);
    e.store(&number, &record, UNIT as u32);
    let mut offset = e.int(I64, UNIT as i128);
    for ((argument, value), length) in arguments.iter().zip(&given).zip(&lengths) {
        let place = e.element(&record, Lane::Int(8), &offset);
        match (argument, length) {
            (Argument::Bytes(_), _) => {
                // The host reads pointers of 64 bits, whatever the program's are.
                let number = match value.ir.lane {
                    Lane::Pointer(_) => e.cast("ptrtoint", value, Lane::Int(64)),
                    _ => value.clone(),
                };
                e.store(&number, &place, UNIT as u32);
            }
            (Argument::Copied, Some(length)) => {
                let length = e.cast("trunc", length, Lane::Int(32));
                e.store(&length, &place, UNIT as u32);
            }
            _ => {}
        }
        let step = e.int(I64, unit_bytes(argument).into());
        offset = e.binary("add", &offset, &step);
    }
    for (text, length) in given.iter().zip(&lengths) {
        let Some(length) = length else { continue };
        let place = e.element(&record, Lane::Int(8), &offset);
        copy(e, text, &place, length, &mut written);
        let padded = round_up(e, length);
        offset = e.binary("add", &offset, &padded);
    }
    e.effect("br label %end");
    e.label("end");
    e.effect(&format!("%result = phi i32 [ -1, %{label} ], [ 0, %{written} ]"));

    let (body, declarations) = emitter.finish();
    let parameters: Vec<String> =
        parameters.iter().enumerate().map(|(index, ty)| format!("{ty} %a{index}")).collect();
    let parameters = parameters.join(", ");
    let ir =
        format!("define i32 @{symbol}({parameters}) alwaysinline nounwind {{\n{body}  ret i32 %result\n}}\n");
    Definition { ir, declarations }
}

/// Bytes of the units that an argument takes in front of the strings.
fn unit_bytes(argument: &Argument) -> u32 {
    match argument {
        Argument::Bytes(bytes) => bytes.next_multiple_of(UNIT as u32),
        Argument::Known(_) => 0,
        Argument::Copied => UNIT as u32,
    }
}

/// Bytes of the units that a string takes.
fn round_up(e: &mut Emitter, length: &Value) -> Value {
    let more = e.int(I64, UNIT as i128 - 1);
    let sum = e.binary("add", length, &more);
    let mask = e.int(I64, -(UNIT as i128));
    e.binary("and", &sum, &mask)
}

/// Bytes in front of a string's NUL; no more than would fill the buffer. `label` is the block that this begins in, and
/// then the one it ends in.
fn length(e: &mut Emitter, text: &Value, label: &mut String) -> Value {
    let (before, count, next) = (label.clone(), e.fresh(), e.fresh());
    let (around, behind) = (e.fresh(), e.fresh());
    e.effect(&format!("br label %{around}"));
    e.label(&around);
    e.effect(&format!("%{count} = phi i64 [ 0, %{before} ], [ %{next}, %{around} ]"));
    let index = Value { ir: I64, text: format!("%{count}") };
    let place = e.element(text, Lane::Int(8), &index);
    let byte = e.load(I8, &place, 1);
    let (nul, most) = (e.int(I8, 0), e.int(I64, BUFFER_SIZE as i128));
    let goes_on = e.compare("icmp ne", &byte, &nul);
    let has_room = e.compare("icmp ult", &index, &most);
    let more = e.binary("and", &goes_on, &has_room);
    e.effect(&format!("%{next} = add i64 %{count}, 1"));
    e.effect(&format!("br {more}, label %{around}, label %{behind}"));
    e.label(&behind);
    *label = behind;
    index
}

/// Copies `length` bytes, which may be none. `label` as in [`length`].
fn copy(e: &mut Emitter, from: &Value, to: &Value, length: &Value, label: &mut String) {
    let (before, count, next) = (label.clone(), e.fresh(), e.fresh());
    let (head, around, behind) = (e.fresh(), e.fresh(), e.fresh());
    e.effect(&format!("br label %{head}"));
    e.label(&head);
    e.effect(&format!("%{count} = phi i64 [ 0, %{before} ], [ %{next}, %{around} ]"));
    let index = Value { ir: I64, text: format!("%{count}") };
    let more = e.compare("icmp ult", &index, length);
    e.effect(&format!("br {more}, label %{around}, label %{behind}"));
    e.label(&around);
    let (source, target) = (e.element(from, Lane::Int(8), &index), e.element(to, Lane::Int(8), &index));
    let byte = e.load(I8, &source, 1);
    e.store(&byte, &target, 1);
    e.effect(&format!("%{next} = add i64 %{count}, 1"));
    e.effect(&format!("br label %{head}"));
    e.label(&behind);
    *label = behind;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_mixture_of_arguments_is_valid_ir() {
        let kinds = [
            ("i32", Argument::Bytes(4)),
            ("<3 x half>", Argument::Bytes(6)),
            ("ptr addrspace(2)", Argument::Copied),
            ("ptr addrspace(2)", Argument::Known(b"text".to_vec())),
            ("ptr addrspace(1)", Argument::Bytes(8)),
            ("ptr", Argument::Copied),
        ];
        for first in 0..kinds.len() {
            for count in 0..=kinds.len() {
                let list = kinds.iter().cycle().skip(first).take(count);
                let (types, arguments): (Vec<_>, Vec<_>) =
                    list.map(|(ty, argument)| (ty.to_string(), argument.clone())).unzip();
                let definition = define("f", 7, &types, &arguments[..count - count / 4]);
                definition.must_be_valid();
            }
        }
    }

    #[test]
    fn sizes_are_those_in_memory() {
        for (ty, size) in [("i8", 1), ("<3 x i32>", 12), ("half", 2), ("<16 x double>", 128), ("ptr", 8)] {
            assert_eq!(bytes(ty), Some(size), "{ty}");
        }
        for ty in ["i1", "i24", "i128", "%s", "[2 x i32]", "void"] {
            assert_eq!(bytes(ty), None, "{ty}");
        }
    }
}
