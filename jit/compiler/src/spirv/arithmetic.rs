//! Arithmetic, comparisons and conversions that LLVM has instructions for.

use super::function::Body;
use super::stream::Instruction;
use super::types::Type;
use super::{Id, Result, refuse, spirv};
use spirv::{Decoration, FPFastMathMode, Op};

/// Instructions of two operands of the result's type.
const BINARY: [(Op, &str); 18] = [
    (Op::IAdd, "add"),
    (Op::ISub, "sub"),
    (Op::IMul, "mul"),
    (Op::UDiv, "udiv"),
    (Op::SDiv, "sdiv"),
    (Op::UMod, "urem"),
    (Op::SRem, "srem"),
    (Op::FAdd, "fadd"),
    (Op::FSub, "fsub"),
    (Op::FMul, "fmul"),
    (Op::FDiv, "fdiv"),
    (Op::BitwiseAnd, "and"),
    (Op::BitwiseOr, "or"),
    (Op::BitwiseXor, "xor"),
    (Op::LogicalAnd, "and"),
    (Op::LogicalOr, "or"),
    (Op::LogicalNotEqual, "xor"),
    (Op::LogicalEqual, "icmp eq"),
];

const SHIFTS: [(Op, &str); 3] =
    [(Op::ShiftLeftLogical, "shl"), (Op::ShiftRightLogical, "lshr"), (Op::ShiftRightArithmetic, "ashr")];

const COMPARISONS: [(Op, &str); 25] = [
    (Op::IEqual, "icmp eq"),
    (Op::INotEqual, "icmp ne"),
    (Op::UGreaterThan, "icmp ugt"),
    (Op::SGreaterThan, "icmp sgt"),
    (Op::UGreaterThanEqual, "icmp uge"),
    (Op::SGreaterThanEqual, "icmp sge"),
    (Op::ULessThan, "icmp ult"),
    (Op::SLessThan, "icmp slt"),
    (Op::ULessThanEqual, "icmp ule"),
    (Op::SLessThanEqual, "icmp sle"),
    (Op::FOrdEqual, "fcmp oeq"),
    (Op::FUnordEqual, "fcmp ueq"),
    (Op::FOrdNotEqual, "fcmp one"),
    (Op::FUnordNotEqual, "fcmp une"),
    (Op::FOrdLessThan, "fcmp olt"),
    (Op::FUnordLessThan, "fcmp ult"),
    (Op::FOrdGreaterThan, "fcmp ogt"),
    (Op::FUnordGreaterThan, "fcmp ugt"),
    (Op::FOrdLessThanEqual, "fcmp ole"),
    (Op::FUnordLessThanEqual, "fcmp ule"),
    (Op::FOrdGreaterThanEqual, "fcmp oge"),
    (Op::FUnordGreaterThanEqual, "fcmp uge"),
    (Op::LessOrGreater, "fcmp one"),
    (Op::Ordered, "fcmp ord"),
    (Op::Unordered, "fcmp uno"),
];

/// Permissions of fast math, by their bits.
const PERMISSIONS: [(FPFastMathMode, &str); 7] = [
    (FPFastMathMode::NOT_NAN, "nnan "),
    (FPFastMathMode::NOT_INF, "ninf "),
    (FPFastMathMode::NSZ, "nsz "),
    (FPFastMathMode::ALLOW_RECIP, "arcp "),
    (FPFastMathMode::FAST, "fast "),
    (FPFastMathMode::ALLOW_CONTRACT, "contract "),
    (FPFastMathMode::ALLOW_REASSOC, "reassoc "),
];

