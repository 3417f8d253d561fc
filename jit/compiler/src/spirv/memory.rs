//! Variables, loads and stores, and addresses.

use super::constants::Constants;
use super::function::Body;
use super::stream::Instruction;
use super::types::{Type, Types};
use super::{Id, Result, refuse, spirv};
use spirv::{Decoration, MemoryAccess, Op};

/// The largest alignment that LLVM takes, and more than anything has.
const MAX_ALIGNMENT: u32 = 1 << 20;

/// An alignment as LLVM writes it behind a variable or an access.
pub fn aligned(alignment: u32) -> Result<String> {
    match alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT {
        true => Ok(format!(", align {alignment}")),
        false => refuse(format!("the alignment {alignment} isn't supported")),
    }
}

/// What the operands of a memory access say.
struct Access {
    volatile: &'static str,
    align: String,
}

fn access(operands: &[u32]) -> Result<Access> {
    let Some((&mask, rest)) = operands.split_first() else {
        return Ok(Access { volatile: "", align: String::new() });
    };
    let mask = MemoryAccess::from_bits_truncate(mask);
    let align = match (mask.contains(MemoryAccess::ALIGNED), rest.first()) {
        (true, Some(&alignment)) => aligned(alignment)?,
        (true, None) => return refuse("a memory access has no alignment where it says that it has"),
        _ => String::new(),
    };
    let volatile = if mask.contains(MemoryAccess::VOLATILE) { "volatile " } else { "" };
    Ok(Access { volatile, align })
}

