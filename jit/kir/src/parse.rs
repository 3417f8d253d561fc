//! Kernel IR: the text form, read. For golden tests and for kernels written by hand; the printer defines the form.

mod operation;

use super::{
    AccessGroup, AddressSpace, Attributes, Block, Constant, Effects, Function, LoopHints, Op, Ordering,
    Passing, Promises, Scalar, Signature, Type, Value,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where the text stops being Kernel IR, and what was expected there.
#[derive(Clone, Debug, thiserror::Error)]
#[error("Kernel IR, line {line}: {message}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// What was expected or found.
    pub message: String,
}

impl ParseError {
    pub(crate) fn new(line: usize, message: &str) -> Self {
        ParseError { line, message: message.to_owned() }
    }
}

type Parse<T> = Result<T, ParseError>;

/// Reads one function. Values may be used before the line that defines them; each must be defined once.
pub fn parse(text: &str) -> Parse<Function> {
    let mut parser =
        Parser { tokens: tokenize(text), at: 0, function: Function::default(), names: HashMap::new() };
    parser.check_single_definitions()?;
    parser.function()?;
    Ok(parser.function)
}

struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn tokenize(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = line.split(';').next().unwrap_or("").trim_start();
        while let Some(first) = rest.chars().next() {
            let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
            let length = match first {
                '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                '%' | '$' | '#' => 1 + rest[1..].find(|c: char| !word(c)).unwrap_or(rest.len() - 1),
                c if word(c) => rest.find(|c: char| !word(c)).unwrap_or(rest.len()),
                c => c.len_utf8(),
            };
            tokens.push(Token { text: &rest[..length], line: number + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    function: Function,
    names: HashMap<&'a str, Value>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |t| t.text)
    }

    fn next(&mut self) -> &'a str {
        let text = self.peek();
        self.at += 1;
        text
    }

    fn fail<T>(&self, message: impl Into<String>) -> Parse<T> {
        let last = self.tokens.len().saturating_sub(1);
        let line = self.tokens.get(self.at.saturating_sub(1).min(last)).map_or(1, |t| t.line);
        Err(ParseError { line, message: message.into() })
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.peek() == text;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Parse<()> {
        let found = self.next();
        if found == text { Ok(()) } else { self.fail(format!("expected `{text}`, found `{found}`")) }
    }

    fn number<T: std::str::FromStr>(&mut self) -> Parse<T> {
        let text = self.next();
        text.parse().or_else(|_| self.fail(format!("expected a number, found `{text}`")))
    }

    fn prefixed<T: std::str::FromStr>(&mut self, prefix: &str) -> Parse<T> {
        let text = self.next();
        let number = text.strip_prefix(prefix).and_then(|n| n.parse().ok());
        number.map_or_else(|| self.fail(format!("expected `{prefix}n`, found `{text}`")), Ok)
    }

    fn quoted(&mut self) -> Parse<Arc<str>> {
        self.accept("@");
        let text = self.next();
        let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
        inner.map_or_else(|| self.fail(format!("expected a quoted name, found `{text}`")), |t| Ok(t.into()))
    }

    /// Items up to `close`, with commas between them.
    fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut items = Vec::new();
        while !self.accept(close) {
            items.push(item(self)?);
            if !self.accept(",") && self.peek() != close {
                return self.fail(format!("expected `,` or `{close}`, found `{}`", self.peek()));
            }
        }
        Ok(items)
    }

    fn ty(&mut self) -> Parse<Type> {
        match self.peek() {
            "<" => {
                self.at += 1;
                let n = self.number()?;
                self.expect("x")?;
                let element = self.ty()?;
                self.expect(">")?;
                match element {
                    Type::Scalar(s) => Ok(Type::Vector(s, n)),
                    _ => self.fail("a vector's lanes are scalars"),
                }
            }
            "[" => {
                self.at += 1;
                let n = self.number()?;
                self.expect("x")?;
                let element = self.ty()?;
                self.expect("]")?;
                Ok(Type::Array(Arc::new(element), n))
            }
            "{" => {
                self.at += 1;
                Ok(Type::Struct(self.list("}", Self::ty)?.into()))
            }
            _ => Ok(Type::Scalar(self.scalar()?)),
        }
    }

    fn scalar(&mut self) -> Parse<Scalar> {
        let text = self.next();
        match text {
            "f16" => Ok(Scalar::Half),
            "f32" => Ok(Scalar::Float),
            "f64" => Ok(Scalar::Double),
            "ptr" => {
                self.expect("(")?;
                let name = self.next();
                self.expect(")")?;
                let space = AddressSpace::ALL.into_iter().find(|s| s.to_string() == name);
                space.map_or_else(
                    || self.fail(format!("no address space `{name}`")),
                    |s| Ok(Scalar::Pointer(s)),
                )
            }
            _ => match text.strip_prefix('i').and_then(|n| n.parse().ok()) {
                Some(bits @ 1..=128) => Ok(Scalar::Int(bits)),
                _ => self.fail(format!("expected a type, found `{text}`")),
            },
        }
    }

    fn check_single_definitions(&mut self) -> Parse<()> {
        let mut seen = HashSet::new();
        for (i, pair) in self.tokens.windows(2).enumerate() {
            if pair[0].text.starts_with('%') && pair[1].text == ":" && !seen.insert(pair[0].text) {
                self.at = i + 1;
                return self.fail(format!("{} is defined twice", pair[0].text));
            }
        }
        Ok(())
    }

    fn function(&mut self) -> Parse<()> {
        let is_kernel = self.accept("kernel");
        if !is_kernel {
            self.expect("function")?;
        }
        self.function.name = self.quoted()?.to_string();
        self.expect("(")?;
        if is_kernel {
            self.list(")", Self::param)?;
        } else {
            self.list(")", Self::argument)?;
            let result = if self.accept("yields") { Some(self.ty()?) } else { None };
            self.function.signature = Signature::Function { result };
            let effects = Effects {
                reads: !self.accept("no_reads"),
                writes: !self.accept("no_writes"),
                traps: !self.accept("returns"),
            };
            let (noinline, cold) = (self.accept("noinline"), self.accept("cold"));
            self.function.attributes = Attributes { effects, noinline, cold };
        }
        self.expect("{")?;
        self.header()?;
        let body = self.at;
        self.block_headers(body)?;
        self.at = body;
        while !self.accept("}") {
            self.block_body()?;
        }
        Ok(())
    }

    fn param(&mut self) -> Parse<()> {
        let name = self.next();
        self.expect(":")?;
        let ty = self.ty()?;
        self.expect("@")?;
        let offset = self.number()?;
        let passing = match self.peek() {
            "small" => Passing::Small,
            "local_offset" => Passing::LocalOffset,
            "by_address" => Passing::ByAddress,
            _ => Passing::Direct,
        };
        self.at += usize::from(passing != Passing::Direct);
        let value = self.function.add_param(ty, offset, passing);
        self.names.insert(name, value);
        Ok(())
    }

    fn argument(&mut self) -> Parse<()> {
        let name = self.next();
        self.expect(":")?;
        let ty = self.ty()?;
        let promises = Promises {
            noalias: self.accept("noalias"),
            nonnull: self.accept("nonnull"),
            readonly: self.accept("readonly"),
            nocapture: self.accept("nocapture"),
            align: if self.accept("align") { self.number()? } else { 0 },
        };
        let value = self.function.add_argument(ty, promises);
        self.names.insert(name, value);
        Ok(())
    }

    fn header(&mut self) -> Parse<()> {
        loop {
            if self.accept("slot") {
                self.prefixed::<u32>("$")?;
                self.expect(":")?;
                let size = self.number()?;
                self.expect("align")?;
                let align = self.number()?;
                self.function.add_slot(size, align);
            } else if self.accept("local") {
                self.function.local_size = self.number()?;
            } else if self.accept("work_group_size") {
                self.function.required_work_group_size =
                    Some([self.number()?, self.number()?, self.number()?]);
                self.function.remainder_groups = self.accept("or_remainder");
            } else if self.accept("rows_along") {
                self.function.row_dimension = self.number()?;
            } else if self.accept("sub_group_size") {
                self.function.required_sub_group_size = Some(self.number()?);
            } else if self.accept("id_factor") {
                self.function.id_factor = self.number()?;
            } else if self.accept("group_factors") {
                self.function.group_factors = [self.number()?, self.number()?, self.number()?];
            } else {
                return Ok(());
            }
        }
    }

    fn is_block_header(&self, at: usize) -> bool {
        let text = |i: usize| self.tokens.get(i).map_or("", |t| t.text);
        let name = text(at).strip_prefix('b').is_some_and(|n| n.parse::<u32>().is_ok());
        let line = |i: usize| self.tokens.get(i).map(|token| token.line);
        let first_on_line = at == 0 || line(at - 1) != line(at);
        name && first_on_line && matches!(text(at + 1), ":" | "(")
    }

    /// Makes the blocks, their parameters and a value for each instruction's result.
    fn block_headers(&mut self, body: usize) -> Parse<()> {
        for at in body..self.tokens.len() {
            if self.is_block_header(at) {
                self.at = at;
                if self.prefixed::<usize>("b")? != self.function.blocks.len() {
                    return self.fail("blocks are numbered in order");
                }
                let block = self.function.add_block();
                if self.accept("(") {
                    self.list(")", |p| {
                        let name = p.next();
                        p.expect(":")?;
                        let ty = p.ty()?;
                        let value = p.function.add_block_param(block, ty);
                        p.names.insert(name, value);
                        Ok(())
                    })?;
                }
            }
        }
        // Results: a placeholder operation is replaced when its line is read.
        let mut block = None;
        for at in body..self.tokens.len() {
            if self.is_block_header(at) {
                block = Some(Block(block.map_or(0, |b: Block| b.0 + 1)));
            }
            let starts_line = at == body || self.tokens[at - 1].line != self.tokens[at].line;
            if let (Some(block), true, true) = (block, starts_line, self.tokens[at].text.starts_with('%')) {
                self.at = at;
                let name = self.next();
                self.expect(":")?;
                let ty = self.ty()?;
                let value = self.function.push(block, ty, Op::Fence(Ordering::SeqCst));
                self.names.insert(name, value);
            } else if let (Some(block), true, true) = (block, starts_line, is_effect(self.tokens[at].text)) {
                self.function.push_effect(block, Op::Fence(Ordering::SeqCst));
            }
        }
        Ok(())
    }

    fn block_body(&mut self) -> Parse<()> {
        if !self.is_block_header(self.at) {
            return self.fail(format!("expected a block, found `{}`", self.peek()));
        }
        let block = Block(self.prefixed("b")?);
        if self.accept("(") {
            // `block_headers` made the parameters.
            self.list(")", |p| {
                p.at += 2;
                p.ty()
            })?;
        }
        self.expect(":")?;
        for i in 0..self.function.block(block).insts.len() {
            let inst = self.function.block(block).insts[i];
            if self.peek().starts_with('%') {
                self.at += 2;
                self.ty()?;
                self.expect("=")?;
            }
            let op = self.op()?;
            *self.function.op_mut(inst) = op;
            if self.accept(",") {
                self.expect("parallel")?;
                let group = AccessGroup(self.number()?);
                self.function.set_access_group(inst, Some(group));
            }
        }
        let terminator = self.terminator()?;
        self.function.set_terminator(block, terminator);
        if self.accept(",") {
            self.function.blocks[block.index()].loop_hints = Some(self.loop_hints()?);
        }
        Ok(())
    }

    fn loop_hints(&mut self) -> Parse<LoopHints> {
        self.expect("loop")?;
        Ok(LoopHints {
            parallel: if self.accept("parallel") { Some(AccessGroup(self.number()?)) } else { None },
            no_vectorize: self.accept("no_vectorize"),
            no_unroll: self.accept("no_unroll"),
            no_hoist: self.accept("no_hoist"),
        })
    }

    fn value(&mut self) -> Parse<Value> {
        let text = self.peek();
        if text.starts_with('%') {
            self.at += 1;
            let found = self.names.get(text).copied();
            return found.map_or_else(|| self.fail(format!("{text} is not defined")), Ok);
        }
        let (ty, constant) = self.literal()?;
        Ok(self.function.constant(ty, constant))
    }

    fn literal(&mut self) -> Parse<(Type, Constant)> {
        if self.accept("[") {
            let elements = self.list("]", Self::literal)?;
            self.expect(":")?;
            return Ok((self.ty()?, Constant::Elements(elements)));
        }
        let text = self.next();
        self.expect(":")?;
        let ty = self.ty()?;
        let constant = match text {
            "zero" => Some(Constant::Zero),
            "undef" => Some(Constant::Undef),
            "poison" => Some(Constant::Poison),
            _ if ty.is_float() => {
                text.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok()).map(Constant::Float)
            }
            _ => text.parse().ok().map(Constant::Int),
        };
        match constant {
            Some(constant) => Ok((ty, constant)),
            None => self.fail(format!("`{text}` is no constant of type {ty}")),
        }
    }

    fn values(&mut self, n: usize) -> Parse<Vec<Value>> {
        let mut values = vec![self.value()?];
        while values.len() < n {
            self.expect(",")?;
            values.push(self.value()?);
        }
        Ok(values)
    }
}

/// Whether a line that starts with this word is an instruction without a result.
fn is_effect(word: &str) -> bool {
    let words = [
        "store",
        "masked_store",
        "nontemporal_store",
        "streaming_fence",
        "set_exit",
        "fence",
        "context_store",
        "call",
        "intrinsic",
    ];
    words.contains(&word)
}

#[cfg(test)]
mod tests;
