//! The values of one feature: a list of floats, integers or byte strings, as it lies in a payload.

use std::fmt;

use super::wire::{Fault, FaultKind, Reader, Value};

/// What a feature's values are, which its bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `bytes_list`.
    Bytes,
    /// `float_list`.
    Float,
    /// `int64_list`.
    Int,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Float => "float",
            Self::Int => "int64",
        })
    }
}

/// A message in as many pieces as it was written in: nearly always one. Protobuf merges the pieces of a message by
/// reading them one after another.
#[derive(Debug, Clone, Default)]
pub struct Pieces<'a> {
    first: Option<Reader<'a>>,
    more: Vec<Reader<'a>>,
}

impl<'a> Pieces<'a> {
    /// A message in one piece.
    #[inline]
    #[must_use]
    pub fn one(piece: Reader<'a>) -> Self {
        Self { first: Some(piece), more: Vec::new() }
    }

    /// The piece, if there is only one.
    #[inline]
    #[must_use]
    pub fn only(&self) -> Option<Reader<'a>> {
        self.first.filter(|_| self.more.is_empty())
    }

    /// Adds a piece at the end.
    #[inline]
    pub fn push(&mut self, piece: Reader<'a>) {
        match self.first {
            None => self.first = Some(piece),
            Some(_) => self.more.push(piece),
        }
    }

    /// The pieces in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Reader<'a>> {
        self.first.into_iter().chain(self.more.iter().copied())
    }

    /// Calls `each` with the fields of all pieces.
    #[inline]
    pub fn fields(&self, mut each: impl FnMut(u32, Value<'a>) -> Result<(), Fault>) -> Result<(), Fault> {
        for mut piece in self.iter() {
            // Nearly all messages here have one field, the first, with a length.
            let mut only = piece;
            if let Some(value) = only.field_if(1).filter(|_| only.is_done()) {
                each(1, Value::Bytes(value))?;
                continue;
            }
            while let Some((number, value)) = piece.field()? {
                each(number, value)?;
            }
        }
        Ok(())
    }
}

/// The values of a feature, still encoded.
#[derive(Debug, Clone)]
pub struct List<'a> {
    kind: Kind,
    pieces: Pieces<'a>,
}

impl<'a> List<'a> {
    /// The list in a `Feature`, or nothing where none is set. Of several kinds the last counts, as protobuf has it.
    #[inline]
    pub fn of_feature(feature: &Pieces<'a>) -> Result<Option<Self>, Fault> {
        match feature.only().and_then(Self::alone) {
            Some(list) => Ok(Some(list)),
            None => Self::merged(feature),
        }
    }

    /// The list in a feature that holds nothing else.
    #[inline]
    fn alone(mut feature: Reader<'a>) -> Option<Self> {
        let (number, kind) = match feature.rest().first()? >> 3 {
            1 => (1, Kind::Bytes),
            2 => (2, Kind::Float),
            _ => (3, Kind::Int),
        };
        let list = feature.field_if(number)?;
        feature.is_done().then(|| Self::new(kind, list))
    }

    fn merged(feature: &Pieces<'a>) -> Result<Option<Self>, Fault> {
        let mut list: Option<Self> = None;
        feature.fields(|number, value| {
            let kind = match number {
                1 => Kind::Bytes,
                2 => Kind::Float,
                3 => Kind::Int,
                _ => return Ok(()),
            };
            if let Value::Bytes(piece) = value {
                match &mut list {
                    Some(list) if list.kind == kind => list.pieces.push(piece),
                    _ => list = Some(Self::new(kind, piece)),
                }
            }
            Ok(())
        })?;
        Ok(list)
    }

    /// A list of this kind in one piece.
    #[inline]
    #[must_use]
    pub fn new(kind: Kind, piece: Reader<'a>) -> Self {
        Self { kind, pieces: Pieces::one(piece) }
    }

