//! gzip'd bytes that are in memory, inflated whole: libdeflate is twice as quick as zlib, where nothing has to be read in
//! pieces.

use std::ptr::NonNull;

use flate2::{Decompress, FlushDecompress, Status};
use libdeflate_sys as sys;

use super::header::{self, GZIP_MAGIC};
use crate::error::{Error, Result};
use crate::io::room::reserve;

/// What deflate can't exceed: bytes out for a byte in.
const MOST_RATIO: usize = 1032;
/// Room to begin with, where the size that a file tells is of no use.
const LEAST_ROOM: usize = 1 << 16;
const TRAILER: usize = 8;

/// Inflates all members of a gzip file; never to more than `max_bytes`, whatever it claims.
///
/// Zeros after a member are padding, as for gzip; whatever else is there is refused.
///
/// ```
/// let hello = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xcbH\xcd\xc9\xc9\x07\0\x86\xa6\x106\x05\0\0\0";
/// assert_eq!(seekset_core::io::deflate::gunzip(hello, 100)?, b"hello");
/// assert!(seekset_core::io::deflate::gunzip(hello, 4).is_err());
/// # Ok::<(), seekset_core::Error>(())
/// ```
pub fn gunzip(mut content: &[u8], max_bytes: usize) -> Result<Vec<u8>> {
    let inflater = Inflater::new()?;
    let mut out = Vec::new();
    grow(&mut out, hinted(content).min(max_bytes))?;
    let mut number = 0;
    while !content.is_empty() {
        let taken = inflater.member(content, &mut out, max_bytes, number)?;
        content = &content[taken..];
        let zeros = content.iter().take_while(|&&byte| byte == 0).count();
        content = &content[zeros..];
        if !content.is_empty() && !content.starts_with(&GZIP_MAGIC) {
            let found = content[..content.len().min(8)].escape_ascii();
            return Err(Error::unreadable(format!(
                "expected the end or another gzip member after member {number}, found b'{found}'"
            )));
        }
        number += 1;
    }
    Ok(out)
}

/// The size that a file tells at its end, if deflate could reach it; with a byte more, for which there is no use if it is true.
fn hinted(content: &[u8]) -> usize {
    let told = content.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize + 1);
    told.min(content.len().saturating_mul(MOST_RATIO)).max(LEAST_ROOM)
}

fn grow(out: &mut Vec<u8>, more: usize) -> Result<()> {
    reserve(out, more)
}

/// The error for what has more bytes inflated than are allowed.
pub(crate) fn inflates_beyond(max_bytes: usize) -> Error {
    Error::too_large(format!(
        "it has more than {max_bytes} bytes inflated; give the reader a larger max_bytes if that is right"
    ))
}

/// libdeflate's state.
struct Inflater(NonNull<sys::libdeflate_decompressor>);

impl Inflater {
    fn new() -> Result<Self> {
        // SAFETY: it takes nothing, and gives a state of its own or null.
        let state = NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() });
        state.map(Self).ok_or_else(Error::no_memory)
    }

    /// Appends what a member holds to `out`, and says how many bytes the member has.
    fn member(&self, content: &[u8], out: &mut Vec<u8>, max_bytes: usize, number: usize) -> Result<usize> {
        // libdeflate passes over the checksum of a header.
        if !matches!(header::gzip(content), Ok(Some(_))) {
            return Err(told(content, max_bytes - out.len(), max_bytes, number));
        }
        loop {
            let len = out.len();
            let room = out.spare_capacity_mut();
            let (mut read, mut written) = (0, 0);
            // SAFETY: both slices are alive and lent for the call, which reads and writes within their lengths; it needs
            // nothing of what is in the room before.
            let result = unsafe {
                sys::libdeflate_gzip_decompress_ex(
                    self.0.as_ptr(),
                    content.as_ptr().cast(),
                    content.len(),
                    room.as_mut_ptr().cast(),
                    room.len(),
                    &raw mut read,
                    &raw mut written,
                )
            };
            match result {
                sys::libdeflate_result_LIBDEFLATE_SUCCESS => {
                    let len = len + written.min(room.len());
                    // SAFETY: so many bytes of the room have been written.
                    unsafe { out.set_len(len) };
                    return if len > max_bytes { Err(inflates_beyond(max_bytes)) } else { Ok(read.min(content.len())) };
                }
                sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE if out.capacity() <= max_bytes => {
                    // A byte more than is allowed tells that there is more.
                    let most = max_bytes.saturating_add(1).saturating_sub(out.len());
                    let more = (2 * (out.capacity() - out.len())).max(LEAST_ROOM).min(most);
                    let before = out.capacity();
                    grow(out, more)?;
                    if out.capacity() == before {
                        return Err(inflates_beyond(max_bytes));
                    }
                }
                sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => return Err(inflates_beyond(max_bytes)),
                _ => return Err(told(content, max_bytes - out.len(), max_bytes, number)),
            }
        }
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: it was made by libdeflate, and nobody has it any more.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) };
    }
}

