//! The compressed bytes of a gzip or zlib file, inflated piece by piece, from the start or from the middle.

use libdeflater::{Adler32, Crc};

use super::header::{self, Kind};
use super::inflater::{Inflater, Stop};
use crate::error::{Error, Result};
use crate::io::source::{Scratch, Source};

/// Compressed bytes that are looked at in one go.
const PIECE: u64 = 1 << 15;

/// What the next compressed byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Header,
    Body,
    Trailer,
    End,
}

/// The checksum of what a member inflates to, under way, and how many bytes that is.
enum Check {
    Gzip(Crc, u32),
    Zlib(Adler32),
    /// Decoding began in the middle of the member, or somebody else compares what comes out.
    Left,
}

/// Inflates a file from one place on. What it reads from is handed in with every call.
pub(super) struct Decoder {
    kind: Kind,
    inflater: Inflater,
    stage: Stage,
    /// The next compressed byte.
    at: u64,
    /// Which member this is, counted from where decoding began. Only gzip has more than one.
    member: u64,
    check: Check,
    checking: bool,
    input: Scratch,
}

/// What [`Decoder::fill`] did.
pub(super) struct Filled {
    /// Bytes written.
    pub len: usize,
    /// If a place to begin at was asked for and reached: the compressed bit it is at.
    pub boundary: Option<u64>,
    /// Whether the data has ended, and well.
    pub ended: bool,
}

impl Decoder {
    /// At the start of a file. With `checking`, what members inflate to is compared with their checksums.
    pub fn new(kind: Kind, checking: bool) -> Result<Self> {
        let inflater = Inflater::new().ok_or_else(|| Error::Io { path: None, source: no_memory() })?;
        let (stage, input) = (Stage::Header, Scratch::default());
        Ok(Self { kind, inflater, stage, at: 0, member: 0, check: Check::Left, checking, input })
    }

    /// Goes to compressed bit `bit`, which follows a block that ended with the bytes `window`.
    pub fn restart(&mut self, raw: &dyn Source, bit: u64, window: &[u8]) -> Result<()> {
        let (byte, skipped) = (bit / 8, (bit % 8) as u8);
        let mut value = 0;
        self.at = byte;
        if skipped > 0 {
            value = raw.bytes(byte..byte + 1, &mut self.input)?[0] >> skipped;
            self.at += 1;
        }
        (self.stage, self.member, self.check) = (Stage::Body, 0, Check::Left);
        if self.inflater.restart((8 - skipped) % 8, value, window) {
            Ok(())
        } else {
            Err(Error::corrupt(byte, "decoding can't begin here"))
        }
    }

    /// Inflates until `out` is full or the data ends; with `to_boundary`, at most to where decoding can begin anew.
    pub fn fill(&mut self, raw: &dyn Source, out: &mut [u8], to_boundary: bool) -> Result<Filled> {
        let mut filled = Filled { len: 0, boundary: None, ended: false };
        while filled.len < out.len() && filled.boundary.is_none() && !filled.ended {
            match self.stage {
                Stage::Header => {
                    self.begin(raw)?;
                    filled.boundary = to_boundary.then_some(self.at * 8);
                }
                Stage::Body => {
                    let (len, boundary) = self.inflate(raw, &mut out[filled.len..], to_boundary)?;
                    filled.len += len;
                    filled.boundary = boundary;
                }
                Stage::Trailer => self.finish(raw)?,
                Stage::End => filled.ended = true,
            }
        }
        Ok(filled)
    }

    /// The bytes inflated last, as far as what follows may refer to them.
    pub fn window(&mut self) -> Vec<u8> {
        self.inflater.window()
    }

    /// The next compressed byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Passes over a header.
    fn begin(&mut self, raw: &dyn Source) -> Result<()> {
        let bytes = raw.bytes(self.at..raw.len().min(self.at + header::LONGEST), &mut self.input)?;
        let whole = self.at + bytes.len() as u64 == raw.len();
        self.at +=
            header::parse(self.kind, bytes, whole).map_err(|why| wrong(self.kind, self.member, self.at, &why))?;
        self.inflater.reset();
        self.check = match self.kind {
            _ if !self.checking => Check::Left,
            Kind::Gzip => Check::Gzip(Crc::new(), 0),
            Kind::Zlib => Check::Zlib(Adler32::new()),
        };
        self.stage = Stage::Body;
        Ok(())
    }

    /// One step of inflating: how many bytes came out, and the bit at which a block ended.
    fn inflate(&mut self, raw: &dyn Source, out: &mut [u8], to_boundary: bool) -> Result<(usize, Option<u64>)> {
        let input = raw.bytes(self.at..raw.len().min(self.at.saturating_add(PIECE)), &mut self.input)?;
        let step = self
            .inflater
            .step(input, out, to_boundary)
            .map_err(|why| wrong(self.kind, self.member, self.at, &format!("it can't be inflated ({why})")))?;
        if step.consumed == 0 && step.produced == 0 && step.stop == Stop::More {
            return Err(wrong(self.kind, self.member, raw.len(), "the file ends inside its data: it was cut short"));
        }
        self.at += step.consumed as u64;
        let new = &out[..step.produced];
        match &mut self.check {
            Check::Gzip(crc, len) => {
                crc.update(new);
                *len = len.wrapping_add(new.len() as u32);
            }
            Check::Zlib(adler) => adler.update(new),
            Check::Left => {}
        }
        match step.stop {
            Stop::Block(bits) if to_boundary => Ok((step.produced, Some(self.at * 8 - u64::from(bits)))),
            Stop::Block(_) | Stop::More => Ok((step.produced, None)),
            Stop::End => {
                self.stage = Stage::Trailer;
                Ok((step.produced, None))
            }
        }
    }

    /// Passes over a trailer, and compares it.
    fn finish(&mut self, raw: &dyn Source) -> Result<()> {
        let wrong = |why: &str| wrong(self.kind, self.member, self.at, why);
        let end = self.at + self.kind.trailer();
        if end > raw.len() {
            return Err(wrong("the file ends inside its checksum: it was cut short"));
        }
        let trailer = raw.bytes(self.at..end, &mut self.input)?;
        match &self.check {
            Check::Gzip(crc, _) if trailer[..4] != crc.sum().to_le_bytes() => {
                return Err(wrong("its checksum (CRC-32) does not fit what it inflates to"));
            }
            Check::Gzip(_, len) if trailer[4..] != len.to_le_bytes() => {
                return Err(wrong("the length at its end does not fit what it inflates to"));
            }
            Check::Zlib(adler) if trailer != adler.sum().to_be_bytes() => {
                return Err(wrong("its checksum (Adler-32) does not fit what it inflates to"));
            }
            _ => {}
        }
        let rest = raw.len() - end;
        let next = raw.bytes(end..end + rest.min(2), &mut self.input)?;
        self.stage = match self.kind {
            _ if rest == 0 => Stage::End,
            Kind::Gzip if header::GZIP_MAGIC.starts_with(next) => Stage::Header,
            _ => {
                let name = self.kind.name();
                let message = format!("the {name} data ends here and {rest} bytes follow that belong to nothing");
                return Err(Error::corrupt(end, message));
            }
        };
        (self.at, self.member) = (end, self.member + 1);
        Ok(())
    }
}

fn no_memory() -> std::io::Error {
    std::io::ErrorKind::OutOfMemory.into()
}

fn wrong(kind: Kind, member: u64, at: u64, why: &str) -> Error {
    let member = if kind == Kind::Gzip { format!(" member {member}") } else { " data".to_owned() };
    Error::corrupt(at, format!("{}{member}: {why}", kind.name()))
}
