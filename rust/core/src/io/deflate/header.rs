//! The headers of gzip members and zlib streams.

/// How a whole file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One gzip member or several, one after another.
    Gzip,
    /// One zlib stream.
    Zlib,
}

/// The first bytes of every gzip member.
pub(super) const GZIP_MAGIC: [u8; 2] = crate::io::bgzf::GZIP_MAGIC;

/// The longest header that is read. Names and comments have no limit of their own.
pub(super) const LONGEST: u64 = 1 << 18;

const DEFLATE: u8 = 8;
const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;
const DICTIONARY: u8 = 0x20;

impl Kind {
    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
        }
    }

    /// Bytes after the deflate data.
    pub(super) fn trailer(self) -> u64 {
        match self {
            Self::Gzip => 8,
            Self::Zlib => 4,
        }
    }
}

/// What a file that starts with these bytes is compressed with, if it seems to be.
///
/// zlib's start is two bytes without a magic number in them: ask whether the file is something else first.
///
/// ```
/// use seekset_core::io::deflate::{Kind, detect};
/// assert_eq!(detect(b"\x1f\x8b\x08\x00"), Some(Kind::Gzip));
/// assert_eq!(detect(b"\x78\x9c\x63\x00"), Some(Kind::Zlib));
/// assert_eq!(detect(b"plain"), None);
/// ```
#[must_use]
pub fn detect(start: &[u8]) -> Option<Kind> {
    match *start {
        [0x1f, 0x8b, DEFLATE, ..] => Some(Kind::Gzip),
        // The first block's kind is in two bits of the third byte, and 3 is no kind.
        [a, b, ref rest @ ..] if zlib(a, b).is_ok() && rest.first().is_none_or(|c| c & 6 != 6) => Some(Kind::Zlib),
        _ => None,
    }
}

fn zlib(a: u8, b: u8) -> Result<(), String> {
    if a & 15 != DEFLATE || a >> 4 > 7 || !u16::from_be_bytes([a, b]).is_multiple_of(31) {
        return Err(format!("expected the start of a zlib stream, found 0x{a:02x} 0x{b:02x}"));
    }
    if b & DICTIONARY != 0 {
        return Err("it needs a preset dictionary, which is not in the file".to_owned());
    }
    Ok(())
}

/// How many bytes the header that starts `bytes` takes. `whole`: the file ends with them.
pub(super) fn parse(kind: Kind, bytes: &[u8], whole: bool) -> Result<u64, String> {
    let parsed = match (kind, bytes) {
        (Kind::Zlib, [a, b, ..]) => return zlib(*a, *b).map(|()| 2),
        (Kind::Zlib, _) => None,
        (Kind::Gzip, _) => gzip(bytes)?,
    };
    parsed.ok_or_else(|| {
        if whole {
            "the file ends inside its header: it was cut short".to_owned()
        } else {
            format!("its header is longer than {LONGEST} bytes")
        }
    })
}

/// How many bytes the header of a gzip member takes. `None`: there are too few bytes.
pub(super) fn gzip(bytes: &[u8]) -> Result<Option<u64>, String> {
    let Some(&[a, b, method, flags]) = bytes.first_chunk::<4>() else { return Ok(None) };
    if [a, b] != GZIP_MAGIC {
        return Err(format!("expected the start of a gzip member, found 0x{a:02x} 0x{b:02x}"));
    }
    if method != DEFLATE || flags & RESERVED != 0 {
        return Err(format!("expected method 8 and known flags, found method {method} and flags 0x{flags:02x}"));
    }
    let Some(len) = gzip_len(bytes, flags) else { return Ok(None) };
    if flags & HEADER_CRC == 0 {
        return Ok(Some(len as u64));
    }
    let Some(found) = bytes.get(len..len + 2) else { return Ok(None) };
    if found != &libdeflater::crc32(&bytes[..len]).to_le_bytes()[..2] {
        return Err("the checksum of its header does not fit".to_owned());
    }
    Ok(Some(len as u64 + 2))
}

/// Bytes of a gzip header before its checksum.
fn gzip_len(bytes: &[u8], flags: u8) -> Option<usize> {
    let mut len = 10;
    if flags & EXTRA != 0 {
        let extra = bytes.get(len..len + 2)?;
        len += 2 + usize::from(u16::from_le_bytes([extra[0], extra[1]]));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            len += memchr::memchr(0, bytes.get(len..)?)? + 1;
        }
    }
    (len <= bytes.len()).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u8, rest: &[u8]) -> Vec<u8> {
        [&[0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 0xff][..], rest].concat()
    }

    #[test]
    fn files_are_told_by_how_they_start() {
        for (start, expected) in [
            (&[0x1f, 0x8b, 8][..], Some(Kind::Gzip)),
            (&[0x1f, 0x8b, 7], None),
            (&[0x1f, 0x8b], None),
            (&[0x78, 0x01, 0], Some(Kind::Zlib)),
            (&[0x78, 0x5e, 0], Some(Kind::Zlib)),
            (&[0x78, 0xda, 0], Some(Kind::Zlib)),
            (&[0x08, 0x1d, 0], Some(Kind::Zlib)),
            (&[0x78, 0x9c, 7], None),
            (&[0x78, 0x9d, 0], None),
            (&[0x88, 0x1c, 0], None),
            (&[0x78, 0xbb, 0], None),
            (&[0x78, 0x9c], Some(Kind::Zlib)),
            (&[0x78], None),
            (&[], None),
            (&[0; 12], None),
        ] {
            assert_eq!(detect(start), expected, "{start:?}");
        }
    }

    #[test]
    fn gzip_headers_end_where_their_flags_say() {
        let with_crc = header(2, &libdeflater::crc32(&header(2, b"")).to_le_bytes()[..2]);
        for (bytes, expected) in [
            (header(0, b"data"), 10),
            (header(1, b"data"), 10),
            (header(4, b"\x03\0abcdata"), 15),
            (header(8, b"name\0data"), 15),
            (header(16, b"words\0data"), 16),
            (header(28, b"\0\0n\0w\0data"), 16),
            (with_crc, 12),
        ] {
            assert_eq!(parse(Kind::Gzip, &bytes, true), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn headers_that_are_cut_or_unknown_are_refused() {
        let cut = "the file ends inside its header: it was cut short";
        for (kind, bytes, message) in [
            (Kind::Gzip, header(0, b"")[..9].to_vec(), cut),
            (Kind::Gzip, b"\x1f".to_vec(), cut),
            (Kind::Gzip, header(4, b"\x03\0ab"), cut),
            (Kind::Gzip, header(8, b"name"), cut),
            (Kind::Gzip, header(2, b"\0"), cut),
            (Kind::Gzip, header(2, b"\0\0"), "the checksum of its header does not fit"),
            (Kind::Gzip, header(0x20, b""), "expected method 8 and known flags, found method 8 and flags 0x20"),
            (Kind::Gzip, b"data".to_vec(), "expected the start of a gzip member, found 0x64 0x61"),
            (Kind::Zlib, b"\x78".to_vec(), cut),
            (Kind::Zlib, b"\x78\x9d".to_vec(), "expected the start of a zlib stream, found 0x78 0x9d"),
            (Kind::Zlib, b"\x78\xbb".to_vec(), "it needs a preset dictionary, which is not in the file"),
        ] {
            assert_eq!(parse(kind, &bytes, true), Err(message.to_owned()), "{bytes:?}");
        }
        assert_eq!(
            parse(Kind::Gzip, &header(8, b"name"), false),
            Err("its header is longer than 262144 bytes".to_owned())
        );
    }
}
