//! Index a FASTA file, look an id up and read a window of its letters.
//!
//! ```text
//! cargo run --release --example index -- FILE [ID]
//! ```
//!
//! `FILE` may be plain or compressed by bgzip. The index is written beside it, as `FILE.sidx`, and found there again the
//! next time.

use std::path::Path;

use seekset_core::fasta::{Fasta, OpenOptions};
use seekset_core::plan::Request;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("give the path of a FASTA file, and perhaps an id")?;

    // Reads all of the file the first time, and no more than a few pages of it and of the index from then on.
    let fasta = Fasta::open(Path::new(&file), &OpenOptions::default())?;
    let letters: u64 = fasta.index().lengths().iter().sum();
    println!("{} records, {letters} letters; index: {}", fasta.len(), fasta.index_path().display());

    // Rows count from 0 in the order of the file; ids lead to rows.
    let id = match arguments.next() {
        Some(id) => id,
        None if fasta.is_empty() => return Ok(()),
        None => fasta.index().id(0)?.to_owned(),
    };
    let Some(row) = fasta.index().find(&id)? else {
        let near = fasta.index().nearest(&id, 3, 100_000);
        return Err(format!("no record is called {id}; did you mean one of {}?", near.join(", ")).into());
    };

    // One window is read by one call ...
    let window = fasta.window(row, 0, 60)?;
    println!(">{}\n{}", fasta.header(row)?, String::from_utf8_lossy(&window));

    // ... and many are gathered by one call, in parallel where that pays: here it and its reverse complement.
    let forward = Request { row, start: 0, letters: 60, reverse: false };
    let (bytes, offsets) = fasta.windows(&[forward, Request { reverse: true, ..forward }])?;
    println!("reverse complement:\n{}", String::from_utf8_lossy(&bytes[offsets[1] as usize..]));
    Ok(())
}
