//! Which windows a contig has.

use crate::error::{Error, Result};
use crate::plan::windows::{Tail, Windows};

/// How contigs are cut into windows: window `k` begins at letter `k * stride`, and what is left at a contig's end is in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRule {
    windows: Windows,
    shortest: u64,
}

impl WindowRule {
    /// Windows of `size` letters, one every `stride`; those with fewer letters than `shortest` are left out.
    ///
    /// ```
    /// use seekset_core::eden::WindowRule;
    /// let rule = WindowRule::new(8192, 7992, 0)?;
    /// assert_eq!([0, 8192, 16183, 16184].map(|length| rule.windows(length)), [1, 1, 1, 2]);
    /// # Ok::<(), seekset_core::Error>(())
    /// ```
    pub fn new(size: u64, stride: u64, shortest: u64) -> Result<Self> {
        for (name, value) in [("window_size", size), ("stride", stride)] {
            if value == 0 {
                return Err(Error::Mismatch(format!("{name} must be at least 1, not 0")));
            }
        }
        Ok(Self { windows: Windows::new(size, size, stride, Tail::Drop, shortest)?, shortest })
    }

    /// Letters of a window.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.windows.window()
    }

    /// Letters from one window's start to the next one's.
    #[must_use]
    pub fn stride(&self) -> u64 {
        self.windows.stride()
    }

    /// Fewest letters of a window.
    #[must_use]
    pub fn shortest(&self) -> u64 {
        self.shortest
    }

    /// Windows of a contig of so many letters. Only one that is shorter than a window has a window that is not full, so
    /// that all windows are too short or none is.
    #[must_use]
    pub fn windows(&self, length: u64) -> u64 {
        if self.size() < self.shortest { 0 } else { self.windows.count(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_those_that_are_long_enough() {
        let spelled_out = |rule: &WindowRule, length: u64| {
            let (size, stride) = (rule.size(), rule.stride());
            let all = if length < size { 1 } else { 1 + (length - size) / stride };
            (0..all).filter(|k| size.min(length - k * stride) >= rule.shortest).count() as u64
        };
        for (size, stride, shortest) in [(5, 3, 0), (5, 3, 1), (5, 3, 4), (5, 5, 5), (5, 8, 6), (1, 1, 1), (3, 1, 2)] {
            let rule = WindowRule::new(size, stride, shortest).unwrap();
            for length in 0..40 {
                assert_eq!(rule.windows(length), spelled_out(&rule, length), "{rule:?}, {length}");
            }
        }
    }

    #[test]
    fn windows_without_letters_or_steps_are_refused() {
        assert!(WindowRule::new(0, 1, 0).is_err());
        assert!(WindowRule::new(1, 0, 0).is_err());
    }
}
