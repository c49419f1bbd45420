//! zlib's inflate, with what it takes to stop between two blocks and to start there again.

use std::ffi::CStr;

use libz_rs_sys::{
    Z_BLOCK, Z_BUF_ERROR, Z_NO_FLUSH, Z_OK, Z_STREAM_END, inflate, inflateEnd, inflateGetDictionary, inflateInit2_,
    inflatePrime, inflateReset, inflateSetDictionary, z_stream, zlibVersion,
};

/// How far back a deflate stream may refer, and so all that decoding needs to know of what came before.
pub const WINDOW: usize = 1 << 15;

/// Raw deflate, with neither gzip's nor zlib's header around it.
const RAW: i32 = -15;

/// The state of one deflate stream.
pub(super) struct Inflater {
    /// Boxed, so that it stays where it was initialised.
    stream: Box<z_stream>,
}

// SAFETY: the stream owns its state and points to nothing else between two calls (`step` clears what it lent), so it
// may be used from one thread after another.
unsafe impl Send for Inflater {}

/// Why a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The input is used up or the output is full.
    More,
    /// A block ended and another follows. So many bits of the bytes consumed belong to that one.
    Block(u8),
    /// The last block ended.
    End,
}

/// What one step did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub consumed: usize,
    pub produced: usize,
    pub stop: Stop,
}

impl Inflater {
    /// A stream at its start; `None` if there is no memory for it.
    pub fn new() -> Option<Self> {
        let mut stream = Box::new(z_stream::default());
        // SAFETY: the stream is a valid, exclusively borrowed one with the library's own allocator, the version is the
        // library's own, and the size is that of the type.
        let code = unsafe { inflateInit2_(&raw mut *stream, RAW, zlibVersion(), size_of::<z_stream>() as i32) };
        (code == Z_OK).then_some(Self { stream })
    }

    /// Goes back to the start of a stream.
    pub fn reset(&mut self) {
        // SAFETY: the stream was initialised in `new`. The call fails for others only.
        unsafe { inflateReset(&raw mut *self.stream) };
    }

    /// Goes to the middle of a stream: `bits` (at most 7, the lowest of `value`) come before the bytes of the next step,
    /// `window` is what was inflated last. False if that can't be.
    pub fn restart(&mut self, bits: u8, value: u8, window: &[u8]) -> bool {
        self.reset();
        if bits > 7 || window.len() > WINDOW {
            return false;
        }
        // SAFETY: the stream was initialised in `new`.
        let primed = unsafe { inflatePrime(&raw mut *self.stream, i32::from(bits), i32::from(value)) } == Z_OK;
        // SAFETY: as above; the pointer and the length are those of one slice, which is only read from.
        primed && unsafe { inflateSetDictionary(&raw mut *self.stream, window.as_ptr(), window.len() as u32) } == Z_OK
    }

    /// Inflates until the input is used up, the output is full, the stream ends or, if asked to, a block ends.
    /// An error says in zlib's words what is wrong with the input.
    pub fn step(&mut self, input: &[u8], output: &mut [u8], to_block: bool) -> Result<Step, String> {
        let input = &input[..input.len().min(1 << 30)];
        let room = output.len().min(1 << 30);
        let stream = &mut *self.stream;
        stream.next_in = input.as_ptr().cast_mut();
        stream.avail_in = input.len() as u32;
        stream.next_out = output.as_mut_ptr();
        stream.avail_out = room as u32;
        // SAFETY: the stream was initialised in `new`; `next_in` is readable for `avail_in` bytes and never written to,
        // `next_out` is writable for `avail_out` bytes, and both slices outlive the call.
        let code = unsafe { inflate(&raw mut *stream, if to_block { Z_BLOCK } else { Z_NO_FLUSH }) };
        let consumed = input.len() - stream.avail_in as usize;
        let produced = room - stream.avail_out as usize;
        (stream.next_in, stream.avail_in) = (std::ptr::null_mut(), 0);
        (stream.next_out, stream.avail_out) = (std::ptr::null_mut(), 0);
        let stop = match code {
            Z_STREAM_END => Stop::End,
            // As zlib.h has it: 128 at the end of a block, 64 in the last one, below them the bits not used yet.
            Z_OK if stream.data_type & 0xc0 == 0x80 => Stop::Block((stream.data_type & 0x3f) as u8),
            Z_OK | Z_BUF_ERROR => Stop::More,
            _ => return Err(self.message()),
        };
        Ok(Step { consumed, produced, stop })
    }

    /// The bytes inflated last, as far back as the stream may refer.
    pub fn window(&mut self) -> Vec<u8> {
        let mut window = vec![0; WINDOW];
        let mut len = 0;
        // SAFETY: the stream was initialised in `new` with a window of `WINDOW` bytes; `window` has room for all of them.
        unsafe { inflateGetDictionary(&raw mut *self.stream, window.as_mut_ptr(), &raw mut len) };
        window.truncate(len as usize);
        window
    }

    fn message(&self) -> String {
        if self.stream.msg.is_null() {
            return "no deflate data".to_owned();
        }
        // SAFETY: where it is not null, zlib's message is a constant text with a zero at its end.
        unsafe { CStr::from_ptr(self.stream.msg) }.to_string_lossy().into_owned()
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: the stream was initialised in `new` and is not used again.
        unsafe { inflateEnd(&raw mut *self.stream) };
    }
}
