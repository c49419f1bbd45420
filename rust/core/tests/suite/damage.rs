//! Ways to damage a file, for tests of what is read from disks.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// One way to damage a file.
#[derive(Debug, Clone)]
pub enum Damage {
    Flip(Index, u8),
    Truncate(Index),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    /// Some bytes take the place of others.
    Copy(Index, Index, usize),
}

impl Damage {
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Flip(at, mask) if !bytes.is_empty() => *at.get_mut(bytes) ^= mask,
            Self::Flip(..) => {}
            Self::Truncate(at) => bytes.truncate(at.index(bytes.len() + 1)),
            Self::Remove(at, len) => {
                let at = at.index(bytes.len() + 1);
                bytes.drain(at..bytes.len().min(at + len));
            }
            Self::Insert(at, new) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Copy(from, to, len) => {
                let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
                let len = (*len).min(bytes.len() - from).min(bytes.len() - to);
                bytes.copy_within(from..from + len, to);
            }
        }
    }
}

pub fn damage() -> impl Strategy<Value = Damage> {
    // Columns are of 4- and 8-byte numbers and start at multiples of 64.
    let len = prop_oneof![1..40_usize, (1..40_usize).prop_map(|n| 4 * n), (1..10_usize).prop_map(|n| 64 * n)];
    prop_oneof![
        6 => (any::<Index>(), 1..=255_u8).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        1 => any::<Index>().prop_map(Damage::Truncate),
        2 => (any::<Index>(), len.clone()).prop_map(|(at, len)| Damage::Remove(at, len)),
        2 => (any::<Index>(), vec(any::<u8>(), 1..70)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        2 => (any::<Index>(), any::<Index>(), len).prop_map(|(from, to, len)| Damage::Copy(from, to, len)),
    ]
}
