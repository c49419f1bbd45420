//! Dtypes as pickles have them: a code such as `f4`, and an order of bytes. Those that hold objects or fields are refused.

use super::heap::damaged;
use crate::error::Result;

/// What an array or a number of numpy's is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dtype {
    /// `b`, `i`, `u`, `f` or `c`; `S` and `U` for strings.
    pub kind: u8,
    /// Bytes of an item.
    pub size: usize,
    /// Whether the highest byte of a number comes first.
    pub big: bool,
}

impl Dtype {
    pub const BOOL: Self = Self { kind: b'b', size: 1, big: false };
    pub const INT: Self = Self { kind: b'i', size: 8, big: false };
    pub const FLOAT: Self = Self { kind: b'f', size: 4, big: false };

    /// The dtype of a code.
    pub fn new(code: &[u8]) -> Result<Self> {
        let refused = || {
            let told: String = String::from_utf8_lossy(code).chars().take(20).collect();
            damaged(format!("dtype '{}' is refused: only plain numbers and strings are read", told.escape_debug()))
        };
        let (&kind, digits) = code.split_first().ok_or_else(refused)?;
        let number = match digits {
            [b'0'..=b'9', ..] if digits.len() <= 9 && digits.iter().all(u8::is_ascii_digit) => {
                digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
            }
            _ => return Err(refused()),
        };
        let size = match (kind, number) {
            (b'b', 1) | (b'i' | b'u', 1 | 2 | 4 | 8) | (b'f', 2 | 4 | 8 | 16) | (b'c', 8 | 16) if digits[0] != b'0' => {
                number
            }
            (b'S', _) => number,
            (b'U', 0..=0x1fff_ffff) => 4 * number,
            _ => return Err(refused()),
        };
        Ok(Self { kind, size, big: false })
    }

    /// Takes over the order of bytes in a state.
    pub fn set_order(&mut self, order: &[u8]) -> Result<()> {
        match order {
            b"<" => self.big = false,
            b">" => self.big = self.swapped() > 1,
            b"|" => {}
            _ => return Err(fields()),
        }
        Ok(())
    }

    /// The bytes that change their order between little and big ends.
    pub fn swapped(self) -> usize {
        match self.kind {
            b'c' => self.size / 2,
            b'S' => 1,
            b'U' => 4.min(self.size),
            _ => self.size,
        }
    }

    /// Whether a column may have it. Floats of 16 bytes differ by machine.
    pub fn is_numeric(self) -> bool {
        matches!((self.kind, self.size), (b'b' | b'i' | b'u' | b'f', ..=8) | (b'c', ..=16))
    }

    /// As it is in a column.
    pub fn little(self) -> Self {
        Self { big: false, ..self }
    }

    /// As numpy writes it.
    pub fn code(self) -> String {
        let order = match (self.swapped(), self.big) {
            (0 | 1, _) if self.kind != b'U' => '|',
            (_, false) => '<',
            (_, true) => '>',
        };
        let number = if self.kind == b'U' { self.size / 4 } else { self.size };
        format!("{order}{}{number}", char::from(self.kind))
    }

    /// What numpy calls it.
    pub fn name(self) -> String {
        let kind = match self.kind {
            b'b' => return "bool".to_owned(),
            b'i' => "int",
            b'u' => "uint",
            b'f' => "float",
            b'c' => "complex",
            _ => return self.code(),
        };
        if self.big { self.code() } else { format!("{kind}{}", 8 * self.size) }
    }

    /// What numpy calls a number or string of it.
    pub fn scalar_name(self) -> &'static str {
        match self.kind {
            b'S' => "bytes_",
            b'U' => "str_",
            b'f' if self.size == 16 => "longdouble",
            _ => "number",
        }
    }
}

/// The error for a dtype that is more than a number or a string.
pub fn fields() -> crate::Error {
    damaged("a dtype with fields is refused: only plain numbers and strings are read")
}
