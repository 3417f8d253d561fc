//! The records that a launch left, back to what they print.

use super::format::{Value, format};
use spirula_interface::printf::{self as layout, Call, Printf as CallTable, UNIT};

/// Bytes after which text is printed, so that four bytes of records for each of a long text don't become gigabytes of memory.
const ENOUGH: usize = 64 << 10;

/// Prints what the records print, in order. `buffer` begins with the first record; a record that isn't whole, or of no call that
/// there is, ends it.
pub(crate) fn print(table: &CallTable, buffer: &[u8], mut print: impl FnMut(&[u8])) {
    let mut out = Vec::new();
    let mut reader = Reader(buffer);
    while let Some(number) = reader.unit().and_then(|number| number.checked_sub(1)) {
        let Some(call) = table.calls.get(&number) else { break };
        if reader.record(call, &mut out).is_none() {
            break;
        }
        if out.len() >= ENOUGH {
            print(&out);
            out.clear();
        }
    }
    print(&out);
}

/// What is left of the buffer.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn unit(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(UNIT)?.try_into().ok()?))
    }

    /// So many bytes and what fills their last unit.
    fn padded(&mut self, bytes: u32) -> Option<&'a [u8]> {
        let bytes = bytes as usize;
        Some(&self.take(bytes.next_multiple_of(UNIT))?[..bytes])
    }

    /// The record of a call, behind its number.
    fn record<'c>(&mut self, call: &'c Call, out: &mut Vec<u8>) -> Option<()>
    where
        'a: 'c,
    {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        let mut copied = Vec::new();
        for argument in &call.arguments {
            arguments.push(match argument {
                layout::Argument::Bytes(bytes) => Value::Bytes(self.padded(*bytes)?),
                layout::Argument::Known(text) => Value::Text(text),
                layout::Argument::Copied => {
                    copied.push((arguments.len(), self.unit()?));
                    Value::Text(b"")
                }
            });
        }
        for (index, length) in copied {
            arguments[index] = Value::Text(self.padded(length)?);
        }
        format(&call.format, &arguments, out);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(table: &CallTable, buffer: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        print(table, buffer, |part| all.extend_from_slice(part));
        all
    }

    #[test]
    fn much_text_comes_in_parts() {
        let long = Call { format: vec![b'x'; 1000], arguments: Vec::new() };
        let table = CallTable { calls: [(0, long)].into_iter().collect() };
        let mut parts = Vec::new();
        print(&table, &units(&[1; 1000]), |part| parts.push(part.len()));
        assert_eq!(parts.iter().sum::<usize>(), 1_000_000);
        assert!(parts.iter().all(|&part| part < ENOUGH + 1000), "{parts:?}");
    }

    fn table() -> CallTable {
        let call = |format: &str, arguments: &[layout::Argument]| Call {
            format: format.into(),
            arguments: arguments.to_vec(),
        };
        use layout::Argument::*;
        let calls = [
            (0, call("%d\n", &[Bytes(4)])),
            (7, call("%s-%hd-%s-%s|", &[Copied, Bytes(2), Known(b"known".to_vec()), Copied])),
            (9, call("-", &[])),
        ];
        CallTable { calls: calls.into_iter().collect() }
    }

    fn units(list: &[u32]) -> Vec<u8> {
        list.iter().flat_map(|unit| unit.to_le_bytes()).collect()
    }

    /// `abcde`, 258, `xy`.
    fn strings() -> Vec<u8> {
        [&units(&[8, 5, 258, 2])[..], b"abcde\0\0\0xy\0\0"].concat()
    }

    #[test]
    fn records_are_read_in_order() {
        let buffer = [units(&[10, 1, 42]), strings(), units(&[1, u32::MAX, 10])].concat();
        assert_eq!(String::from_utf8(text(&table(), &buffer)).unwrap(), "-42\nabcde-258-known-xy|-1\n-");
    }

    #[test]
    fn what_was_not_written_ends_them() {
        let buffer = [units(&[10, 10, 0, 10])].concat();
        assert_eq!(text(&table(), &buffer), b"--");
        assert_eq!(text(&table(), &units(&[10, 5, 10])), b"-", "no such call");
        let strings = strings();
        for length in 0..strings.len() {
            assert_eq!(text(&table(), &strings[..length]), b"", "{length}");
        }
        assert_eq!(text(&table(), &units(&[8, u32::MAX, 0, 0])), b"");
    }
}