/// What is wrong with a member that libdeflate refuses, which does not say: it is read once more, by zlib.
fn told(content: &[u8], left: usize, max_bytes: usize, number: usize) -> Error {
    let others =
        |what: &str| Error::unreadable(format!("gzip member {number}: expected deflated bytes, found others ({what})"));
    let early = |given: u64| {
        let len = content.len();
        Error::unreadable(format!("gzip member {number} ends early: {len} bytes give {given}, and more was to come"))
    };
    let start = match header::gzip(content) {
        Ok(Some(start)) => start as usize,
        Ok(None) => return early(0),
        Err(message) => return others(&message),
    };
    let mut inflater = Decompress::new(false);
    let mut piece = vec![0; LEAST_ROOM];
    loop {
        let at = start + inflater.total_in() as usize;
        let before = (inflater.total_in(), inflater.total_out());
        let status = inflater.decompress(&content[at..], &mut piece, FlushDecompress::None);
        let given = inflater.total_out();
        if given > left as u64 {
            return inflates_beyond(max_bytes);
        }
        match status {
            Err(_) => return others("what comes is no block of deflate"),
            Ok(Status::StreamEnd) => break,
            Ok(_) if (inflater.total_in(), given) == before => return early(given),
            Ok(_) => {}
        }
    }
    let end = start + inflater.total_in() as usize;
    if content.len() - end < TRAILER {
        early(inflater.total_out())
    } else {
        others("its checksum or length does not fit")
    }
}

#[cfg(test)]
mod tests {
    use libdeflater::{CompressionLvl, Compressor};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(CompressionLvl::default());
        let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
        let len = compressor.gzip_compress(bytes, &mut out).unwrap();
        out.truncate(len);
        out
    }

    fn refused(content: &[u8], max_bytes: usize) -> String {
        gunzip(content, max_bytes).unwrap_err().to_string()
    }

    #[test]
    fn members_are_one_file_and_zeros_after_them_are_padding() {
        let (long, longer) = (vec![8; 300_000], vec![7; 1_000_000]);
        for parts in [&[&b"one"[..]][..], &[b"one", b"", b"two"], &[&longer, b"x", &long]] {
            let whole = parts.concat();
            let file: Vec<u8> = parts.iter().flat_map(|part| [gzip(part), vec![0; 5]].concat()).collect();
            assert_eq!(gunzip(&file, whole.len()).unwrap(), whole);
            let expected = format!("<bytes>: it has more than {} bytes inflated", whole.len() - 1);
            assert!(refused(&file, whole.len() - 1).starts_with(&expected));
        }
    }

    #[test]
    fn a_bound_that_nothing_reaches_bounds_nothing() {
        // The last member's size is of no use, so that the room has to grow.
        let file = [gzip(&vec![7; 1_000_000]), gzip(b"")].concat();
        assert_eq!(gunzip(&file, usize::MAX).unwrap().len(), 1_000_000);
    }

    #[test]
    fn a_size_that_is_not_true_is_not_believed() {
        let mut file = gzip(&vec![7; 1_000_000]);
        let end = file.len();
        for told in [0_u32, 1, 999_999, 1_000_001, u32::MAX] {
            file[end - 4..].copy_from_slice(&told.to_le_bytes());
            assert!(refused(&file, 1 << 30).contains("gzip member 0: expected deflated bytes, found others"));
        }
        // The last member's size is not that of the others.
        assert_eq!(gunzip(&[gzip(&vec![7; 1_000_000]), gzip(b"")].concat(), 1 << 30).unwrap().len(), 1_000_000);
    }

    #[test]
    fn every_cut_is_told() {
        let file = gzip(b"some words, and some words again, and again");
        for cut in 2..file.len() {
            let expected = format!("<bytes>: gzip member 0 ends early: {cut} bytes give ");
            assert!(refused(&file[..cut], 100).starts_with(&expected), "{cut}: {}", refused(&file[..cut], 100));
        }
    }

    #[test]
    fn what_is_no_member_is_told() {
        let file = gzip(b"words");
        let after = [&file[..], b"garb'age"].concat();
        assert_eq!(
            refused(&after, 100),
            r"<bytes>: expected the end or another gzip member after member 0, found b'garb\'age'"
        );
        let mut damaged = file.clone();
        damaged[10] = 0xff;
        assert!(refused(&damaged, 100).contains("gzip member 0: expected deflated bytes, found others"));
        let mut second = [&file[..], &file[..]].concat();
        second[file.len() + 2] = 7;
        assert!(refused(&second, 100).contains("gzip member 1: expected deflated bytes, found others"));
    }
}
