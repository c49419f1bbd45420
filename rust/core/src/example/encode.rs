//! Features into the bytes of an `Example` or a `SequenceExample`.

/// Values of a feature to be written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Items<'a> {
    /// A `bytes_list`.
    Bytes(&'a [&'a [u8]]),
    /// A `float_list`.
    Float(&'a [f32]),
    /// An `int64_list`.
    Int(&'a [i64]),
}

/// The bytes of an `Example` with these features, in this order.
#[must_use]
pub fn example(features: &[(&str, Items<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, 1, |out| map(out, features, feature));
    out
}

/// The bytes of a `SequenceExample`: a context, and for each feature list its steps.
#[must_use]
pub fn sequence_example(context: &[(&str, Items<'_>)], sequences: &[(&str, &[Items<'_>])]) -> Vec<u8> {
    let mut out = Vec::new();
    if !context.is_empty() {
        message(&mut out, 1, |out| map(out, context, feature));
    }
    if !sequences.is_empty() {
        let steps = |out: &mut Vec<u8>, steps: &[Items<'_>]| {
            for &items in steps {
                message(out, 1, |out| feature(out, items));
            }
        };
        message(&mut out, 2, |out| map(out, sequences, steps));
    }
    out
}

fn map<T: Copy>(out: &mut Vec<u8>, entries: &[(&str, T)], value: impl Fn(&mut Vec<u8>, T)) {
    for &(name, item) in entries {
        message(out, 1, |out| {
            message(out, 1, |out| out.extend_from_slice(name.as_bytes()));
            message(out, 2, |out| value(out, item));
        });
    }
}

fn feature(out: &mut Vec<u8>, items: Items<'_>) {
    match items {
        Items::Bytes(strings) => message(out, 1, |out| {
            for bytes in strings {
                message(out, 1, |out| out.extend_from_slice(bytes));
            }
        }),
        Items::Float([]) => message(out, 2, |_| {}),
        Items::Float(floats) => message(out, 2, |out| {
            message(out, 1, |out| out.extend_from_slice(bytemuck::cast_slice(floats)));
        }),
        Items::Int([]) => message(out, 3, |_| {}),
        Items::Int(ints) => message(out, 3, |out| {
            message(out, 1, |out| ints.iter().for_each(|value| varint(out, value.cast_unsigned())));
        }),
    }
}

/// A field with a length before its body. The body is written first and moved to make room, which is cheaper than it
/// looks: lengths take a byte or two, and no size is worked out twice.
fn message(out: &mut Vec<u8>, number: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(number << 3 | 2);
    let start = out.len();
    body(out);
    let end = out.len();
    varint(out, (end - start) as u64);
    let length = out.len() - end;
    out[start..].rotate_right(length);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_written_as_protobuf_has_them() {
        for (features, bytes) in [
            (&[][..], &b"\x0a\x00"[..]),
            (&[("x", Items::Float(&[1.0]))], b"\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\0\0\x80\x3f"),
            (&[("y", Items::Int(&[1, 300]))], b"\x0a\x0e\x0a\x0c\x0a\x01y\x12\x07\x1a\x05\x0a\x03\x01\xac\x02"),
            (&[("z", Items::Bytes(&[b"hi", b""]))], b"\x0a\x0f\x0a\x0d\x0a\x01z\x12\x08\x0a\x06\x0a\x02hi\x0a\x00"),
            (&[("e", Items::Int(&[]))], b"\x0a\x09\x0a\x07\x0a\x01e\x12\x02\x1a\x00"),
        ] {
            assert_eq!(example(features), bytes, "{features:?}");
        }
        let minus_one = example(&[("", Items::Int(&[-1]))]);
        assert_eq!(
            minus_one,
            b"\x0a\x14\x0a\x12\x0a\x00\x12\x0e\x1a\x0c\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
    }

    #[test]
    fn sequences_are_written_step_by_step() {
        let steps = [Items::Int(&[1]), Items::Int(&[])];
        assert_eq!(
            sequence_example(&[("c", Items::Float(&[]))], &[("s", &steps)]),
            b"\x0a\x09\x0a\x07\x0a\x01c\x12\x02\x12\x00\x12\x12\x0a\x10\x0a\x01s\x12\x0b\x0a\x05\x1a\x03\x0a\x01\x01\x0a\x02\x1a\x00"
        );
        assert_eq!(sequence_example(&[], &[]), b"");
    }
}
