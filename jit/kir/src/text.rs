//! Kernel IR: the text form of a whole module, written and read. Functions stand in it as they stand alone.

use crate::parse::{ParseError, parse};
use crate::{ConstantData, Module, Pointer, Signature};
use spirula_interface::address_bits::AddressBits;
use spirula_interface::program::ProgramData;
use std::fmt::{self, Display, Formatter};

/// Bytes as two digits each, between quotes.
struct Hex<'b>(&'b [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str("\"")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("\"")
    }
}

impl Display for ConstantData {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let ConstantData { name, align, size, bytes, pointers } = self;
        writeln!(f, "constant \"{name}\" size {size} align {align} {}", Hex(bytes))?;
        pointers.iter().try_for_each(|p| writeln!(f, "  pointer {} \"{}\" {}", p.at, p.target, p.offset))
    }
}

impl Display for Module {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.constants.iter().try_for_each(|constant| write!(f, "{constant}"))?;
        let ProgramData { size, variables, align, image, pointers, addresses } = &self.data;
        if *size > 0 {
            let offsets = if addresses.is_linear() { "offsets " } else { "" };
            write!(f, "variables size {size} ")?;
            if variables != size {
                write!(f, "changing {variables} ")?;
            }
            writeln!(f, "align {align} {offsets}{}", Hex(image))?;
            pointers.iter().try_for_each(|(at, target)| writeln!(f, "  pointer {at} {target}"))?;
        }
        self.functions.iter().try_for_each(|function| write!(f, "{function}"))?;
        self.kernels.iter().try_for_each(|kernel| {
            // A work-group function looks like any other.
            let host = if kernel.signature == Signature::Kernel { "" } else { "host " };
            write!(f, "{host}{kernel}")
        })
    }
}

/// Reads a module. Rules that reach beyond a function are the verifier's.
pub fn parse_module(text: &str) -> Result<Module, ParseError> {
    let mut module = Module::default();
    for (line, chunk) in chunks(text) {
        let at = |error: ParseError| ParseError { line: error.line + line, ..error };
        match chunk.split_whitespace().next() {
            Some("kernel") => module.kernels.push(parse(chunk).map_err(at)?),
            Some("host") => module.kernels.push(parse(&chunk["host".len()..]).map_err(at)?),
            Some("function") => module.functions.push(parse(chunk).map_err(at)?),
            Some("constant") => {
                let constant = constant(chunk).ok_or("a constant is malformed");
                module.constants.push(constant.map_err(|message| at(ParseError::new(1, message)))?);
            }
            Some("variables") => {
                let data = variables(chunk).ok_or("the block of variables is malformed");
                module.data = data.map_err(|message| at(ParseError::new(1, message)))?;
            }
            _ => {
                let message = "expected `kernel`, `host`, `function`, `constant` or `variables`";
                return Err(at(ParseError::new(1, message)));
            }
        }
    }
    Ok(module)
}

/// What begins at the left edge, with all lines to the next such thing, and the number of lines before it.
fn chunks(text: &str) -> Vec<(usize, &str)> {
    let starts = |line: &str| {
        let first = line.split_whitespace().next().unwrap_or("");
        line.starts_with(|c: char| c.is_ascii_lowercase()) && !first.starts_with('b')
    };
    let mut list: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if starts(line) || (list.is_empty() && !line.trim().is_empty() && !line.starts_with(';')) {
            list.push((number, at));
        }
        at += line.len();
    }
    let ends = list.iter().skip(1).map(|(_, at)| *at).chain([text.len()]);
    list.iter().zip(ends).map(|((number, at), end)| (*number, &text[*at..end])).collect()
}

/// The words of a chunk's first line behind the keyword, and of each pointer's line.
fn words(chunk: &str) -> Option<(Vec<&str>, Vec<Vec<&str>>)> {
    let mut lines = chunk.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let head = lines.next()?.split_off(1);
    let mut pointers = Vec::new();
    for mut line in lines.filter(|line| !line.is_empty()) {
        if line.remove(0) != "pointer" {
            return None;
        }
        pointers.push(line);
    }
    Some((head, pointers))
}

fn unquoted(word: &str) -> Option<&str> {
    word.strip_prefix('"')?.strip_suffix('"')
}

fn bytes(word: &str) -> Option<Vec<u8>> {
    let digits = unquoted(word)?.as_bytes();
    let digit = |d: u8| char::from(d).to_digit(16).map(|d| d as u8);
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

fn constant(chunk: &str) -> Option<ConstantData> {
    let (head, lines) = words(chunk)?;
    let [name, "size", size, "align", align, data] = head[..] else { return None };
    let pointer = |line: &Vec<&str>| {
        let [at, target, offset] = line[..] else { return None };
        let offset = offset.parse().ok()?;
        Some(Pointer { at: at.parse().ok()?, target: unquoted(target)?.into(), offset })
    };
    Some(ConstantData {
        name: unquoted(name)?.into(),
        align: align.parse().ok()?,
        size: size.parse().ok()?,
        bytes: bytes(data)?,
        pointers: lines.iter().map(pointer).collect::<Option<_>>()?,
    })
}

fn variables(chunk: &str) -> Option<ProgramData> {
    let (head, lines) = words(chunk)?;
    let (size, variables, align, rest) = match &head[..] {
        ["size", size, "align", align, rest @ ..] => (size, size, align, rest),
        ["size", size, "changing", variables, "align", align, rest @ ..] => (size, variables, align, rest),
        _ => return None,
    };
    let (addresses, data) = match rest {
        ["offsets", data] => (AddressBits::Bits32, data),
        [data] => (AddressBits::Bits64, data),
        _ => return None,
    };
    let pointer = |line: &Vec<&str>| {
        let [at, target] = line[..] else { return None };
        Some((at.parse().ok()?, target.parse().ok()?))
    };
    Some(ProgramData {
        size: size.parse().ok()?,
        variables: variables.parse().ok()?,
        align: align.parse().ok()?,
        image: bytes(data)?,
        pointers: lines.iter().map(pointer).collect::<Option<_>>()?,
        addresses,
    })
}
