//! The opcodes of pickles, protocols 0 to 5, and the bytes that follow them.

use memchr::memchr;

use super::heap::damaged;
use crate::error::Result;

macro_rules! opcodes {
    ($($name:ident = $byte:expr),* $(,)?) => { $(pub const $name: u8 = $byte;)* };
}

opcodes! {
    MARK = b'(', STOP = b'.', POP = b'0', POP_MARK = b'1', DUP = b'2',
    FLOAT = b'F', INT = b'I', BININT = b'J', BININT1 = b'K', LONG = b'L', BININT2 = b'M', NONE = b'N',
    PERSID = b'P', BINPERSID = b'Q', REDUCE = b'R', STRING = b'S', BINSTRING = b'T', SHORT_BINSTRING = b'U',
    UNICODE = b'V', BINUNICODE = b'X', APPEND = b'a', BUILD = b'b', GLOBAL = b'c', DICT = b'd', EMPTY_DICT = b'}',
    APPENDS = b'e', GET = b'g', BINGET = b'h', INST = b'i', LONG_BINGET = b'j', LIST = b'l', EMPTY_LIST = b']',
    OBJ = b'o', PUT = b'p', BINPUT = b'q', LONG_BINPUT = b'r', SETITEM = b's', TUPLE = b't', EMPTY_TUPLE = b')',
    SETITEMS = b'u', BINFLOAT = b'G', BINBYTES = b'B', SHORT_BINBYTES = b'C',
    PROTO = 0x80, NEWOBJ = 0x81, EXT1 = 0x82, EXT2 = 0x83, EXT4 = 0x84, TUPLE1 = 0x85, TUPLE2 = 0x86, TUPLE3 = 0x87,
    NEWTRUE = 0x88, NEWFALSE = 0x89, LONG1 = 0x8a, LONG4 = 0x8b, SHORT_BINUNICODE = 0x8c, BINUNICODE8 = 0x8d,
    BINBYTES8 = 0x8e, EMPTY_SET = 0x8f, ADDITEMS = 0x90, FROZENSET = 0x91, NEWOBJ_EX = 0x92, STACK_GLOBAL = 0x93,
    MEMOIZE = 0x94, FRAME = 0x95, BYTEARRAY8 = 0x96, NEXT_BUFFER = 0x97, READONLY_BUFFER = 0x98,
}

/// The bytes of a pickle, and how far they have been read.
pub struct Cursor<'p> {
    bytes: &'p [u8],
    at: usize,
    /// Where the opcode began that is being read.
    start: usize,
    /// Where the frame ends that was begun last.
    frame: usize,
}

impl<'p> Cursor<'p> {
    pub fn new(bytes: &'p [u8]) -> Self {
        Self { bytes, at: 0, start: 0, frame: 0 }
    }

    /// The next opcode.
    pub fn opcode(&mut self) -> Result<u8> {
        // Python's unpickler drops what is left of a frame in the middle of a value.
        if self.start < self.frame && self.at > self.frame {
            return Err(damaged("UnpicklingError: pickle exhausted before end of frame"));
        }
        self.start = self.at;
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte.ok_or_else(ran_out)
    }

    /// Where the opcode began that is being read.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// So many bytes, as they are.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()).copied();
        self.at += N;
        found.ok_or_else(ran_out)
    }

    /// A number of one, two, four or eight bytes.
    pub fn number<const N: usize>(&mut self) -> Result<u64> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        Ok(u64::from_le_bytes(wide))
    }

    /// Where the bytes start that follow a length of `N` bytes, and how many they are.
    pub fn counted<const N: usize>(&mut self) -> Result<(usize, usize)> {
        let len = self.number::<N>()?;
        self.check(len)?;
        let start = self.at;
        self.at += len as usize;
        Ok((start, len as usize))
    }

    /// Begins a frame, of which nothing is to be known but where it ends.
    pub fn begin_frame(&mut self) -> Result<()> {
        let len = self.number::<8>()?;
        self.check(len)?;
        if self.start < self.frame {
            return Err(damaged("UnpicklingError: beginning of a new frame before end of current frame"));
        }
        self.frame = self.at + len as usize;
        Ok(())
    }

    /// Refuses a length that leads beyond the end.
    fn check(&self, len: u64) -> Result<()> {
        if len <= (self.bytes.len() - self.at) as u64 {
            return Ok(());
        }
        let (start, end, all) = (self.start, self.at as u128 + u128::from(len), self.bytes.len());
        Err(damaged(format!("at byte {start} it says that its next value ends at byte {end}, but it has {all} bytes")))
    }

    /// The rest of a line, without its end.
    pub fn line(&mut self) -> Result<&'p [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = memchr(b'\n', rest).ok_or_else(ran_out)?;
        self.at += end + 1;
        Ok(&rest[..end])
    }
}

fn ran_out() -> crate::Error {
    damaged("EOFError: Ran out of input")
}