    /// The list, if it is in one piece.
    #[must_use]
    pub fn only(&self) -> Option<Reader<'a>> {
        self.pieces.only()
    }

    /// What the values are.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many values there are.
    pub fn count(&self) -> Result<usize, Fault> {
        let mut count = 0;
        match self.kind {
            Kind::Bytes => self.each_bytes(|_| count += 1)?,
            Kind::Float => self.each_floats(|floats| count += floats.len() / 4)?,
            // Every varint has one byte without the top bit; that they are whole is seen when they are read.
            Kind::Int => self.each_ints(|ints| {
                count += match ints {
                    Ints::Packed(run) => run.rest().iter().filter(|&&byte| byte < 0x80).count(),
                    Ints::One(_) => 1,
                };
                Ok(())
            })?,
        }
        Ok(count)
    }

    /// Calls `each` with the byte strings.
    #[inline]
    pub fn each_bytes(&self, mut each: impl FnMut(&'a [u8])) -> Result<(), Fault> {
        self.pieces.fields(|number, value| {
            if let (1, Value::Bytes(bytes)) = (number, value) {
                each(bytes.rest());
            }
            Ok(())
        })
    }

    /// Calls `each` with runs of floats, four bytes each.
    #[inline]
    fn each_floats(&self, mut each: impl FnMut(&'a [u8])) -> Result<(), Fault> {
        self.pieces.fields(|number, value| {
            match (number, value) {
                (1, Value::Bytes(packed)) if packed.rest().len().is_multiple_of(4) => each(packed.rest()),
                (1, Value::Bytes(packed)) => return Err(packed.fault(FaultKind::PackedFloats(packed.rest().len()))),
                (1, Value::Fixed32(float)) => each(float),
                _ => {}
            }
            Ok(())
        })
    }

    /// Calls `each` with integers, packed and single ones.
    #[inline]
    fn each_ints(&self, mut each: impl FnMut(Ints<'a>) -> Result<(), Fault>) -> Result<(), Fault> {
        self.pieces.fields(|number, value| match (number, value) {
            (1, Value::Bytes(run)) => each(Ints::Packed(run)),
            (1, Value::Varint(value)) => each(Ints::One(value.cast_signed())),
            _ => Ok(()),
        })
    }
}

/// Integers as they lie in a list.
enum Ints<'a> {
    /// Varints one after another.
    Packed(Reader<'a>),
    /// One in a field of its own.
    One(i64),
}

/// Why values could not be had as what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are no list.
    Fault(Fault),
    /// An integer that the type asked for can't hold.
    Range(i64),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A number that a list can be read as.
pub trait Number: Copy + Default + Send + Sync + 'static {
    /// The list it is read from.
    const KIND: Kind;

    /// Writes as many values as `out` has room for and returns how many there are.
    fn fill(list: &List<'_>, out: &mut [Self]) -> Result<usize, Refusal>;
}

impl Number for f32 {
    const KIND: Kind = Kind::Float;

    #[inline]
    fn fill(list: &List<'_>, out: &mut [Self]) -> Result<usize, Refusal> {
        let mut found = 0;
        list.each_floats(|floats| {
            let room = out.get_mut(found..).unwrap_or_default();
            let taken = room.len().min(floats.len() / 4);
            bytemuck::cast_slice_mut(&mut room[..taken]).copy_from_slice(&floats[..taken * 4]);
            found += floats.len() / 4;
        })?;
        Ok(found)
    }
}

impl Number for i64 {
    const KIND: Kind = Kind::Int;

    #[inline]
    fn fill(list: &List<'_>, out: &mut [Self]) -> Result<usize, Refusal> {
        fill_ints(list, out, Ok)
    }
}

impl Number for i32 {
    const KIND: Kind = Kind::Int;

    #[inline]
    fn fill(list: &List<'_>, out: &mut [Self]) -> Result<usize, Refusal> {
        fill_ints(list, out, |value| value.try_into().map_err(|_| Refusal::Range(value)))
    }
}

#[inline]
fn fill_ints<T>(list: &List<'_>, out: &mut [T], convert: impl Fn(i64) -> Result<T, Refusal>) -> Result<usize, Refusal> {
    let mut found = 0;
    let mut refused = None;
    let mut take = |value| {
        if let Some(room) = out.get_mut(found) {
            match convert(value) {
                Ok(value) => *room = value,
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        found += 1;
    };
    list.each_ints(|ints| {
        match ints {
            Ints::One(value) => take(value),
            Ints::Packed(mut run) => {
                while !run.rest().is_empty() {
                    take(run.varint()?.cast_signed());
                }
            }
        }
        Ok(())
    })?;
    refused.map_or(Ok(found), Err)
}
