//! Many FASTA files, the longest sequence first, behind one handle.

mod create;
mod open;
mod written;

use std::path::{Path, PathBuf};

pub use create::CreateOptions;

use crate::error::{Error, Place, Result};
use crate::files::{Files, by_file};
use crate::gather::{self, Kernel, Raw};
use crate::index::sequences::{Sequence, Sequences, UNKNOWN_ROW};
pub use crate::io::Origin;
use crate::io::seldom::{Once, Seldom};
use crate::plan::Request;

/// An open index over many FASTA files. Reads take `&self`, from any number of threads.
///
/// ```
/// use seekset_core::plan::Request;
/// use seekset_core::sequences::{CreateOptions, SequenceIndex};
/// use seekset_core::watch::Unwatched;
/// # let dir = tempfile::tempdir()?;
/// # let (a, b, path) = (dir.path().join("a.fa"), dir.path().join("b.fa"), dir.path().join("both.sidx"));
/// std::fs::write(&a, b">x\nMK\n>y\nMKVL\n")?;
/// std::fs::write(&b, b">z\nMKV\n")?;
/// SequenceIndex::create(&[a, b], Some(&path), &CreateOptions::default(), &Unwatched)?;
/// let index = SequenceIndex::open(&path, &Unwatched)?;
/// assert_eq!(index.sequences().lengths(), [4, 3, 2]);
/// assert_eq!(index.sequences().id(1)?, "z");
/// let (letters, offsets) = index.windows(&[Request::whole(2), Request::whole(0)])?;
/// assert_eq!((letters, offsets), (b"MKMKVL".to_vec(), vec![0, 2, 6]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SequenceIndex {
    path: Option<PathBuf>,
    index: Sequences,
    files: Files,
    origin: Origin,
    remarks: Vec<String>,
    /// For single reads.
    seldom: Seldom,
    /// For the lengths as a whole, and for all numbers of all rows.
    lengths: Once,
    numbers: Once,
}

impl SequenceIndex {
    fn new(path: Option<&Path>, index: Sequences, origin: Origin, remarks: Vec<String>) -> Self {
        let files = Files::new(&index.facts().files, path);
        let (path, seldom) = (path.map(Path::to_owned), Seldom::new());
        Self { path, index, files, origin, remarks, seldom, lengths: Once::default(), numbers: Once::default() }
    }

    /// Where the index is, in the form that it was opened in; nothing if it is in memory alone.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The index itself.
    #[must_use]
    pub fn sequences(&self) -> &Sequences {
        &self.index
    }

