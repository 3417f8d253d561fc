//! A function's body: blocks, control flow and what each instruction becomes.

use super::constants::Constants;
use super::module::{Function, Module};
use super::stream::Instruction;
use super::types::{Type, Types, pointer_text};
use super::write::Globals;
use super::{Id, Result, refuse, spirv};
use crate::builtin::spirv::components;
use crate::llvm::quoted;
use spirv::Op;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Characters of a function: one that has a value for each of many ways to come to a block would be of any length.
const MAX_TEXT: usize = 256 << 20;

/// A function that is being written.
pub struct Body<'b, 'm> {
    globals: &'b Globals<'m>,
    /// What is called and isn't the module's: names and declarations.
    declarations: &'b mut BTreeMap<String, String>,
    /// How often a block goes to another.
    edges: HashMap<(Id, Id), usize>,
    out: String,
    next: u32,
    /// What was loaded from built-in variables of several components: which.
    components: HashMap<Id, Id>,
    /// The block that is being written.
    block: Id,
    /// What stands behind each instruction: its line.
    location: String,
    /// The locations' scope, if there are locations.
    lines: Option<&'b mut Lines>,
}

/// Locations of a module: metadata from a number on.
#[derive(Debug, Default)]
pub struct Lines {
    pub text: String,
    pub next: u32,
    /// By scope, line and column.
    known: HashMap<(u32, u32, u32), u32>,
    /// By the subprogram and the string that is a file's name.
    scopes: HashMap<(u32, Id), u32>,
    /// The subprogram of the function that is being written.
    pub subprogram: u32,
}

impl Lines {
    /// None yet, which will have numbers from this one on.
    pub fn from(next: u32) -> Lines {
        Lines { next, ..Lines::default() }
    }

    /// The number of a new node.
    pub fn node(&mut self, text: &str) -> u32 {
        let number = self.next;
        self.next += 1;
        self.text += &format!("!{number} = {text}\n");
        number
    }

    /// The number of what is of a file in the function that is being written.
    fn scope(&mut self, strings: &HashMap<Id, String>, file: Id) -> u32 {
        let subprogram = self.subprogram;
        let Some(name) = strings.get(&file) else { return subprogram };
        if let Some(&known) = self.scopes.get(&(subprogram, file)) {
            return known;
        }
        let name = self.node(&format!("!DIFile(filename: {}, directory: \"\")", quoted(name)));
        let scope = format!("!DILexicalBlockFile(scope: !{subprogram}, file: !{name}, discriminator: 0)");
        let scope = self.node(&scope);
        self.scopes.insert((subprogram, file), scope);
        scope
    }

    /// The number of a location.
    fn location(&mut self, scope: u32, line: u32, column: u32) -> u32 {
        // LLVM keeps 16 bits of columns.
        let column = column.min(0xFFFF);
        let key = (scope, line, column);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let node = self.node(&format!("!DILocation(line: {line}, column: {column}, scope: !{scope})"));
        self.known.insert(key, node);
        node
    }
}

/// The text of a function's blocks.
pub fn body<'m>(
    globals: &Globals<'m>,
    function: &Function<'m>,
    declarations: &mut BTreeMap<String, String>,
    lines: Option<&mut Lines>,
) -> Result<String> {
    let mut body = Body {
        globals,
        declarations,
        edges: HashMap::new(),
        out: String::new(),
        next: 0,
        components: HashMap::new(),
        block: 0,
        location: String::new(),
        lines,
    };
    body.edges = body.edges(function)?;
    body.locate(0, 0, 0);
    let variables = variables(globals, function);
    let mut is_open = false;
    for instruction in &function.body {
        if body.out.len() > MAX_TEXT {
            return refuse("a function is too large");
        }
        if let Some((file, line, column)) = globals.module.line(instruction) {
            let number = |id| globals.constants.unsigned(id).unwrap_or(0) as u32;
            body.locate(file, number(line), number(column));
            continue;
        }
        match instruction.op {
            Op::Label if is_open => return refuse("a block begins where another has no end"),
            Op::Label => {
                let is_first = body.block == 0;
                body.block = instruction.result;
                is_open = true;
                body.out += &format!("b{}:\n", instruction.result);
                if is_first {
                    for &variable in &variables {
                        body.built_in(variable)?;
                    }
                }
            }
            Op::Line => body.locate(instruction.word(0)?, instruction.word(1)?, instruction.word(2)?),
            Op::NoLine => body.locate(0, 0, 0),
            Op::Nop | Op::LoopMerge | Op::SelectionMerge | Op::Name => {}
            _ if !is_open => return refuse(format!("Op{:?} stands in no block", instruction.op)),
            _ => {
                if body.terminator(instruction)? {
                    is_open = false;
                } else {
                    body.instruction(instruction)?;
                }
            }
        }
    }
    if is_open || body.block == 0 {
        return refuse("a function's last block has no end");
    }
    Ok(body.out)
}

