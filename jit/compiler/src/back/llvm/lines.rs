//! The LLVM back end: debug information, of which LLVM makes DWARF: the lines of the source that instructions are of. Only
//! functions that know their lines have any.

use crate::llvm::quoted;
use spirula_interface::check::Location;
use spirula_kir::Function;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

/// The nodes of a text.
#[derive(Default)]
pub(super) struct Lines {
    nodes: Vec<String>,
    /// By folder and name.
    files: HashMap<(String, String), usize>,
    /// What is one compilation to a debugger.
    unit: Option<usize>,
    /// The function that is being written.
    subprogram: Option<usize>,
    /// What instructions of the function that are of a file are in.
    scopes: HashMap<usize, usize>,
    /// By scope, line and column.
    known: HashMap<(usize, u32, u32), usize>,
}

/// No other metadata has numbers from here on.
const FIRST: usize = 1 << 28;
/// LLVM keeps 16 bits of columns.
const MAX_COLUMN: u32 = 0xFFFF;

impl Lines {
    /// Begins with a function; what stands behind its head.
    pub(super) fn begin(&mut self, function: &Function) -> String {
        self.scopes.clear();
        self.subprogram = None;
        let Some(at) = function.declared_at().cloned() else { return String::new() };
        let file = self.file(&at);
        let unit = self.unit(file);
        let types = self.node("!DISubroutineType(types: !{})".into());
        let name = own_name(&function.name);
        let subprogram = self.node(format!(
            "distinct !DISubprogram(name: {}, scope: !{file}, file: !{file}, line: {line}, type: !{types}, \
             scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{unit})",
            quoted(name),
            line = at.line
        ));
        self.subprogram = Some(subprogram);
        self.scopes.insert(file, subprogram);
        format!(" !dbg !{subprogram}")
    }

    /// What stands behind an instruction.
    pub(super) fn of(&mut self, location: Option<&Location>) -> String {
        let (Some(location), Some(subprogram)) = (location, self.subprogram) else { return String::new() };
        let file = self.file(location);
        let scope = match self.scopes.get(&file) {
            Some(&scope) => scope,
            None => {
                let text =
                    format!("!DILexicalBlockFile(scope: !{subprogram}, file: !{file}, discriminator: 0)");
                let scope = self.node(text);
                self.scopes.insert(file, scope);
                scope
            }
        };
        self.place(scope, location.line, location.column)
    }

    /// What stands behind a call that is of no line: LLVM wants calls to have one.
    pub(super) fn of_none(&mut self) -> String {
        self.subprogram.map_or_else(String::new, |subprogram| self.place(subprogram, 0, 0))
    }

    fn place(&mut self, scope: usize, line: u32, column: u32) -> String {
        let column = column.min(MAX_COLUMN);
        let number = match self.known.get(&(scope, line, column)) {
            Some(&known) => known,
            None => {
                let node = self.node(format!("!DILocation(line: {line}, column: {column}, scope: !{scope})"));
                self.known.insert((scope, line, column), node);
                node
            }
        };
        format!(", !dbg !{number}")
    }

    fn file(&mut self, location: &Location) -> usize {
        let key = (location.directory.clone(), location.file.clone());
        if let Some(&known) = self.files.get(&key) {
            return known;
        }
        let (directory, file) = (quoted(&key.0), quoted(&key.1));
        let node = self.node(format!("!DIFile(filename: {file}, directory: {directory})"));
        self.files.insert(key, node);
        node
    }

    fn unit(&mut self, file: usize) -> usize {
        if let Some(unit) = self.unit {
            return unit;
        }
        let unit = self.node(format!(
            "distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, producer: \"Spirula\", isOptimized: true, \
             emissionKind: FullDebug)"
        ));
        self.unit = Some(unit);
        unit
    }

    fn node(&mut self, text: String) -> usize {
        self.nodes.push(text);
        FIRST + self.nodes.len() - 1
    }
}

impl Display for Lines {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Some(unit) = self.unit else { return Ok(()) };
        for (number, node) in self.nodes.iter().enumerate() {
            writeln!(f, "!{} = {node}", FIRST + number)?;
        }
        let flags = FIRST + self.nodes.len();
        writeln!(f, "!llvm.dbg.cu = !{{!{unit}}}\n!llvm.module.flags = !{{!{flags}, !{}}}", flags + 1)?;
        // DWARF 4: its table of lines is whole by itself, and all debuggers know it.
        writeln!(f, "!{flags} = !{{i32 7, !\"Dwarf Version\", i32 4}}")?;
        writeln!(f, "!{} = !{{i32 2, !\"Debug Info Version\", i32 3}}", flags + 1)
    }
}

/// What the source calls a function, of `spirula.KIND.NUMBER.NAME`.
fn own_name(symbol: &str) -> &str {
    let own = symbol.strip_prefix("spirula.").and_then(|rest| rest.splitn(3, '.').nth(2));
    own.filter(|name| !name.is_empty()).unwrap_or(symbol)
}
