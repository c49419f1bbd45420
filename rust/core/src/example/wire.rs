//! Protobuf's wire format over bytes that lie in memory: field after field, nothing copied, no length believed.

use std::fmt;

/// Groups inside groups that are followed when a field is skipped; protobuf itself stops there.
const DEEPEST: usize = 100;

/// What is wrong with a message, and at which byte of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Counted from the first byte of the record's payload.
    pub offset: usize,
    /// What was found there.
    pub kind: FaultKind,
}

/// What can be wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The message ends inside a varint.
    CutVarint,
    /// A varint of more than 64 bits.
    LongVarint,
    /// A length that reaches over the end of the message around it.
    Length {
        /// What the length says.
        stated: u64,
        /// How many bytes there are.
        left: usize,
    },
    /// The message ends inside a number of four or eight bytes.
    CutNumber,
    /// A tag that no field can have: field 0, or a number beyond 2^29.
    FieldNumber,
    /// Wire types 6 and 7, which protobuf does not have.
    WireType(u8),
    /// The end of a group that was not begun, or a group without an end.
    Group,
    /// Groups inside groups, more than anybody writes.
    Deep,
    /// Packed floats whose bytes are no multiple of four.
    PackedFloats(usize),
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutVarint => f.write_str("expected a varint, found the end of the message inside it"),
            Self::LongVarint => f.write_str("expected a varint of at most 64 bits, found a longer one"),
            Self::Length { stated, left } => write!(f, "expected a length of at most {left}, found {stated}"),
            Self::CutNumber => f.write_str("expected a fixed-width number, found the end of the message inside it"),
            Self::FieldNumber => f.write_str("expected a field number from 1 to 2^29 - 1, found another"),
            Self::WireType(found) => write!(f, "expected a wire type from 0 to 5, found {found}"),
            Self::Group => f.write_str("found the start or the end of a group without its other half"),
            Self::Deep => write!(f, "found more than {DEEPEST} groups inside one another"),
            Self::PackedFloats(bytes) => write!(f, "expected packed floats of four bytes each, found {bytes} bytes"),
        }
    }
}

