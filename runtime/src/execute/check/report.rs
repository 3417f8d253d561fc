//! What checks found, in words and as JSON.

use crate::log;
use spirula_interface::check::{Access, Checked, Location, Object, Record, Site, Space, Use};
use spirula_interface::program::{KernelSignature, Launch};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs::OpenOptions;
use std::io::Write;

/// A place of a kernel at which something is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    kind: &'static str,
    kernel: String,
    location: Option<Location>,
    /// What is wrong.
    message: String,
    /// The work-item that found it first.
    item: [u64; 3],
    /// Its work-group.
    group: [u64; 3],
    /// How often it was found.
    count: u64,
    /// The other side of a race.
    other: Option<Side>,
    /// It is worth a look, but nothing is wrong with it.
    is_remark: bool,
}

/// Who else is part of what is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
struct Side {
    location: Option<Location>,
    item: [u64; 3],
    group: [u64; 3],
}

/// A site's record, as it was left.
#[derive(Clone, Copy)]
struct Found {
    count: u64,
    values: [u64; 3],
    item: [u64; 3],
}

/// What the records of a launch say, each place once, in the order of the sites.
pub(super) fn findings(signature: &KernelSignature, records: &[u8], launch: &Launch) -> Vec<Finding> {
    let mut list: Vec<Finding> = Vec::new();
    let mut places: BTreeMap<(&str, Location), usize> = BTreeMap::new();
    for (site, record) in signature.sites.iter().zip(records.chunks_exact(size_of::<Record>())) {
        let found = read(record);
        let finding = match (&site.what, found.count, found.item[0]) {
            (Checked::Race { .. }, 0, count @ 1..) => {
                race(signature, site, [count, found.item[1], found.item[2]], launch, true)
            }
            (_, 0, _) => continue,
            (Checked::Race { .. }, count, _) => {
                race(signature, site, [count, found.values[0], found.values[1]], launch, false)
            }
            _ => finding(signature, site, &found, launch),
        };
        let kind = if finding.is_remark { "remark" } else { finding.kind };
        let place = finding.location.clone().map(|location| (kind, location));
        match place.as_ref().and_then(|place| places.get(place)) {
            Some(&known) => list[known].count += finding.count,
            None => {
                places.extend(place.map(|place| (place, list.len())));
                list.push(finding);
            }
        }
    }
    list
}

fn read(record: &[u8]) -> Found {
    let words: Vec<u64> =
        record.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect();
    Found { count: words[0], values: [words[1], words[2], words[3]], item: [words[4], words[5], words[6]] }
}

fn finding(signature: &KernelSignature, site: &Site, found: &Found, launch: &Launch) -> Finding {
    let elsewhere = signature.sites.get(found.values[0] as usize);
    let waits = matches!(site.what, Checked::Barrier | Checked::End);
    let other = elsewhere.filter(|_| waits).and_then(|site| site.location.clone());
    let (kind, message) = match &site.what {
        Checked::Access { access, size, align, object } => {
            ("memory", access_message(signature, (*access, *size, *align), object, found.values))
        }
        Checked::Texel { access, argument } => {
            ("memory", texel_message(signature, *access, *argument, found.values))
        }
        Checked::Race { .. } => ("race", String::new()),
        Checked::Division => {
            ("arithmetic", "divides by zero, or the least integer by -1: the result is not defined".into())
        }
        Checked::Conversion => (
            "arithmetic",
            "converts a number that the integer type can't hold: the result is not defined".into(),
        ),
        Checked::NotFinite => ("arithmetic", "makes an infinity or NaN of finite numbers".into()),
        Checked::Uninitialized { decides } => ("uninitialized", uninitialized_message(*decides).into()),
        Checked::Barrier | Checked::End => {
            let [_, first, this] = found.values;
            let place = |site: Option<&Site>| match site {
                Some(Site { what: Checked::End, .. }) | None => "has ended".to_owned(),
                Some(Site { location: Some(at), .. }) => format!("waits at {}", Place(at)),
                Some(_) => "waits at another barrier".to_owned(),
            };
            let message = format!(
                "not all work-items of the group come here: number {first} of it {}, number {this} {}",
                place(elsewhere),
                place(Some(site))
            );
            ("barrier", message)
        }
    };
    let group = std::array::from_fn(|d| {
        found.item[d].wrapping_sub(launch.global_offset[d]) / launch.enqueued_local_size[d].max(1)
    });
    Finding {
        kind,
        kernel: signature.name.clone(),
        location: site.location.clone().or(other),
        message,
        item: found.item,
        group,
        count: found.count,
        other: None,
        is_remark: false,
    }
}