/// The function that asks for a component of a built-in variable that has so many, or for all of it.
fn component_function(name: &str, count: u32) -> String {
    let parameter = if count == 1 { 'v' } else { 'i' };
    format!("_Z{}__spirv_BuiltIn{name}{parameter}", name.len() + 15)
}

/// The built-in variables that a function uses, in their order.
fn variables(globals: &Globals, function: &Function) -> Vec<Id> {
    let words = function.body.iter().flat_map(|instruction| instruction.operands);
    let mut used: Vec<Id> = words.copied().filter(|id| globals.built_in.contains_key(id)).collect();
    used.sort_unstable();
    used.dedup();
    used
}

impl<'b, 'm> Body<'b, 'm> {
    pub fn module(&self) -> &'b Module<'m> {
        self.globals.module
    }

    pub fn types(&self) -> &'b Types {
        &self.globals.types
    }

    pub fn constants(&self) -> &'b Constants {
        &self.globals.constants
    }

    pub fn globals(&self) -> &'b Globals<'m> {
        self.globals
    }

    /// A line of the text.
    pub fn line(&mut self, text: &str) {
        self.out += "  ";
        self.out += text;
        self.out += &self.location;
        self.out.push('\n');
    }

    /// An instruction whose result is an id.
    pub fn set(&mut self, id: Id, text: &str) {
        self.line(&format!("%v{id} = {text}"));
    }

    /// A name that no other value has.
    pub fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%t{}", self.next)
    }

    /// What follows is of this place in the file that the string names.
    fn locate(&mut self, file: Id, line: u32, column: u32) {
        if let Some(lines) = &mut self.lines {
            let scope = lines.scope(&self.globals.module.strings, file);
            self.location = format!(", !dbg !{}", lines.location(scope, line, column));
        }
    }

    /// Where the blocks of a function go, one for each edge.
    fn edges(&self, function: &Function) -> Result<HashMap<(Id, Id), usize>> {
        let mut edges = HashMap::new();
        let mut block = 0;
        for instruction in &function.body {
            let targets = match instruction.op {
                Op::Label => {
                    block = instruction.result;
                    continue;
                }
                Op::Branch => vec![instruction.word(0)?],
                Op::BranchConditional => vec![instruction.word(1)?, instruction.word(2)?],
                Op::Switch => {
                    let (_, cases) = self.cases(instruction)?;
                    [instruction.word(1)?].into_iter().chain(cases.into_iter().map(|case| case.1)).collect()
                }
                _ => continue,
            };
            for target in targets {
                *edges.entry((block, target)).or_default() += 1;
            }
        }
        Ok(edges)
    }

    /// The type of a value.
    pub fn type_of(&self, id: Id) -> Result<Id> {
        match self.constants().get(id) {
            Some((ty, _)) => Ok(ty),
            None => match self.module().types_of.get(&id) {
                Some(&ty) => Ok(ty),
                None => refuse(format!("the id {id} is used as a value and is none")),
            },
        }
    }

    /// A value without its type.
    pub fn text(&self, id: Id) -> Result<Rc<str>> {
        if let Some(text) = self.constants().text(id) {
            return Ok(text);
        }
        self.type_of(id)?;
        Ok(format!("%v{id}").into())
    }

    /// A value with its type.
    pub fn operand(&self, id: Id) -> Result<String> {
        let ty = self.type_of(id)?;
        if !self.types().is_value(ty)? {
            return refuse(format!("the id {id} is used as a value and has none"));
        }
        Ok(format!("{} {}", self.types().text(ty)?, self.text(id)?))
    }

    /// A pointer with its type.
    pub fn pointer(&self, id: Id) -> Result<String> {
        self.types().space(self.type_of(id)?)?;
        self.operand(id)
    }

    pub fn is_declared(&self, name: &str) -> bool {
        self.declarations.contains_key(name)
    }

    /// Whether there is another declaration of that name.
    pub fn is_declared_otherwise(&self, name: &str, declaration: &str) -> bool {
        self.declarations.get(name).is_some_and(|known| known != declaration)
    }

    /// A function that isn't the module's, declared once. Refuses a second one of that name.
    pub fn declare(&mut self, name: &str, declaration: String) -> Result<()> {
        match self.declarations.get(name) {
            Some(known) if *known != declaration => {
                refuse(format!("`{name}` is used with several types: `{known}`, `{declaration}`"))
            }
            Some(_) => Ok(()),
            None => {
                self.declarations.insert(name.to_string(), declaration);
                Ok(())
            }
        }
    }

    /// A copy of a built-in variable, which is what its uses see.
    fn built_in(&mut self, variable: Id) -> Result<()> {
        let Some((name, pointee)) = self.globals.built_in.get(&variable) else { return Ok(()) };
        let (element, count) = self.types().lanes(*pointee)?;
        let (ty, lane) = (self.types().text(*pointee)?.to_string(), self.types().text(element)?.to_string());
        let known = components(name);
        if known == 0 || known > 1 && known != count as usize || known == 1 && count > 1 {
            return refuse(format!("the built-in variable {name} of {count} components isn't supported"));
        }
        // Translators before SPIR-V 1.1's have it in the storage class UniformConstant.
        let space = self.types().space(self.type_of(variable)?)?;
        let place = if space == 0 { format!("%v{variable}") } else { self.fresh() };
        self.line(&format!("{place} = alloca {ty}"));
        if space != 0 {
            self.set(variable, &format!("addrspacecast ptr {place} to {}", pointer_text(space)));
        }
        let symbol = component_function(name, count);
        let parameter = if count == 1 { "" } else { "i32" };
        self.declare(&symbol, format!("declare spir_func {lane} @{symbol}({parameter})"))?;
        let mut whole = "poison".to_string();
        for index in 0..count {
            let (part, joined) = (self.fresh(), self.fresh());
            if count == 1 {
                self.line(&format!("{part} = call spir_func {lane} @{symbol}()"));
                whole = part;
                continue;
            }
            self.line(&format!("{part} = call spir_func {lane} @{symbol}(i32 {index})"));
            self.line(&format!("{joined} = insertelement {ty} {whole}, {lane} {part}, i32 {index}"));
            whole = joined;
        }
        self.line(&format!("store {ty} {whole}, ptr {place}"));
        Ok(())
    }

    /// Notes what a load may be of.
    pub fn loaded(&mut self, result: Id, place: Id) {
        if self.globals.built_in.contains_key(&place) {
            self.components.insert(result, place);
        }
    }

    /// The component of a vector whose number is computed. Translators make it of `get_global_size(n)`, which has a value for every
    /// n: a built-in variable's is asked for by that number.
    pub fn component(&mut self, result: Id, vector: Id, index: Id) -> Result<()> {
        let built_in = self.components.get(&vector).and_then(|place| self.globals.built_in.get(place));
        let Some((name, pointee)) = built_in else {
            let line = format!("extractelement {}, {}", self.operand(vector)?, self.operand(index)?);
            self.set(result, &line);
            return Ok(());
        };
        let (element, count) = self.types().lanes(*pointee)?;
        let Type::Int(bits) = *self.types().get(self.type_of(index)?)? else {
            return refuse("the number of a component is no integer");
        };
        let (number, index) = (self.fresh(), self.operand(index)?);
        match bits {
            32 => self.line(&format!("{number} = freeze {index}")),
            64 => self.line(&format!("{number} = trunc {index} to i32")),
            _ => self.line(&format!("{number} = zext {index} to i32")),
        }
        let line = format!(
            "call spir_func {} @{}(i32 {number})",
            self.types().text(element)?,
            component_function(name, count)
        );
        self.set(result, &line);
        Ok(())
    }

    /// What ends a block; whether it was that.
    fn terminator(&mut self, instruction: &Instruction) -> Result<bool> {
        match instruction.op {
            Op::Branch => self.line(&format!("br label %b{}", instruction.word(0)?)),
            Op::BranchConditional => {
                let ([condition, yes, no], _) = instruction.words()?;
                let line = format!("br {}, label %b{yes}, label %b{no}", self.operand(condition)?);
                self.line(&line);
            }
            Op::Switch => self.switch(instruction)?,
            Op::Return => self.line("ret void"),
            Op::ReturnValue => {
                let value = self.operand(instruction.word(0)?)?;
                self.line(&format!("ret {value}"));
            }
            Op::Unreachable => self.line("unreachable"),
            Op::Kill | Op::TerminateInvocation => return refuse("OpKill isn't supported"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The cases of a switch: literals and blocks.
    fn cases(&self, instruction: &Instruction) -> Result<(u32, Vec<(u64, Id)>)> {
        let Type::Int(bits) = *self.types().get(self.type_of(instruction.word(0)?)?)? else {
            return refuse("OpSwitch is by a value that is no integer");
        };
        let rest = &instruction.operands[2.min(instruction.operands.len())..];
        let size = if bits > 32 { 3 } else { 2 };
        if !rest.len().is_multiple_of(size) {
            return refuse("OpSwitch has a case without a block");
        }
        let case = |words: &[u32]| match *words {
            [low, high, block] => (u64::from(low) | u64::from(high) << 32, block),
            [low, block] => (super::fold::truncated(u64::from(low), bits), block),
            _ => (0, 0),
        };
        Ok((bits, rest.chunks_exact(size).map(case).collect()))
    }

    fn switch(&mut self, instruction: &Instruction) -> Result<()> {
        let (bits, cases) = self.cases(instruction)?;
        let selector = self.operand(instruction.word(0)?)?;
        let cases: String =
            cases.iter().map(|(value, block)| format!(" i{bits} {value}, label %b{block}")).collect();
        let line = format!("switch {selector}, label %b{} [{cases} ]", instruction.word(1)?);
        self.line(&line);
        Ok(())
    }

    /// Whatever doesn't end a block.
    fn instruction(&mut self, instruction: &Instruction) -> Result<()> {
        match instruction.op {
            Op::Phi => self.phi(instruction),
            Op::Undef => {
                let ty = self.types().text(instruction.ty)?.to_string();
                self.set(instruction.result, &format!("select i1 true, {ty} undef, {ty} undef"));
                Ok(())
            }
            _ => {
                let known = self.arithmetic(instruction)?
                    || self.memory(instruction)?
                    || self.composite(instruction)?
                    || self.enqueue(instruction)?
                    || self.calls(instruction)?;
                if known { Ok(()) } else { refuse(format!("Op{:?} isn't supported", instruction.op)) }
            }
        }
    }

    /// A value for each block that may come before, as often as it does.
    fn phi(&mut self, instruction: &Instruction) -> Result<()> {
        let ty = self.types().text(instruction.ty)?.to_string();
        let mut list = Vec::new();
        for pair in instruction.operands.chunks(2) {
            let [value, from] = *pair else { return refuse("OpPhi has a value without a block") };
            let value = self.text(value)?;
            let count = self.edges.get(&(from, self.block)).copied().unwrap_or(0);
            list.extend((0..count).map(|_| format!("[ {value}, %b{from} ]")));
        }
        if list.is_empty() {
            return refuse("OpPhi has no block that may come before");
        }
        self.set(instruction.result, &format!("phi {ty} {}", list.join(", ")));
        Ok(())
    }
}