impl Body<'_, '_> {
    /// Instructions of memory and addresses; whether it was one.
    pub fn memory(&mut self, instruction: &Instruction) -> Result<bool> {
        let Instruction { op, result, ty, operands } = *instruction;
        match op {
            Op::Variable => self.variable(result, self.types().pointee(ty)?, operands.get(1).copied())?,
            Op::UntypedVariableKHR => {
                self.variable(result, instruction.word(1)?, operands.get(2).copied())?
            }
            Op::Load => {
                let access = access(&operands[1.min(operands.len())..])?;
                let (place, ty) = (self.pointer(instruction.word(0)?)?, self.types().text(ty)?);
                let line = format!("load {}{ty}, {place}{}", access.volatile, access.align);
                self.set(result, &line);
                self.loaded(result, instruction.word(0)?);
            }
            Op::Store => {
                let ([place, value], rest) = instruction.words()?;
                let access = access(rest)?;
                let (place, value) = (self.pointer(place)?, self.operand(value)?);
                self.line(&format!("store {}{value}, {place}{}", access.volatile, access.align));
            }
            Op::CopyMemory => {
                let ([to, from], rest) = instruction.words()?;
                let access = access(rest)?;
                let ty = self.types().text(self.types().pointee(self.type_of(from)?)?)?.to_string();
                let (to, from) = (self.pointer(to)?, self.pointer(from)?);
                let whole = self.fresh();
                self.line(&format!("{whole} = load {}{ty}, {from}{}", access.volatile, access.align));
                self.line(&format!("store {}{ty} {whole}, {to}{}", access.volatile, access.align));
            }
            Op::CopyMemorySized => self.copy(instruction)?,
            Op::LifetimeStart | Op::LifetimeStop | Op::AssumeTrueKHR => {}
            Op::AccessChain | Op::InBoundsAccessChain | Op::PtrAccessChain | Op::InBoundsPtrAccessChain => {
                let base = instruction.word(0)?;
                let pointee = self.types().pointee(self.type_of(base)?)?;
                self.address(instruction, pointee, 0)?;
            }
            Op::UntypedAccessChainKHR
            | Op::UntypedInBoundsAccessChainKHR
            | Op::UntypedPtrAccessChainKHR
            | Op::UntypedInBoundsPtrAccessChainKHR => self.address(instruction, instruction.word(0)?, 1)?,
            Op::PtrCastToGeneric | Op::GenericCastToPtr | Op::ConvertPtrToU | Op::ConvertUToPtr => {
                self.reinterpret(instruction)?
            }
            Op::PtrEqual | Op::PtrNotEqual => {
                let ([a, b], _) = instruction.words()?;
                let compare = if op == Op::PtrEqual { "eq" } else { "ne" };
                let line = format!("icmp {compare} {}, {}", self.pointer(a)?, self.text(b)?);
                self.set(result, &line);
            }
            Op::PtrDiff => self.difference(instruction)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn variable(&mut self, id: Id, pointee: Id, initializer: Option<Id>) -> Result<()> {
        let align = match self.module().decoration(id, Decoration::Alignment).and_then(|list| list.first()) {
            Some(&alignment) => aligned(alignment)?,
            None => String::new(),
        };
        let line = format!("alloca {}{align}", self.types().text(pointee)?);
        self.set(id, &line);
        if let Some(initializer) = initializer {
            let value = self.operand(initializer)?;
            self.line(&format!("store {value}, ptr %v{id}{align}"));
        }
        Ok(())
    }

    fn copy(&mut self, instruction: &Instruction) -> Result<()> {
        let ([to, from, size], rest) = instruction.words()?;
        let access = access(rest)?;
        let [to_space, from_space] =
            [self.types().space(self.type_of(to)?)?, self.types().space(self.type_of(from)?)?];
        let size = self.long(size)?;
        let name = format!("llvm.memcpy.p{to_space}.p{from_space}.i64");
        let types = [to_space, from_space].map(super::types::pointer_text);
        self.declare(&name, format!("declare void @{name}({}, {}, i64, i1)", types[0], types[1]))?;
        let align = access.align.trim_start_matches(", ").to_string();
        let parts = [(to, &types[0]), (from, &types[1])]
            .map(|(id, ty)| Ok(format!("{ty} {align} {}", self.text(id)?)));
        let [to, from] = parts;
        let is_volatile = !access.volatile.is_empty();
        let line = format!("call void @{name}({}, {}, {size}, i1 {is_volatile})", to?, from?);
        self.line(&line);
        Ok(())
    }

    /// An integer as one of 64 bits, with its type.
    pub fn long(&mut self, id: Id) -> Result<String> {
        let value = self.operand(id)?;
        match self.types().get(self.type_of(id)?)? {
            Type::Int(64) => Ok(value),
            Type::Int(_) => {
                let wide = self.fresh();
                self.line(&format!("{wide} = zext {value} to i64"));
                Ok(format!("i64 {wide}"))
            }
            _ => refuse("an integer is wanted where there is none"),
        }
    }

    /// An access chain whose base is the operand of this number.
    fn address(&mut self, instruction: &Instruction, pointee: Id, base: usize) -> Result<()> {
        let operands = &instruction.operands[base.min(instruction.operands.len())..];
        let op = instruction.op;
        let of = |id: Id| Ok((self.type_of(id)?, self.text(id)?));
        let constant = |id: Id| self.constants().unsigned(id).ok();
        let chain = chain(self.types(), op, pointee, operands, of, constant)?;
        let line = format!("getelementptr {}{}", chain.inbounds, chain.operands);
        self.set(instruction.result, &line);
        Ok(())
    }

    /// A cast of a pointer or to one.
    pub fn reinterpret(&mut self, instruction: &Instruction) -> Result<()> {
        let from = instruction.word(0)?;
        let (from_ty, to_ty) = (self.type_of(from)?, instruction.ty);
        let to = self.types().text(to_ty)?.to_string();
        let mut value = self.operand(from)?;
        // A vector as large as a pointer goes by an integer.
        let number = self.fresh();
        let op = match (self.types().get(from_ty)?, self.types().get(to_ty)?) {
            (Type::Pointer(a, _), Type::Pointer(b, _)) if a != b => "addrspacecast",
            (Type::Pointer(..), Type::Int(_)) => "ptrtoint",
            (Type::Int(_), Type::Pointer(..)) => "inttoptr",
            (Type::Pointer(..), Type::Vector(..)) => {
                self.line(&format!("{number} = ptrtoint {value} to i64"));
                value = format!("i64 {number}");
                "bitcast"
            }
            (Type::Vector(..), Type::Pointer(..)) => {
                self.line(&format!("{number} = bitcast {value} to i64"));
                value = format!("i64 {number}");
                "inttoptr"
            }
            _ => "bitcast",
        };
        let line = format!("{op} {value} to {to}");
        self.set(instruction.result, &line);
        Ok(())
    }

    fn difference(&mut self, instruction: &Instruction) -> Result<()> {
        let ([a, b], _) = instruction.words()?;
        let element = self.types().text(self.types().pointee(self.type_of(a)?)?)?.to_string();
        let mut numbers = Vec::new();
        for id in [a, b] {
            let (number, pointer) = (self.fresh(), self.pointer(id)?);
            self.line(&format!("{number} = ptrtoint {pointer} to i64"));
            numbers.push(number);
        }
        let (bytes, count) = (self.fresh(), self.fresh());
        self.line(&format!("{bytes} = sub i64 {}, {}", numbers[0], numbers[1]));
        let size = format!("ptrtoint (ptr getelementptr ({element}, ptr null, i32 1) to i64)");
        self.line(&format!("{count} = sdiv i64 {bytes}, {size}"));
        let to = self.types().text(instruction.ty)?.to_string();
        let op = if to == "i64" { "bitcast" } else { "trunc" };
        self.set(instruction.result, &format!("{op} i64 {count} to {to}"));
        Ok(())
    }
}

/// An address as LLVM writes it.
struct Chain {
    inbounds: &'static str,
    operands: String,
}

/// The operands of an access chain: base and indices, the first of which is the element in those that have one.
fn chain(
    types: &Types,
    op: Op,
    pointee: Id,
    operands: &[u32],
    of: impl Fn(Id) -> Result<(Id, std::rc::Rc<str>)>,
    constant: impl Fn(Id) -> Option<u64>,
) -> Result<Chain> {
    let Some((&base, indices)) = operands.split_first() else { return refuse("an access chain has no base") };
    let (base_ty, base) = of(base)?;
    types.space(base_ty)?;
    let mut text = format!("{}, {} {base}", types.text(pointee)?, types.text(base_ty)?);
    let has_element = matches!(
        op,
        Op::PtrAccessChain
            | Op::InBoundsPtrAccessChain
            | Op::UntypedPtrAccessChainKHR
            | Op::UntypedInBoundsPtrAccessChainKHR
    );
    let mut indices = indices.iter();
    if !has_element {
        text += ", i32 0";
    } else if let Some(&element) = indices.next() {
        let (ty, element) = of(element)?;
        text += &format!(", {} {element}", types.text(ty)?);
    } else {
        return refuse("an access chain has no element");
    }
    let mut at = pointee;
    for &index in indices {
        let (ty, value) = of(index)?;
        if !matches!(types.get(ty)?, Type::Int(_)) {
            return refuse("an access chain has an index that is no integer");
        }
        if let Type::Struct(_) = types.get(at)? {
            let Some(number) = constant(index) else {
                return refuse("an access chain has an index into a structure that is no constant");
            };
            at = types.member(at, number)?;
            text += &format!(", i32 {number}");
        } else {
            at = types.member(at, 0)?;
            text += &format!(", {} {value}", types.text(ty)?);
        }
    }
    let inbounds = match op {
        Op::InBoundsAccessChain
        | Op::InBoundsPtrAccessChain
        | Op::UntypedInBoundsAccessChainKHR
        | Op::UntypedInBoundsPtrAccessChainKHR => "inbounds ",
        _ => "",
    };
    Ok(Chain { inbounds, operands: text })
}

/// An access chain of constants.
pub fn constant_address(constants: &Constants, types: &Types, op: Op, operands: &[u32]) -> Result<String> {
    let Some(&base) = operands.first() else { return refuse("an access chain has no base") };
    let pointee = types.pointee(constants.expect(base)?.0)?;
    let of = |id: Id| {
        let (ty, _) = constants.expect(id)?;
        Ok((ty, constants.text(id).unwrap_or_default()))
    };
    let chain = chain(types, op, pointee, operands, of, |id| constants.unsigned(id).ok())?;
    Ok(format!("getelementptr {}({})", chain.inbounds, chain.operands))
}