/// How often, with whom and where, and who: what a record says of a race, or of two who wrote the same.
fn race(
    signature: &KernelSignature,
    site: &Site,
    [count, with, who]: [u64; 3],
    launch: &Launch,
    is_remark: bool,
) -> Finding {
    let elsewhere = signature.sites.get((with >> 32) as usize);
    let [(item, group), (other_item, other_group)] =
        [who, with].map(|number| work_item(u64::from(number as u32), launch));
    let does = |site: Option<&Site>| match site.map(|site| &site.what) {
        Some(Checked::Race { access: Access::Read, .. }) => "reads",
        Some(Checked::Race { access: Access::Atomic, .. }) => "changes atomically",
        _ => "writes",
    };
    let (size, object) = match &site.what {
        Checked::Race { size, object, .. } => (*size, object),
        _ => (0, &Object::Any),
    };
    let location = elsewhere.and_then(|site| site.location.clone());
    let place = match (&location, &site.location) {
        (Some(there), Some(here)) if there == here => "here as well".to_owned(),
        (Some(there), _) => format!("at {}", Place(there)),
        (None, _) => "elsewhere".to_owned(),
    };
    let object = named(signature, object).map_or_else(|| "memory".to_owned(), |name| format!("{name},"));
    let bytes = match size {
        0 => "some".to_owned(),
        1 => "1 byte".to_owned(),
        size => format!("{size} bytes"),
    };
    let ([x, y, z], [a, b, c]) = (other_item, other_group);
    let end = if is_remark {
        "the same both times"
    } else if group == other_group {
        "without a barrier between them"
    } else {
        "and nothing orders work-groups"
    };
    let message = format!(
        "{} {bytes} of {object} that work-item ({x}, {y}, {z}) of group ({a}, {b}, {c}) {} {place}, {end}",
        does(Some(site)),
        does(elsewhere)
    );
    Finding {
        kind: "race",
        kernel: signature.name.clone(),
        location: site.location.clone(),
        message,
        item,
        group,
        count,
        other: Some(Side { location, item: other_item, group: other_group }),
        is_remark,
    }
}

/// The global id of a work-item and its group's, from its number: groups have as many numbers as `local_work_size` says, in which a
/// smaller one begins with its own.
fn work_item(number: u64, launch: &Launch) -> ([u64; 3], [u64; 3]) {
    let divided = |mut number: u64, sizes: [u64; 3]| {
        sizes.map(|size| {
            let rest = number % size.max(1);
            number /= size.max(1);
            rest
        })
    };
    let items: u64 = launch.enqueued_local_size.iter().product();
    let group = divided(number / items.max(1), launch.total_groups);
    let first: [u64; 3] = std::array::from_fn(|d| group[d] * launch.enqueued_local_size[d]);
    let sizes = std::array::from_fn(|d| {
        launch.enqueued_local_size[d].min(launch.global_size[d].saturating_sub(first[d]))
    });
    let local = divided(number % items.max(1), sizes);
    (std::array::from_fn(|d| launch.global_offset[d] + first[d] + local[d]), group)
}

