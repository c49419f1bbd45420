//! Any bytes are a pickle of examples or are refused; columns have the length that their rows ask for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::Error;
use seekset_core::io::deflate::gunzip;
use seekset_core::pickle::{Examples, read};

const MOST: usize = 1 << 24;

fuzz_target!(|bytes: &[u8]| {
    let inflated = bytes.starts_with(b"\x1f\x8b").then(|| gunzip(bytes, MOST));
    let pickle = match &inflated {
        None => bytes,
        Some(Ok(inflated)) => inflated,
        Some(Err(Error::Unreadable { .. } | Error::TooLarge { .. })) => return,
        Some(Err(other)) => panic!("{other}"),
    };
    match read(pickle, MOST) {
        Ok(found) => {
            assert!(found.bytes <= MOST);
            let Examples::Columns(found) = found.examples else { return };
            assert!(!found.columns.is_empty() && found.rows > 0);
            for column in &found.columns {
                let size: usize = column.dtype[2..].parse().expect("a size");
                assert_eq!(column.values.len(), found.rows * column.shape.iter().product::<usize>() * size);
                if column.dtype == "|b1" {
                    assert!(column.values.iter().all(|&byte| byte < 2));
                }
            }
            assert!(found.bad.is_sorted_by(|a, b| a.row < b.row));
            assert!(found.bad.iter().all(|bad| bad.row < found.rows));
        }
        Err(Error::Unreadable { .. } | Error::TooLarge { .. }) => {}
        Err(other) => panic!("{other}"),
    }
});
