//! The LLVM back end: gathers of bytes and of 16 bits. No processor has them, and LLVM takes them apart: an index out of its vector, a
//! load, an element into a vector, for each lane. Instead the aligned words of 32 bits are gathered that the elements lie in, and these
//! shifted out. Such a word is on the page of its element, so that it can be read where that can.

use crate::back::llvm::Translator;
use crate::back::llvm::types::llvm_type;
use spirula_interface::program::MEMORY_SYMBOL;
use spirula_kir::{Inst, Op, Scalar, Type, Value};

/// Lanes of which it pays: fewer are taken apart as fast.
const LEAST_LANES: u32 = 8;

/// Bytes of what is gathered.
const WORD: u32 = 4;

/// LLVM knows how large private variables are. Of whole words, all words that elements lie in are theirs.
pub(in crate::back::llvm) fn private_variable(size: u64, align: u64) -> String {
    let (size, align) = (size.next_multiple_of(WORD.into()), align.max(WORD.into()));
    format!("alloca [{size} x i8], align {align}")
}

impl Translator<'_> {
    /// Whether a load in lanes is one that this is for. (That words stay in a linear memory can't be seen in the machine's code.)
    pub(super) fn is_narrow_gather(&self, ty: &Type, pointer: Value, align: u32) -> bool {
        let Type::Vector(Scalar::Int(bits @ (8 | 16)), lanes) = ty else { return false };
        matches!(self.function.ty(pointer), Type::Vector(..))
            && *lanes >= LEAST_LANES
            && align * 8 >= *bits
            && !self.is_in_linear_memory(pointer)
    }

    fn is_in_linear_memory(&self, pointer: Value) -> bool {
        match self.function.defining_op(pointer) {
            Some(Op::Address { base, .. }) => self.is_in_linear_memory(*base),
            Some(Op::GlobalAddress(name)) => &**name == MEMORY_SYMBOL,
            _ => false,
        }
    }

    /// Loads of an element for each lane of the mask; the others have anything.
    pub(super) fn narrow_gather(
        &mut self,
        inst: Inst,
        (name, ty): (&str, &Type),
        (pointer, mask): (Value, Value),
    ) {
        let lanes = ty.lanes();
        let access = self.access(inst, pointer, true);
        let numbers = format!("<{lanes} x i64>");
        let (words, pointers) = (format!("<{lanes} x i32>"), format!("<{lanes} x ptr>"));
        let apart = match self.uniform_base(name, pointer) {
            Some((base, offset)) => self.words_from_base(name, lanes, &base, &offset),
            None => self.words_anywhere(name, lanes, &self.text(pointer)),
        };
        let callee = format!("llvm.masked.gather.v{lanes}i32.v{lanes}p0");
        let mask_type = self.ty(mask);
        let mask = self.text(mask);
        self.out.declare(&callee, format!("declare {words} @{callee}({pointers}, {mask_type}, {words})"));
        self.out.line(&format!(
            "{name}.m = call {words} @{callee}({pointers} align {WORD} {name}.w, {mask_type} {mask}, {words} poison){access}"
        ));
        self.out.line(&format!("{name}.f = freeze {words} {name}.m"));
        // Little-endian: a byte further is eight bits further.
        self.out.line(&format!("{name}.b = and {numbers} {apart}, splat (i64 {})", WORD - 1));
        self.out.line(&format!("{name}.n = trunc {numbers} {name}.b to {words}"));
        self.out.line(&format!("{name}.s = shl {words} {name}.n, splat (i32 3)"));
        self.out.line(&format!("{name}.e = lshr {words} {name}.f, {name}.s"));
        self.out.line(&format!("{name} = trunc {words} {name}.e to {}", llvm_type(ty)));
    }

    /// The words' addresses as `.w`, from where all lanes count: LLVM sees where indices have 32 bits. Yields the elements' places.
    fn words_from_base(&mut self, name: &str, lanes: u32, base: &str, offset: &str) -> String {
        let (numbers, last) = (format!("<{lanes} x i64>"), WORD - 1);
        self.out.declare("llvm.ptrmask.p0.i64", "declare ptr @llvm.ptrmask.p0.i64(ptr, i64)".into());
        self.out.line(&format!("{name}.p = call ptr @llvm.ptrmask.p0.i64(ptr {base}, i64 -{WORD})"));
        self.out.line(&format!("{name}.i = ptrtoint ptr {base} to i64"));
        self.out.line(&format!("{name}.r = and i64 {name}.i, {last}"));
        self.out.line(&format!("{name}.q = insertelement {numbers} poison, i64 {name}.r, i64 0"));
        self.out.line(&format!(
            "{name}.a = shufflevector {numbers} {name}.q, {numbers} poison, <{lanes} x i32> zeroinitializer"
        ));
        self.out.line(&format!("{name}.o = add {numbers} {offset}, {name}.a"));
        self.out.line(&format!("{name}.x = and {numbers} {name}.o, splat (i64 -{WORD})"));
        self.out.line(&format!("{name}.w = getelementptr i8, ptr {name}.p, {numbers} {name}.x"));
        format!("{name}.o")
    }

    /// The same for pointers of any kind.
    fn words_anywhere(&mut self, name: &str, lanes: u32, pointer: &str) -> String {
        let (numbers, pointers) = (format!("<{lanes} x i64>"), format!("<{lanes} x ptr>"));
        let callee = format!("llvm.ptrmask.v{lanes}p0.v{lanes}i64");
        self.out.declare(&callee, format!("declare {pointers} @{callee}({pointers}, {numbers})"));
        self.out.line(&format!(
            "{name}.w = call {pointers} @{callee}({pointers} {pointer}, {numbers} splat (i64 -{WORD}))"
        ));
        self.out.line(&format!("{name}.i = ptrtoint {pointers} {pointer} to {numbers}"));
        format!("{name}.i")
    }

    /// The pointer that all lanes' addresses count from, and how far from there they are, in bytes, as texts; None if there is none.
    fn uniform_base(&mut self, name: &str, pointer: Value) -> Option<(String, String)> {
        let &Op::Address { base, index: Some(index), scale, offset, .. } =
            self.function.defining_op(pointer)?
        else {
            return None;
        };
        if matches!(self.function.ty(base), Type::Vector(..)) {
            return None;
        }
        let (numbers, index) = (self.ty(index), self.text(index));
        let base = self.text(base);
        self.out.line(&format!("{name}.c = getelementptr i8, ptr {base}, i64 {offset}"));
        self.out.line(&format!("{name}.d = mul {numbers} {index}, splat (i64 {scale})"));
        Some((format!("{name}.c"), format!("{name}.d")))
    }
}