/// In words.
fn uninitialized_message(decides: Use) -> &'static str {
    match decides {
        Use::Branch => "goes on by a value that depends on memory which nothing has written",
        Use::Address => "makes an address of a value that depends on memory which nothing has written",
        Use::Output => "puts out a value that depends on memory which nothing has written",
        Use::Change => "changes memory atomically which nothing has written",
        Use::Group => "gives a work-group function a value that depends on memory which nothing has written",
    }
}

/// In words. The values are those of [`Checked::Access`].
fn access_message(
    signature: &KernelSignature,
    (access, size, align): (Access, u64, u32),
    object: &Object,
    [offset, room, base]: [u64; 3],
) -> String {
    let does = match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::Atomic => "changes",
    };
    let bytes = match size {
        0 => "memory".to_owned(),
        1 => "1 byte".to_owned(),
        size => format!("{size} bytes"),
    };
    let name = named(signature, object);
    let address = base.wrapping_add(offset);
    let null_page = 4096;
    if *object == Object::Nothing || base == 0 && room == 0 || *object == Object::Any && address < null_page {
        return format!(
            "{does} {bytes} through a null pointer{}",
            name.map_or(String::new(), |n| format!(", {n}"))
        );
    }
    let place = match &name {
        Some(name) => format!("at offset {} of {name}", offset as i64),
        None if room == 0 && matches!(object, Object::Own(_)) => {
            return format!(
                "{does} {bytes} at address {address:#x}, in no variable of this work-item or its group: the pointer is another one's"
            );
        }
        None => format!("at address {address:#x}, offset {} of what the pointer leads to", offset as i64),
    };
    if offset < room && align > 1 && !offset.is_multiple_of(align.into()) {
        return format!("{does} {bytes} {place}, which is no multiple of {align}");
    }
    match (room, access) {
        (0, Access::Write | Access::Atomic) if *object != Object::Any => {
            format!("{does} {bytes} {place}, which may only be read")
        }
        (0, _) => format!("{does} {bytes} {place}, which was released or may not be accessed so"),
        _ => format!("{does} {bytes} {place}, which has {room} bytes"),
    }
}

/// In words. The values are those of [`Checked::Texel`].
fn texel_message(
    signature: &KernelSignature,
    access: Access,
    argument: Option<u32>,
    values: [u64; 3],
) -> String {
    let [[x, y], [z, width], [height, slices]] = values.map(|pair| [pair as u32, (pair >> 32) as u32]);
    let [x, y, z] = [x, y, z].map(|index| index as i32);
    let name = argument.and_then(|number| named(signature, &Object::Argument(number)));
    let does = if access == Access::Read { "reads" } else { "writes" };
    let image = name.map_or_else(|| "an image".to_owned(), |name| format!("{name},"));
    format!("{does} the texel at ({x}, {y}, {z}) of {image} which has {width} x {height} x {slices}")
}

/// What a pointer leads to, as the source calls it; None if nobody knows.
fn named(signature: &KernelSignature, object: &Object) -> Option<String> {
    match object {
        Object::Argument(number) => {
            let name = signature.arguments.get(*number as usize).and_then(|argument| argument.name.as_ref());
            Some(
                name.map_or_else(
                    || format!("argument {number}"),
                    |name| format!("argument {number}, `{name}`"),
                ),
            )
        }
        Object::Variable { space, name, size } => {
            let space = match space {
                Space::Private => "private",
                Space::Local => "local",
                Space::Global => "global",
                Space::Constant => "constant",
            };
            Some(match name {
                Some(name) => format!("the {space} variable `{name}`"),
                None => format!("a {space} variable of {size} bytes"),
            })
        }
        Object::Nothing | Object::Any | Object::Own(_) => None,
    }
}

/// `file:line:column`, as far as it is known.
struct Place<'a>(&'a Location);

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.0.file, self.0.line)?;
        if self.0.column > 0 { write!(f, ":{}", self.0.column) } else { Ok(()) }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}{}: kernel {}", if self.is_remark { "remark: " } else { "" }, self.kind, self.kernel)?;
        if let Some(location) = &self.location {
            write!(f, ", {}", Place(location))?;
        }
        let ([x, y, z], [a, b, c]) = (self.item, self.group);
        write!(f, ": {}; work-item ({x}, {y}, {z}) of group ({a}, {b}, {c})", self.message)?;
        if self.count > 1 { write!(f, ", {} times in all", self.count) } else { Ok(()) }
    }
}