/// A message that is being read: the part of a payload from `at` to `end`.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    payload: &'a [u8],
    at: usize,
    end: usize,
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64,
    /// Wire type 2: bytes, a text, a message or packed numbers.
    Bytes(Reader<'a>),
    /// Wire types 3 and 4.
    Group,
    /// Wire type 5, in the order of its bytes.
    Fixed32(&'a [u8]),
}

impl<'a> Reader<'a> {
    /// Reads a whole payload.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self { payload, at: 0, end: payload.len() }
    }

    /// What has not been read yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.payload[self.at..self.end]
    }

    /// A fault at the next byte.
    #[must_use]
    pub fn fault(&self, kind: FaultKind) -> Fault {
        Fault { offset: self.at, kind }
    }

    /// The next field's number and value, or nothing at the end.
    #[inline]
    pub fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, Fault> {
        match self.rest().first() {
            None => Ok(None),
            // Nearly all fields have a number below 16 and a length.
            Some(&tag) if tag & 0x87 == 2 && tag > 7 => {
                self.at += 1;
                Ok(Some((u32::from(tag >> 3), Value::Bytes(self.message()?))))
            }
            Some(_) => {
                let (number, wire_type) = self.tag()?;
                Ok(Some((number, self.value(number, wire_type, 0)?)))
            }
        }
    }

    /// What lies behind the length of the next field, if that is this field; it is left unread otherwise.
    #[inline]
    pub fn field_if(&mut self, number: u8) -> Option<Reader<'a>> {
        let mut after = *self;
        if after.take(1)? != [number << 3 | 2] {
            return None;
        }
        let inner = after.message().ok()?;
        *self = after;
        Some(inner)
    }

    /// What follows `head`, so many bytes, if that is what comes next; nothing is read otherwise.
    #[inline]
    pub fn behind(&mut self, head: &[u8], length: usize) -> Option<Reader<'a>> {
        if !self.rest().starts_with(head) || self.rest().len() - head.len() < length {
            return None;
        }
        let at = self.at + head.len();
        self.at = at + length;
        Some(Reader { at, end: self.at, ..*self })
    }

    /// The bytes between here and where `later`, of the same payload, stands, if it ends where `after` stands.
    #[must_use]
    pub fn up_to(&self, later: &Self, after: &Self) -> Option<&'a [u8]> {
        if later.end == after.at { self.payload.get(self.at..later.at) } else { None }
    }

    /// Whether all has been read.
    #[inline]
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.at == self.end
    }

    #[inline]
    fn tag(&mut self) -> Result<(u32, u8), Fault> {
        let start = *self;
        let tag = u32::try_from(self.varint()?).map_err(|_| start.fault(FaultKind::FieldNumber))?;
        match tag >> 3 {
            0 => Err(start.fault(FaultKind::FieldNumber)),
            number => Ok((number, (tag & 7) as u8)),
        }
    }

    #[inline]
    fn value(&mut self, number: u32, wire_type: u8, depth: usize) -> Result<Value<'a>, Fault> {
        match wire_type {
            0 => Ok(Value::Varint(self.varint()?)),
            1 => self.take(8).map(|_| Value::Fixed64).ok_or_else(|| self.fault(FaultKind::CutNumber)),
            2 => self.message().map(Value::Bytes),
            3 => self.skip_group(number, depth).map(|()| Value::Group),
            4 => Err(self.fault(FaultKind::Group)),
            5 => self.take(4).map(Value::Fixed32).ok_or_else(|| self.fault(FaultKind::CutNumber)),
            other => Err(self.fault(FaultKind::WireType(other))),
        }
    }

    /// Passes over fields up to the end of group `number`.
    fn skip_group(&mut self, number: u32, depth: usize) -> Result<(), Fault> {
        if depth == DEEPEST {
            return Err(self.fault(FaultKind::Deep));
        }
        while self.at < self.end {
            let start = *self;
            match self.tag()? {
                (found, 4) if found == number => return Ok(()),
                (_, 4) => return Err(start.fault(FaultKind::Group)),
                (inner, wire_type) => drop(self.value(inner, wire_type, depth + 1)?),
            }
        }
        Err(self.fault(FaultKind::Group))
    }

    /// The next varint.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Fault> {
        match self.rest().first() {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.wide_varint(),
        }
    }

    /// A varint of up to eight bytes, if so many are there: they are read as one word and their groups of seven bits
    /// moved together.
    #[inline]
    fn wide_varint(&mut self) -> Result<u64, Fault> {
        let word = self.rest().first_chunk().map_or(u64::MAX, |&bytes| u64::from_le_bytes(bytes));
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.long_varint();
        }
        let bits = ends.trailing_zeros() + 1;
        self.at += bits as usize / 8;
        let mut value = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
        value = (value & 0x007f_007f_007f_007f) | (value & 0x7f00_7f00_7f00_7f00) >> 1;
        value = (value & 0x0000_3fff_0000_3fff) | (value & 0x3fff_0000_3fff_0000) >> 2;
        Ok((value & 0x0fff_ffff) | (value & 0x0fff_ffff_0000_0000) >> 4)
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (k, &byte) in self.rest().iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * k);
            if byte < 0x80 {
                if k == 9 && byte > 1 {
                    break;
                }
                self.at += k + 1;
                return Ok(value);
            }
        }
        let cut = self.rest().len() < 10;
        Err(self.fault(if cut { FaultKind::CutVarint } else { FaultKind::LongVarint }))
    }

    /// The bytes behind a length.
    #[inline]
    fn message(&mut self) -> Result<Reader<'a>, Fault> {
        let start = *self;
        let stated = self.varint()?;
        let left = self.end - self.at;
        match usize::try_from(stated) {
            Ok(length) if length <= left => {
                let inner = Reader { end: self.at + length, ..*self };
                self.at += length;
                Ok(inner)
            }
            _ => Err(start.fault(FaultKind::Length { stated, left })),
        }
    }

    #[inline]
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.rest().get(..count)?;
        self.at += count;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, String)>, Fault> {
        let mut reader = Reader::new(bytes);
        let mut found = Vec::new();
        while let Some((number, value)) = reader.field()? {
            let text = match value {
                Value::Varint(value) => format!("varint {value}"),
                Value::Fixed64 => "fixed64".to_owned(),
                Value::Fixed32(bytes) => format!("fixed32 {bytes:?}"),
                Value::Bytes(inner) => format!("bytes {:?}", inner.rest()),
                Value::Group => "group".to_owned(),
            };
            found.push((number, text));
        }
        Ok(found)
    }

    #[test]
    fn fields_of_every_wire_type() {
        let most = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        for (bytes, number, value) in [
            (&b"\x08\x05"[..], 1, "varint 5"),
            (b"\x08\xac\x02", 1, "varint 300"),
            (most, 1, "varint 18446744073709551615"),
            (b"\x08\x80\x80\x00", 1, "varint 0"),
            (b"\x11\0\0\0\0\0\0\0\0", 2, "fixed64"),
            (b"\x1a\x02hi", 3, "bytes [104, 105]"),
            (b"\x25\x01\x02\x03\x04", 4, "fixed32 [1, 2, 3, 4]"),
            (b"\x0b\x08\x01\x0c", 1, "group"),
            (b"\x0b\x13\x14\x12\x01x\x0c", 1, "group"),
            (b"\xf8\xff\xff\xff\x0f\x00", 536_870_911, "varint 0"),
        ] {
            assert_eq!(fields(bytes), Ok(vec![(number, value.to_owned())]), "{bytes:?}");
        }
        assert_eq!(fields(b""), Ok(vec![]));
    }

    #[test]
    fn varints_of_every_length() {
        for bits in 0..64 {
            for value in [1_u64 << bits, u64::MAX >> bits, 0x5555_5555_5555_5555 >> bits] {
                let mut bytes = Vec::new();
                let mut rest = value;
                while rest > 0x7f {
                    bytes.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                bytes.push(rest as u8);
                for after in [0, 1, 20] {
                    let padded = [&bytes[..], &vec![0xff; after]].concat();
                    let mut reader = Reader::new(&padded);
                    assert_eq!(reader.varint(), Ok(value), "{padded:x?}");
                    assert_eq!(reader.rest().len(), after, "{padded:x?}");
                }
            }
        }
    }

    #[test]
    fn faults_name_their_byte() {
        for (bytes, offset, kind) in [
            (&b"\x08"[..], 1, FaultKind::CutVarint),
            (b"\x08\x80\x80", 1, FaultKind::CutVarint),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 1, FaultKind::LongVarint),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, FaultKind::LongVarint),
            (b"\x08\x01\x1a\x03hi", 3, FaultKind::Length { stated: 3, left: 2 }),
            (b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, FaultKind::Length { stated: u64::MAX, left: 0 }),
            (b"\x11\0\0\0", 1, FaultKind::CutNumber),
            (b"\x25\0", 1, FaultKind::CutNumber),
            (b"\x00\x00", 0, FaultKind::FieldNumber),
            (b"\xf8\xff\xff\xff\x1f\x00", 0, FaultKind::FieldNumber),
            (b"\x0e", 1, FaultKind::WireType(6)),
            (b"\x0c", 1, FaultKind::Group),
            (b"\x0b\x08\x01", 3, FaultKind::Group),
            (b"\x0b\x14", 1, FaultKind::Group),
            (&[0x0b; 200], 101, FaultKind::Deep),
        ] {
            assert_eq!(fields(bytes), Err(Fault { offset, kind }), "{bytes:?}");
        }
    }
}
