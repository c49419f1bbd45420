//! Space for values that are written once, without being filled with zeros before: for a batch, that is a second writing.

use crate::error::{Error, Result};

/// What there may be space for: numbers that need no care when they are overwritten.
pub trait Number: Copy + Send + Sync + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl sealed::Sealed for $kind {}
        impl Number for $kind {}
    )*};
}
numbers!(u8, i32, i64, f32);

/// Makes room for so many more values, no more than that. Where memory has none, that is an error and not the end.
pub fn reserve<T>(values: &mut Vec<T>, more: usize) -> Result<()> {
    values.try_reserve_exact(more).map_err(|_| Error::no_memory())
}

/// Space for `rows` times `columns` numbers, in which `write` puts them. More than there is, is an error, and so is more
/// than can be counted.
///
/// # Safety
///
/// Where `write` succeeds, it has written every number; and it reads none that it has not written.
pub unsafe fn written<T: Number>(
    rows: usize,
    columns: usize,
    write: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<Vec<T>> {
    let len = rows.checked_mul(columns).ok_or_else(Error::no_memory)?;
    let mut values: Vec<T> = Vec::new();
    reserve(&mut values, len)?;
    // SAFETY: the space was reserved, is nobody else's, and is only written to: that is the caller's part.
    write(unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr(), len) })?;
    // SAFETY: `write` has written all of it.
    unsafe { values.set_len(len) };
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_were_written() {
        let fill = |room: &mut [i32]| {
            room.fill(7);
            Ok(())
        };
        // SAFETY: all are written.
        assert_eq!(unsafe { written(3, 2, fill) }.unwrap(), [7; 6]);
        assert!(unsafe { written(0, 9, fill) }.unwrap().is_empty());
    }

    #[test]
    fn failures_and_more_than_there_is_are_errors() {
        // SAFETY: nothing is said to be written.
        let failed = unsafe { written::<u8>(3, 1, |_| Err(Error::Mismatch("no".to_owned()))) };
        assert_eq!(failed.unwrap_err().to_string(), "no");
        for (rows, columns) in [(usize::MAX / 8, 1), (2, (1 << 63) + 50_000), (1 << 32, 1 << 32)] {
            // SAFETY: `write` is not called.
            assert!(unsafe { written::<i64>(rows, columns, |_| unreachable!()) }.is_err());
        }
    }
}