impl Finding {
    /// Whether it is worth a look, while nothing is wrong with it.
    pub(super) fn is_remark(&self) -> bool {
        self.is_remark
    }

    /// Whether the launch's results are not to be trusted: arithmetic has some result in any case.
    pub(super) fn is_grave(&self) -> bool {
        self.kind != "arithmetic" && !self.is_remark
    }

    /// One object of JSON.
    fn json(&self) -> String {
        let other = self.other.as_ref().map_or(String::new(), |other| {
            format!(",\"other\":{{{}}}", place_json(other.location.as_ref(), other.item, other.group))
        });
        format!(
            "{{\"kind\":{},\"kernel\":{},\"message\":{},{},\"count\":{}{other}}}\n",
            quoted(self.kind),
            quoted(&self.kernel),
            quoted(&self.message),
            place_json(self.location.as_ref(), self.item, self.group),
            self.count
        )
    }
}

/// Where something was done, and who did it, as members of an object of JSON.
fn place_json(location: Option<&Location>, item: [u64; 3], group: [u64; 3]) -> String {
    let (file, line, column) = location.map_or(("", 0, 0), |at| (at.file.as_str(), at.line, at.column));
    format!(
        "\"file\":{},\"line\":{line},\"column\":{column},\"work_item\":{item:?},\"group\":{group:?}",
        quoted(file)
    )
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Onto standard error, and where `SPIRULA_CHECK_REPORT` says.
pub(super) fn write(findings: &[Finding]) {
    // Of other threads' launches nothing comes in between.
    let text: String = findings.iter().map(|finding| format!("spirula: {finding}\n")).collect();
    let _ = std::io::stderr().write_all(text.as_bytes());
    let Some(path) = &spirula_service::settings::get().check_report else { return };
    let lines: String = findings.iter().filter(|finding| !finding.is_remark).map(Finding::json).collect();
    let file = OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
        log::error(format_args!("SPIRULA_CHECK_REPORT: {}: {error}", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::info;
    use spirula_interface::program::ArgumentKind;

    fn record(values: [u64; 3], count: u64) -> Vec<u8> {
        let [a, b, c] = values;
        [count, a, b, c, 70, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    fn at(line: u32) -> Option<Location> {
        Some(Location { file: "a.cl".into(), line, column: 3, ..Location::default() })
    }

    #[test]
    fn places_are_told_once_and_in_words() {
        let access = |access, align| Checked::Access { access, size: 4, align, object: Object::Argument(0) };
        let sites = [
            (at(1), access(Access::Read, 1), record([400, 400, 0x1000], 2)),
            (at(1), access(Access::Read, 1), record([404, 400, 0x1000], 3)),
            (at(2), access(Access::Write, 4), record([2, 400, 0x1000], 1)),
            (at(3), access(Access::Write, 1), record([0, 0, 0x1000], 1)),
            (at(4), access(Access::Read, 1), record([0, 0, 0], 1)),
            (at(5), Checked::Division, record([0; 3], 0)),
            (at(6), Checked::Conversion, record([0; 3], 1)),
            (at(7), Checked::Barrier, record([0; 3], 0)),
            (None, Checked::End, record([7, 0, 5], 1)),
        ];
        let mut signature = info("k", &[ArgumentKind::Buffer]).signature;
        signature.sites = sites
            .iter()
            .map(|(location, what, _)| Site { location: location.clone(), what: what.clone() })
            .collect();
        let records: Vec<u8> = sites.iter().flat_map(|(.., record)| record.clone()).collect();
        let launch = Launch::whole(1, [0; 3], [128, 1, 1], [32, 1, 1]);
        let list = findings(&signature, &records, &launch);
        let told: Vec<String> = list.iter().map(Finding::to_string).collect();
        let item = "work-item (70, 0, 0) of group (2, 0, 0)";
        assert_eq!(
            told,
            [
                format!(
                    "memory: kernel k, a.cl:1:3: reads 4 bytes at offset 400 of argument 0, which has 400 bytes; {item}, 5 times in all"
                ),
                format!(
                    "memory: kernel k, a.cl:2:3: writes 4 bytes at offset 2 of argument 0, which is no multiple of 4; {item}"
                ),
                format!(
                    "memory: kernel k, a.cl:3:3: writes 4 bytes at offset 0 of argument 0, which may only be read; {item}"
                ),
                format!(
                    "memory: kernel k, a.cl:4:3: reads 4 bytes through a null pointer, argument 0; {item}"
                ),
                format!(
                    "arithmetic: kernel k, a.cl:6:3: converts a number that the integer type can't hold: the result is not defined; {item}"
                ),
                format!(
                    "barrier: kernel k, a.cl:7:3: not all work-items of the group come here: number 0 of it waits at a.cl:7:3, number 5 has ended; {item}"
                ),
            ]
        );
        assert!(list[0].is_grave() && !list[4].is_grave());
        assert_eq!(
            list[3].json(),
            "{\"kind\":\"memory\",\"kernel\":\"k\",\"message\":\"reads 4 bytes through a null pointer, argument 0\",\"file\":\"a.cl\",\
             \"line\":4,\"column\":3,\"work_item\":[70, 0, 0],\"group\":[2, 0, 0],\"count\":1}\n"
        );
    }

    #[test]
    fn a_race_has_two_sides() {
        let race = |access| Checked::Race { access, size: 4, object: Object::Argument(0) };
        let site = |line, access| Site { location: at(line), what: race(access) };
        let mut signature = info("k", &[ArgumentKind::Buffer]).signature;
        signature.sites = vec![site(1, Access::Write), site(2, Access::Read), site(3, Access::Write)];
        // Twelve items in rows of two groups, of which the second one is smaller: the second site read what the 9th wrote at the first.
        let found = [[0; 7], [2, 9, 1, 0, 0, 0, 0], [0, 0, 0, 0, 5, 2 << 32 | 8, 9]];
        let records: Vec<u8> = found.concat().into_iter().flat_map(u64::to_ne_bytes).collect();
        let mut launch = Launch::whole(2, [0; 3], [6, 2, 1], [4, 2, 1]);
        launch.total_groups = [2, 1, 1];
        let list = findings(&signature, &records, &launch);
        let told: Vec<String> = list.iter().map(Finding::to_string).collect();
        assert_eq!(
            told,
            [
                "race: kernel k, a.cl:2:3: reads 4 bytes of argument 0, that work-item (5, 0, 0) of group (1, 0, 0) writes at a.cl:1:3, \
                 and nothing orders work-groups; work-item (1, 0, 0) of group (0, 0, 0), 2 times in all",
                "remark: race: kernel k, a.cl:3:3: writes 4 bytes of argument 0, that work-item (4, 0, 0) of group (1, 0, 0) writes here as \
                 well, the same both times; work-item (5, 0, 0) of group (1, 0, 0), 5 times in all",
            ]
        );
        assert_eq!(
            [0, 1].map(|number| (list[number].is_grave(), list[number].is_remark())),
            [(true, false), (false, true)]
        );
        let other = ",\"other\":{\"file\":\"a.cl\",\"line\":1,\"column\":3,\"work_item\":[5, 0, 0],\"group\":[1, 0, 0]}}\n";
        assert!(list[0].json().ends_with(other), "{}", list[0].json());
        // The tenth number of the launch is the second row's first in the smaller group.
        assert_eq!(work_item(10, &launch), ([4, 1, 0], [1, 0, 0]));
    }

    #[test]
    fn strings_are_those_of_json() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
