//! Batches on their way from one process to another: whole numbers in as few bytes as hold them. What arrives is made
//! here rather than by numpy, whose memory the system takes back after each batch and gives again a page at a time.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seekset_core::io::room::reserve;

use crate::errors::OrRaise;

/// Numbers in as few bytes each as hold them all, and how many those are.
#[pyfunction]
pub fn narrowed<'py>(py: Python<'py>, numbers: PyReadonlyArray1<'py, i64>) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let numbers = numbers.as_slice()?;
    // All bits that any of them has: no branch, so that many numbers are looked at at a time.
    let bits = numbers.iter().fold(0, |bits, &n| bits | n.cast_unsigned());
    let width = match bits {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ if numbers.iter().all(|&n| i32::try_from(n).is_ok()) => 4,
        _ => 8,
    };
    let content = PyBytes::new_with(py, numbers.len() * width, |out| {
        match width {
            1 => out.iter_mut().zip(numbers).for_each(|(byte, &n)| *byte = n as u8),
            2 => put(out, numbers, |n| (n as u16).to_le_bytes()),
            4 => put(out, numbers, |n| (n as i32).to_le_bytes()),
            _ => put(out, numbers, i64::to_le_bytes),
        }
        Ok(())
    })?;
    Ok((content, width))
}

fn put<const N: usize>(out: &mut [u8], numbers: &[i64], bytes: impl Fn(i64) -> [u8; N]) {
    out.as_chunks_mut::<N>().0.iter_mut().zip(numbers).for_each(|(place, &n)| *place = bytes(n));
}

/// What [`narrowed`] made narrow.
#[pyfunction]
pub fn widened<'py>(py: Python<'py>, content: &[u8], width: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let numbers = match width {
        1 => content.iter().map(|&byte| i64::from(byte)).collect(),
        2 => taken(content, |bytes| u16::from_le_bytes(bytes).into()),
        4 => taken(content, |bytes| i32::from_le_bytes(bytes).into()),
        8 => taken(content, i64::from_le_bytes),
        _ => return Err(PyValueError::new_err(format!("numbers are 1, 2, 4 or 8 bytes wide, not {width}"))),
    };
    Ok(PyArray1::from_vec(py, numbers))
}

fn taken<const N: usize>(content: &[u8], number: impl Fn([u8; N]) -> i64) -> Vec<i64> {
    content.as_chunks::<N>().0.iter().map(|&bytes| number(bytes)).collect()
}

/// The place of each token in its sequence, from where sequences start and the last one ends.
#[pyfunction]
pub fn token_positions<'py>(py: Python<'py>, ends: PyReadonlyArray1<'py, i32>) -> PyResult<Bound<'py, PyArray1<i64>>> {
    Ok(PyArray1::from_vec(py, positions(ends.as_slice()?).or_raise(py)?))
}

/// Whether [`token_positions`] of `ends` are these.
#[pyfunction]
pub fn are_token_positions(ends: PyReadonlyArray1<'_, i32>, found: PyReadonlyArray1<'_, i64>) -> PyResult<bool> {
    let mut rest = found.as_slice()?;
    for span in ends.as_slice()?.windows(2) {
        let length = usize::try_from(i64::from(span[1]) - i64::from(span[0])).ok();
        let Some((own, after)) = length.and_then(|length| rest.split_at_checked(length)) else { return Ok(false) };
        if own.iter().zip(0..).fold(0, |differing, (&place, expected)| differing | (place ^ expected)) != 0 {
            return Ok(false);
        }
        rest = after;
    }
    Ok(rest.is_empty())
}

/// The place of each token in its sequence.
pub fn positions(ends: &[i32]) -> seekset_core::Result<Vec<i64>> {
    let mut places = Vec::new();
    reserve(&mut places, ends.last().map_or(0, |&end| end.max(0) as usize))?;
    for span in ends.windows(2) {
        places.extend(0..i64::from(span[1]) - i64::from(span[0]));
    }
    Ok(places)
}
