//! Stepping stones through records whose lines are uneven.
//!
//! Where lines are alike, the place of a letter is arithmetic. Where they are not, a count of the letters before every
//! 64th KiB lets a window start near its place instead of at the start of the record.

use std::ops::Range;

use crate::error::Result;
use crate::io::{Scratch, Source};
use crate::scan::block::{BLOCK, odd};

/// Bytes between two marks.
pub const MARK_STEP: u64 = 1 << 16;

/// For every [`MARK_STEP`] bytes after the start of `span`, how many letters lie before. Asks `go_on` at every MiB.
pub fn marks(source: &dyn Source, span: Range<u64>, mut go_on: impl FnMut() -> Result<()>) -> Result<Vec<u64>> {
    let mut scratch = Scratch::default();
    let mut before = 0;
    let steps = span.end.saturating_sub(span.start).saturating_sub(1) / MARK_STEP;
    (0..steps)
        .map(|step| {
            if step % 16 == 0 {
                source.check_unchanged()?;
                go_on()?;
            }
            let at = span.start + step * MARK_STEP;
            before += letters(source.bytes(at..at + MARK_STEP, &mut scratch)?);
            Ok(before)
        })
        .collect()
}

fn letters(bytes: &[u8]) -> u64 {
    let blanks: u32 = (0..bytes.len()).step_by(BLOCK).map(|at| odd(bytes, at).count_ones()).sum();
    bytes.len() as u64 - u64::from(blanks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn marks_count_the_letters_before_each_step() {
        let bytes = b"ACG\nT ".repeat(30_000);
        let found = marks(&bytes, 7..bytes.len() as u64, || Ok(())).unwrap();
        let step = MARK_STEP as usize;
        let count = |to: usize| bytes[7..to].iter().filter(|b| b.is_ascii_graphic()).count() as u64;
        assert_eq!(found, [count(7 + step), count(7 + 2 * step)]);
        assert_eq!(marks(&bytes, 7..7 + MARK_STEP, || Ok(())).unwrap(), Vec::<u64>::new());
        assert_eq!(marks(&bytes, 7..7, || Ok(())).unwrap(), Vec::<u64>::new());
    }

    #[test]
    fn whoever_watches_can_stop_in_the_middle_of_a_record() {
        let bytes = vec![b'A'; 5 << 20];
        let mut asked = 0;
        let stopped = marks(&bytes, 0..bytes.len() as u64, || {
            asked += 1;
            if asked == 3 { Err(Error::Interrupted) } else { Ok(()) }
        });
        assert!(matches!(stopped, Err(Error::Interrupted)));
        assert_eq!(asked, 3);
    }
}