    /// How many sequences there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Where the index came from. That of JSON is about the Arrow file which stands for it.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What is odd about the index or its files and no reason not to read them.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The files, in the order of their numbers.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        self.files.paths()
    }

    /// An error if a file is missing, or not what it was when it was indexed in size and time.
    pub fn check_files(&self) -> Result<()> {
        (0..self.files().len() as u32).try_for_each(|file| self.files.check(file))
    }

    /// An error if a file is missing, or not what it was when it was indexed in size, time and sampled content.
    fn check_contents(&self) -> Result<()> {
        (0..self.files().len() as u32).try_for_each(|file| self.files.check_content(file))
    }

    /// An error if the index is not what it was at open.
    pub fn check_unchanged(&self) -> Result<()> {
        self.index.check_unchanged()
    }

    /// The same for single reads: at most one look a millisecond.
    pub fn check_now_and_then(&self) -> Result<()> {
        self.seldom.look(|| self.check_unchanged())
    }

    /// An error if the lengths are not what was written: a pass over them at the first call.
    pub fn check_lengths(&self) -> Result<()> {
        self.check_unchanged()?;
        self.lengths.look(|| self.index.checked_lengths().map(drop).map_err(|e| self.named(e)))
    }

    /// An error if lengths, files, rows or bytes of sequences are not what was written: a pass over them at the first call.
    pub fn check_numbers(&self) -> Result<()> {
        self.check_unchanged()?;
        self.numbers.look(|| self.index.check_sequences().map_err(|e| self.named(e)))
    }

    /// An error with both files and places if an id names two sequences.
    pub fn refuse_duplicates(&self) -> Result<()> {
        self.check_unchanged()?;
        refuse_repeats(&self.index, self.files()).map_err(|e| self.named(e))
    }

    /// Errors from the index with its name.
    #[must_use]
    pub fn named(&self, error: Error) -> Error {
        match (&error, &self.path) {
            (Error::Format { path: None, .. } | Error::Stale { path: None, .. }, Some(path)) => error.in_file(path),
            _ => error,
        }
    }

    /// Looks up requests, whose rows are those of the index.
    pub fn resolve(&self, requests: &[Request]) -> Result<Resolved> {
        self.check_unchanged()?;
        let found = |request: &Request| {
            let sequence = self.index.sequence(request.row).map_err(|e| self.named(e))?;
            let (start, length, row) = (request.start, sequence.length, request.row);
            let left = length.checked_sub(start).ok_or_else(|| {
                Error::Mismatch(format!("a window starts at letter {start} of row {row}, which has {length} letters"))
            })?;
            Ok((Wanted { sequence, request: *request }, left.min(request.letters)))
        };
        let (wanted, letters) = requests.iter().map(found).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok(Resolved { wanted, letters })
    }

    /// Fills `slots`, which [`gather::layout`] cuts out of an output, with what `kernel` makes of the letters.
    pub fn gather<K: Kernel>(&self, resolved: &Resolved, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
        let files: Vec<u32> = resolved.wanted.iter().map(|wanted| wanted.sequence.file).collect();
        by_file(&files, slots, |_, which, slots| {
            let wanted: Vec<&Wanted> = which.iter().map(|&k| &resolved.wanted[k]).collect();
            self.gather_file(&wanted, kernel, slots)
        })
    }

    fn gather_file<K: Kernel>(&self, wanted: &[&Wanted], kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
        let Some(first) = wanted.first() else { return Ok(()) };
        let fasta = self.files.get(first.sequence.file)?;
        fasta.check_now_and_then().map_err(|e| self.files.named(e))?;
        let requests = wanted.iter().map(|wanted| wanted.in_file(fasta.index())).collect::<Result<Vec<Request>>>();
        // The file is what it was, so that `create` would take the index as it is.
        let requests =
            requests.map_err(|e| self.files.told(e.in_file(fasta.path()), " with force=True (seekset index -f)"))?;
        let gathered = fasta.plan(&requests).and_then(|batch| fasta.gather(&batch, kernel, slots));
        gathered.map_err(|error| match error {
            // The row of the index, which is what was asked for.
            Error::UnknownLetter { path, table, row, id, position, letter } => {
                let asked = wanted.iter().find(|w| w.in_file(fasta.index()).is_ok_and(|request| request.row == row));
                let row = asked.map_or(row, |wanted| wanted.request.row);
                Error::UnknownLetter { path, table, row, id, position, letter }
            }
            other => self.files.named(other),
        })
    }

    /// The letters of many windows, one after another, and where each starts.
    pub fn windows(&self, requests: &[Request]) -> Result<(Vec<u8>, Vec<i64>)> {
        let resolved = self.resolve(requests)?;
        gather::gathered(resolved.letters(), |slots| self.gather(&resolved, &Raw, slots))
    }
}

/// An error with both files and places, in the order of files, if an id names two sequences.
fn refuse_repeats(index: &Sequences, files: &[PathBuf]) -> Result<()> {
    let Some((first, second)) = index.repeat(&crate::io::Spills::elsewhere())? else { return Ok(()) };
    let place = |row: u64| -> Result<(PathBuf, Place)> {
        let Sequence { file, row, byte_offset, .. } = index.sequence(row)?;
        let record = Some(row).filter(|&row| row != UNKNOWN_ROW);
        Ok((files[file as usize].clone(), Place { record, ..Place::at(byte_offset) }))
    };
    let id = index.id(second)?.to_owned();
    Err(Error::Repeated { id, places: Box::new([place(first)?, place(second)?]) })
}

/// A request and the sequence that it is about.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    sequence: Sequence,
    request: Request,
}

impl Wanted {
    /// The request as one of a row of its file. The record there must be what the index says.
    fn in_file(&self, index: &crate::index::Sidx) -> Result<Request> {
        let Sequence { length, byte_offset, row, .. } = self.sequence;
        let row = if row == UNKNOWN_ROW { index.row_at(byte_offset) } else { Some(row) };
        let entry = row.and_then(|row| index.entry(row).ok());
        match (row, entry) {
            (Some(row), Some(entry)) if (entry.header_offset, entry.length) == (byte_offset, length) => {
                Ok(Request { row, ..self.request })
            }
            _ => {
                let (asked, found) = (
                    self.request.row,
                    entry.map_or("none".to_owned(), |entry| {
                        format!("one of {} letters at byte {}", entry.length, entry.header_offset)
                    }),
                );
                Err(Error::stale(format!(
                    "row {asked} of the index is a record of {length} letters at byte {byte_offset}, but there is {found}"
                )))
            }
        }
    }
}

/// Requests whose sequences were looked up, with the number of letters of each known.
#[derive(Debug, Clone)]
pub struct Resolved {
    wanted: Vec<Wanted>,
    letters: Vec<u64>,
}

impl Resolved {
    /// Letters of each request, in the order asked.
    #[must_use]
    pub fn letters(&self) -> &[u64] {
        &self.letters
    }
}
