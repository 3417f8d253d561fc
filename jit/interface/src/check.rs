//! The checked mode: what is looked for, and what a finding is called. The compiler writes checks into kernels and a list of
//! their [`Site`]s beside them; a launch leaves a record for each site that found something.

pub mod places;

use serde::{Deserialize, Serialize};
pub use spirula_builtins::check::*;
pub use spirula_builtins::races;

/// Kinds of faults to look for, as `SPIRULA_CHECK` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checks(u8);

impl Checks {
    /// Nothing is checked.
    pub const NONE: Checks = Checks(0);
    /// Accesses to memory that isn't theirs.
    pub const MEMORY: Checks = Checks(1);
    /// Barriers and work-group functions that some work-items of a group miss.
    pub const BARRIERS: Checks = Checks(1 << 1);
    /// Integer arithmetic and conversions that have no defined result.
    pub const ARITHMETIC: Checks = Checks(1 << 2);
    /// Accesses of the same memory that nothing orders.
    pub const RACES: Checks = Checks(1 << 3);
    /// What is made of memory that nothing wrote.
    pub const UNINITIALIZED: Checks = Checks(1 << 4);
    /// Infinities and NaNs that are made of finite numbers: on request only, for they are often meant.
    pub const NAN: Checks = Checks(1 << 5);
    /// Each kind and its name.
    pub const NAMES: [(Checks, &'static str); 6] = [
        (Checks::MEMORY, "memory"),
        (Checks::RACES, "races"),
        (Checks::BARRIERS, "barriers"),
        (Checks::ARITHMETIC, "arithmetic"),
        (Checks::UNINITIALIZED, "uninitialized"),
        (Checks::NAN, "nan"),
    ];

    /// Whether all kinds of `other` are looked for.
    pub fn contains(self, other: Checks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any kind is looked for.
    pub fn any(self) -> bool {
        self != Checks::NONE
    }

    /// The kinds of a list of names with commas between them, and the names that are no kind's.
    pub fn parse(list: &str) -> (Checks, Vec<&str>) {
        let mut unknown = Vec::new();
        let mut checks = Checks::NONE;
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match Checks::NAMES.iter().find(|(_, known)| *known == name) {
                Some((kind, _)) => checks.0 |= kind.0,
                None if name == "all" => {
                    let kinds = Checks::NAMES.iter().filter(|(kind, _)| *kind != Checks::NAN);
                    checks.0 |= kinds.fold(0, |all, (kind, _)| all | kind.0);
                }
                None => unknown.push(name),
            }
        }
        (checks, unknown)
    }
}

/// A place in a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Location {
    /// As the debug information names it.
    pub file: String,
    /// The folder from which it names it; empty if that isn't known.
    pub directory: String,
    /// From 1; 0 if it isn't known.
    pub line: u32,
    /// From 1; 0 if it isn't known.
    pub column: u32,
}

/// A check in a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Where the source has what is checked, if that is known.
    pub location: Option<Location>,
    /// What is checked.
    pub what: Checked,
}

/// What a site checks; each has its own meaning for the values of a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Checked {
    /// An access to memory. The values are the offset in the object, the bytes that may be accessed so, and the object's address.
    Access {
        /// What is done.
        access: Access,
        /// Bytes; 0 if only the launch knew.
        size: u64,
        /// What the offset has to be a multiple of.
        align: u32,
        /// What the pointer leads to.
        object: Object,
    },
    /// An access to a texel that an image doesn't have. The values are the coordinates and the image's sizes, two in each.
    Texel {
        /// What is done.
        access: Access,
        /// The number of the kernel's argument, if the image is known to be one.
        argument: Option<u32>,
    },
    /// An access to memory that others access as well. The values are the other site and above it the number of its work-item, that
    /// of the work-item at this site, and the address. What is said of the work-item instead is how often both wrote the same, and
    /// for the first time the first two of these.
    Race {
        /// What is done.
        access: Access,
        /// Bytes; 0 if only the launch knew.
        size: u64,
        /// What the pointer leads to.
        object: Object,
    },
    /// An integer division.
    Division,
    /// A conversion from float to integer.
    Conversion,
    /// An operation on finite numbers that yields an infinity or NaN.
    NotFinite,
    /// A barrier, or a work-group function: the values are the site at which another work-item of the group is, its number in the
    /// group, and that of this one.
    Barrier,
    /// The end of the kernel, where work-items of a group that wait for others don't come. As [`Checked::Barrier`].
    End,
    /// A value that depends on memory which nothing wrote.
    Uninitialized {
        /// What it decides.
        decides: Use,
    },
}

/// What a value decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Use {
    /// Where the work-item goes on.
    Branch,
    /// What memory is accessed.
    Address,
    /// What others than its group see.
    Output,
    /// What memory becomes that an atomic function changes.
    Change,
    /// What a work-group or sub-group function yields.
    Group,
}

/// What is done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Write,
    Atomic,
}

/// What a pointer leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// What the kernel's argument of that number points to, or its bytes.
    Argument(u32),
    /// A variable of the kernel or of the program.
    Variable {
        /// Where it lies.
        space: Space,
        /// Its name, if it is known.
        name: Option<String>,
        /// Bytes.
        size: u64,
    },
    /// No object at all: a null pointer, or one that was never set.
    Nothing,
    /// A variable of the work-item or of its group, by a pointer that was found in memory.
    Own(Space),
    /// Whatever the pointer that was loaded, computed or chosen leads to.
    Any,
}

/// Where variables lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Space {
    Private,
    Local,
    Global,
    Constant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_name() {
        assert_eq!(Checks::parse(""), (Checks::NONE, vec![]));
        assert_eq!(Checks::parse("memory"), (Checks::MEMORY, vec![]));
        let (both, unknown) = Checks::parse(" arithmetic,memory,, nonsense");
        assert!(both.contains(Checks::MEMORY) && both.contains(Checks::ARITHMETIC));
        assert!(!both.contains(Checks::BARRIERS) && both.any());
        assert_eq!(unknown, ["nonsense"]);
        let (all, _) = Checks::parse("all");
        assert!(
            Checks::NAMES.iter().all(|(kind, name)| all.contains(*kind) != (*name == "nan")
                && Checks::parse(name).0 == *kind)
        );
    }
}
