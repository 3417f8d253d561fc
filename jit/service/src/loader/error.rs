//! Why an object is refused, in words that name the section or symbol.

/// Why code could not be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("can't load the compiled program: {0}")]
pub struct LoadError(#[from] pub Cause);

/// What is wrong with an object, or with mapping it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Cause {
    /// The program's variables can't be made.
    #[error(transparent)]
    Variables(#[from] crate::variables::VariablesError),
    /// There are relocations for x86-64 only.
    #[error("this loader knows code for x86-64, not for {}", std::env::consts::ARCH)]
    Host,
    /// The bytes can't be read as ELF.
    #[error("an object is no ELF file of 64 bits: {0}")]
    Malformed(String),
    /// An executable, a library, or another CPU's.
    #[error("an object's header names another kind of file or CPU")]
    NotRelocatable,
    #[allow(missing_docs)]
    #[error("the section `{section}` {fault}")]
    Section { section: String, fault: SectionFault },
    #[allow(missing_docs)]
    #[error("the symbol `{symbol}` {fault}")]
    Symbol { symbol: String, fault: SymbolFault },
    #[allow(missing_docs)]
    #[error("the relocation at {offset:#x} of the section `{section}` {fault}")]
    Relocation { section: String, offset: u64, fault: RelocationFault },
    /// Symbols that are used and not defined.
    #[error("nothing provides {}", .0.join(", "))]
    Unresolved(Vec<String>),
    /// A kernel's function is missing.
    #[error("there is no function `{0}` to be called from outside")]
    NoEntry(String),
    #[allow(missing_docs)]
    #[error("its {what} would take more than {limit} bytes of memory")]
    TooLarge { what: &'static str, limit: usize },
    /// The system refused memory, or to make it executable.
    #[error("no memory for its code: {0}")]
    Memory(#[from] rustix::io::Errno),
}

/// What is wrong with a section.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SectionFault {
    #[error("is of type {0:#x}, which generated code doesn't have")]
    Type(u32),
    #[error("has the flags {0:#x}, which generated code doesn't have")]
    Flags(u64),
    #[error("is both writable and executable")]
    WritableCode,
    #[error("is aligned to {0}, which is no power of two up to {1}")]
    Alignment(u64, u64),
    #[error("reaches beyond the end of the object")]
    OutOfFile,
    #[error("shares bytes of the object with another section or a header")]
    Overlap,
    #[error("refers to section {0}, which is of another kind or doesn't exist")]
    Link(u32),
    #[error("is no whole and aligned table")]
    Table,
    #[error("is a second symbol table")]
    SecondSymbolTable,
    #[error("has no name in the string table")]
    Name,
}

/// What is wrong with a symbol.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SymbolFault {
    #[error("has no name in the string table, or too long a one")]
    Name,
    #[error("is of type {0}; generated code has no thread-local variables (6) and indirect functions (10)")]
    Type(u8),
    #[error("has binding {0}: neither local nor global")]
    Binding(u8),
    #[error("is a common symbol, which nobody allocates")]
    Common,
    #[error("has the address of no section")]
    Absolute,
    #[error("is in section {0}, which doesn't exist")]
    Section(u16),
    #[error("lies outside of its section")]
    Outside,
    #[error("is a function outside of code")]
    NotCode,
    #[error("is defined twice")]
    Twice,
}

/// What is wrong with a relocation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum RelocationFault {
    #[error("is of type {0}, which position-independent code doesn't have")]
    Type(u32),
    #[error("lies outside of the section's contents")]
    Outside,
    #[error("names symbol {0}, which doesn't exist")]
    Symbol(u32),
    #[error("refers to `{0}`, which isn't mapped")]
    Unmapped(String),
    #[error("needs `{0}` within 2 GB, which only what the object defines is")]
    TooFar(String),
    #[error("asks for a table's slot for `{0}`, which the object defines by itself")]
    OwnSlot(String),
    #[error("has a value that doesn't fit")]
    Range,
}

/// A name for a message: names come from the object, may be anything and of any length.
pub(super) fn readable(name: &[u8]) -> String {
    const LONGEST: usize = 200;
    let shown = &name[..name.len().min(LONGEST)];
    let dots = if shown.len() < name.len() { "…" } else { "" };
    format!("{}{dots}", String::from_utf8_lossy(shown).escape_debug())
}