fn find(table: &[(Op, &'static str)], op: Op) -> Option<&'static str> {
    table.iter().find(|row| row.0 == op).map(|row| row.1)
}

impl Body<'_, '_> {
    /// Instructions on numbers; whether it was one.
    pub fn arithmetic(&mut self, instruction: &Instruction) -> Result<bool> {
        let Instruction { op, result, ty, .. } = *instruction;
        if let Some(name) = find(&BINARY, op) {
            let ([a, b], _) = instruction.words()?;
            let flags = self.flags(name, result);
            let line = format!("{name} {flags}{}, {}", self.operand(a)?, self.text(b)?);
            self.set(result, &line);
            return Ok(true);
        }
        if let Some(name) = find(&COMPARISONS, op) {
            let ([a, b], _) = instruction.words()?;
            let line = format!("{name} {}, {}", self.operand(a)?, self.text(b)?);
            self.set(result, &line);
            return Ok(true);
        }
        if let Some(name) = find(&SHIFTS, op) {
            let ([a, b], _) = instruction.words()?;
            let amount = self.resized(b, self.type_of(a)?)?;
            let flags = self.flags(name, result);
            let line = format!("{name} {flags}{}, {amount}", self.operand(a)?);
            self.set(result, &line);
            return Ok(true);
        }
        match op {
            Op::SNegate | Op::Not | Op::LogicalNot | Op::FNegate => {
                let a = instruction.word(0)?;
                let (value, text, ty) = (self.operand(a)?, self.text(a)?, self.types().text(ty)?.to_string());
                let line = match op {
                    Op::FNegate => format!("fneg {}{value}", self.flags("fneg", result)),
                    Op::SNegate => {
                        format!(
                            "sub {}{ty} {}, {text}",
                            self.flags("sub", result),
                            self.splat(instruction.ty, "0")?
                        )
                    }
                    Op::Not => format!("xor {value}, {}", self.splat(instruction.ty, "-1")?),
                    _ => format!("xor {value}, {}", self.splat(instruction.ty, "true")?),
                };
                self.set(result, &line);
            }
            Op::SMod => self.modulo(instruction)?,
            Op::Select => {
                let ([condition, a, b], _) = instruction.words()?;
                let line = format!(
                    "select {}, {}, {}",
                    self.operand(condition)?,
                    self.operand(a)?,
                    self.operand(b)?
                );
                self.set(result, &line);
            }
            Op::Bitcast => self.reinterpret(instruction)?,
            Op::CopyLogical => self.copy_logically(instruction)?,
            Op::CopyObject | Op::ExpectKHR => {
                let value = self.operand(instruction.word(0)?)?;
                self.set(result, &format!("select i1 true, {value}, {value}"));
            }
            Op::UConvert
            | Op::SConvert
            | Op::FConvert
            | Op::ConvertFToU
            | Op::ConvertFToS
            | Op::ConvertUToF
            | Op::ConvertSToF => return self.convert(instruction),
            Op::IAddCarry | Op::ISubBorrow => self.carry(instruction)?,
            Op::UMulExtended | Op::SMulExtended => self.extended_product(instruction)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A composite as one of another type with the same members, by way of memory.
    fn copy_logically(&mut self, instruction: &Instruction) -> Result<()> {
        let from = instruction.word(0)?;
        let (value, memory) = (self.operand(from)?, self.fresh());
        let [from, to] =
            [self.type_of(from)?, instruction.ty].map(|ty| self.types().text(ty).map(str::to_string));
        self.line(&format!("{memory} = alloca {}", from?));
        self.line(&format!("store {value}, ptr {memory}"));
        self.set(instruction.result, &format!("load {}, ptr {memory}", to?));
        Ok(())
    }

    /// A constant of a scalar or, in every lane, a vector type.
    fn splat(&self, ty: Id, value: &str) -> Result<String> {
        let (element, count) = self.types().lanes(ty)?;
        Ok(if count == 1 { value.into() } else { format!("splat ({} {value})", self.types().text(element)?) })
    }

    /// What the result's decorations permit, and the module as a whole: products and sums may be one operation unless a
    /// kernel forbids it.
    fn flags(&self, name: &str, result: Id) -> String {
        let has = |decoration| self.module().has(result, decoration);
        if ["add", "sub", "mul", "shl"].contains(&name) {
            let unsigned = if has(Decoration::NoUnsignedWrap) { "nuw " } else { "" };
            let signed = if has(Decoration::NoSignedWrap) { "nsw " } else { "" };
            return format!("{unsigned}{signed}");
        }
        if !["fadd", "fsub", "fmul", "fdiv", "fneg"].contains(&name) {
            return String::new();
        }
        let mode = self.module().decoration(result, Decoration::FPFastMathMode);
        let bits = mode.and_then(|mode| mode.first()).copied().unwrap_or(0);
        let mut bits = FPFastMathMode::from_bits_truncate(bits);
        if self.globals().contracts && !has(Decoration::NoContraction) {
            bits |= FPFastMathMode::ALLOW_CONTRACT;
        }
        PERMISSIONS.iter().filter(|(bit, _)| bits.contains(*bit)).map(|(_, flag)| *flag).collect()
    }

    /// An integer as one of another integer type, without the type.
    fn resized(&mut self, id: Id, to: Id) -> Result<String> {
        let from = self.type_of(id)?;
        let (Type::Int(a), Type::Int(b)) =
            (self.types().scalar(from)?.clone(), self.types().scalar(to)?.clone())
        else {
            return refuse("a shift is of something that is no integer");
        };
        if a == b {
            return Ok(self.text(id)?.to_string());
        }
        let (value, name) = (self.operand(id)?, self.fresh());
        let to = self.types().text(to)?;
        let line = format!("{name} = {} {value} to {to}", if a > b { "trunc" } else { "zext" });
        self.line(&line);
        Ok(name)
    }

    /// The remainder with the divisor's sign.
    fn modulo(&mut self, instruction: &Instruction) -> Result<()> {
        let ([a, b], _) = instruction.words()?;
        let ty = self.types().text(instruction.ty)?.to_string();
        let (_, count) = self.types().lanes(instruction.ty)?;
        let bit = if count == 1 { "i1".to_string() } else { format!("<{count} x i1>") };
        let zero = self.splat(instruction.ty, "0")?;
        let (a, b) = (self.text(a)?, self.text(b)?);
        let [rest, signs, differs, some, wrong, sum] = [0; 6].map(|_| self.fresh());
        self.line(&format!("{rest} = srem {ty} {a}, {b}"));
        self.line(&format!("{signs} = xor {ty} {rest}, {b}"));
        self.line(&format!("{differs} = icmp slt {ty} {signs}, {zero}"));
        self.line(&format!("{some} = icmp ne {ty} {rest}, {zero}"));
        self.line(&format!("{wrong} = and {bit} {differs}, {some}"));
        self.line(&format!("{sum} = add {ty} {rest}, {b}"));
        self.set(instruction.result, &format!("select {bit} {wrong}, {ty} {sum}, {ty} {rest}"));
        Ok(())
    }

    /// A conversion; one that saturates or says how it rounds is a builtin.
    fn convert(&mut self, instruction: &Instruction) -> Result<bool> {
        let Instruction { op, result, ty, .. } = *instruction;
        let from = instruction.word(0)?;
        let saturates = self.module().has(result, Decoration::SaturatedConversion);
        let rounding = self.module().decoration(result, Decoration::FPRoundingMode).is_some();
        let bits = |ty: &Type| match ty {
            Type::Int(bits) | Type::Float(bits) => *bits,
            _ => 0,
        };
        let (source, target) =
            (bits(self.types().scalar(self.type_of(from)?)?), bits(self.types().scalar(ty)?));
        if saturates || rounding {
            return Ok(false);
        }
        let name = match op {
            Op::ConvertFToU => "fptoui",
            Op::ConvertFToS => "fptosi",
            Op::ConvertUToF => "uitofp",
            Op::ConvertSToF => "sitofp",
            _ if source == target => "bitcast",
            Op::UConvert | Op::SConvert if source > target => "trunc",
            Op::UConvert => "zext",
            Op::SConvert => "sext",
            _ if source > target => "fptrunc",
            _ => "fpext",
        };
        let line = format!("{name} {} to {}", self.operand(from)?, self.types().text(ty)?);
        self.set(result, &line);
        Ok(true)
    }

    /// The members of a result of two equal members.
    fn pair(&self, ty: Id) -> Result<(Id, String, String)> {
        match self.types().get(ty)? {
            Type::Struct(members) if members.len() == 2 && members[0] == members[1] => {
                let member = members[0];
                Ok((member, self.types().text(member)?.to_string(), self.types().text(ty)?.to_string()))
            }
            _ => refuse("the result of an operation on integers is no pair"),
        }
    }

    fn set_pair(&mut self, result: Id, (ty, pair): (&str, &str), [low, high]: [&str; 2]) {
        let first = self.fresh();
        self.line(&format!("{first} = insertvalue {pair} poison, {ty} {low}, 0"));
        self.set(result, &format!("insertvalue {pair} {first}, {ty} {high}, 1"));
    }

    fn carry(&mut self, instruction: &Instruction) -> Result<()> {
        let ([a, b], _) = instruction.words()?;
        let (member, ty, pair) = self.pair(instruction.ty)?;
        let (_, count) = self.types().lanes(member)?;
        let bit = if count == 1 { "i1".to_string() } else { format!("<{count} x i1>") };
        let (a, b) = (self.text(a)?, self.text(b)?);
        let [value, over, carry] = [0; 3].map(|_| self.fresh());
        // A sum that wrapped is less than what was added; a difference that did is of less and more.
        if instruction.op == Op::IAddCarry {
            self.line(&format!("{value} = add {ty} {a}, {b}"));
            self.line(&format!("{over} = icmp ult {ty} {value}, {a}"));
        } else {
            self.line(&format!("{value} = sub {ty} {a}, {b}"));
            self.line(&format!("{over} = icmp ult {ty} {a}, {b}"));
        }
        self.line(&format!("{carry} = zext {bit} {over} to {ty}"));
        self.set_pair(instruction.result, (&ty, &pair), [&value, &carry]);
        Ok(())
    }

    fn extended_product(&mut self, instruction: &Instruction) -> Result<()> {
        let ([a, b], _) = instruction.words()?;
        let (member, ty, pair) = self.pair(instruction.ty)?;
        let name = if instruction.op == Op::UMulExtended { "ocl_u_mul_hi" } else { "ocl_s_mul_hi" };
        let symbol = self.builtin(name, &[a, b], member)?;
        let (x, y) = (self.operand(a)?, self.operand(b)?);
        let [low, high] = [0; 2].map(|_| self.fresh());
        self.line(&format!("{low} = mul {x}, {}", y.trim_start_matches(&format!("{ty} "))));
        self.line(&format!("{high} = call spir_func {ty} @{symbol}({x}, {y})"));
        self.set_pair(instruction.result, (&ty, &pair), [&low, &high]);
        Ok(())
    }
}
