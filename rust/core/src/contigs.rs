//! The contigs of many FASTA files behind one handle, in the order of the files.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fasta::{Fasta, Origin};
use crate::files::{Files, by_file, open_fasta};
use crate::gather::{self, Kernel, Raw};
use crate::index::Sidx;
use crate::index::sequences::{FastaFile, Seen};
use crate::plan::Request;
use crate::plan::split::Splits;
use crate::plan::windows::{self, Windows};
use crate::watch::Watch;

/// Contigs that are read between two looks at their file.
const BETWEEN_LOOKS: u64 = 1024;

/// Contigs of many files, numbered from the first of the first file to the last of the last. Reads take `&self`, from any
/// number of threads.
///
/// ```
/// use seekset_core::contigs::Contigs;
/// use seekset_core::plan::Request;
/// use seekset_core::watch::Unwatched;
/// # let dir = tempfile::tempdir()?;
/// # let (a, b) = (dir.path().join("a.fa"), dir.path().join("b.fa"));
/// std::fs::write(&a, b">x\nAC\n>y\nACGT\n")?;
/// std::fs::write(&b, b">z\nGGT\n")?;
/// let contigs = Contigs::open(&[a, b], &Unwatched)?;
/// assert_eq!((contigs.len(), contigs.id(2)?), (3, "z".to_owned()));
/// let window = Request { row: 2, start: 1, letters: 5, reverse: true };
/// assert_eq!(contigs.letters(&[window, Request::whole(0)])?, (b"ACAC".to_vec(), vec![0, 2, 4]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Contigs {
    files: Files,
    /// The number of each file's first contig, and how many there are in all.
    starts: Vec<u64>,
    /// Size and sampled content of each file: what it is known by, wherever it is.
    marks: Vec<(u64, u64)>,
    remarks: Vec<String>,
}

/// Which contigs have windows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// One flag per contig; all of them without.
    pub wanted: Option<&'a [bool]>,
    /// Those of one split, by its number.
    pub split: Option<(&'a Splits, usize)>,
}

impl Selection<'_> {
    fn has(&self, contig: u64, row: u64, fasta: &Fasta) -> Result<bool> {
        if self.wanted.is_some_and(|wanted| !wanted.get(contig as usize).copied().unwrap_or(false)) {
            return Ok(false);
        }
        match self.split {
            Some((splits, number)) => {
                if row.is_multiple_of(BETWEEN_LOOKS) {
                    fasta.check_now_and_then()?;
                }
                let id = fasta.index().id(row).map_err(|e| e.in_file(fasta.index_path()))?;
                Ok(splits.of(id.as_bytes()) == Some(number))
            }
            None => Ok(true),
        }
    }
}

/// The windows of all contigs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Where the windows of each contig end, counted over all of them.
    pub ends: Vec<i64>,
    /// Contigs that are meant.
    pub contigs: u64,
    /// Their letters.
    pub letters: u64,
    /// Those of their letters that are in no window.
    pub unseen: u64,
}

/// A part of a contig that windows are cut from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The contig.
    pub contig: u64,
    /// The first letter.
    pub start: u64,
    /// The letter after the last.
    pub end: u64,
}

/// A window that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The contig.
    pub contig: u64,
    /// How long that is.
    pub length: u64,
    /// The window's stretch: the contig itself, or a region.
    pub stretch: usize,
    /// The first letter.
    pub start: u64,
    /// How many letters it has.
    pub letters: u64,
}

/// Lengths of contigs, one after another. A file is taken, and looked at, when it comes up, and not for each of its contigs
/// that follow: that would take longer than reading a length.
struct Lengths<'a> {
    contigs: &'a Contigs,
    file: Option<(u32, Arc<Fasta>)>,
}

impl Lengths<'_> {
    fn of(&mut self, contig: u64) -> Result<u64> {
        let (file, row) = self.contigs.place(contig)?;
        let fasta = match self.file.take() {
            Some((last, fasta)) if last == file => fasta,
            _ => {
                let fasta = self.contigs.files.get(file)?;
                fasta.check_now_and_then()?;
                fasta
            }
        };
        let (_, fasta) = self.file.insert((file, fasta));
        fasta.index().entry(row).map(|entry| entry.length).map_err(|e| e.in_file(fasta.index_path()))
    }
}

impl Contigs {
    /// Opens files, each with its own index, which is made if it is missing or does not fit.
    pub fn open(paths: &[PathBuf], watch: &dyn Watch) -> Result<Self> {
        let sizes = paths.iter().map(|path| std::fs::metadata(path).map(|m| m.len()).map_err(|e| Error::io(path, e)));
        let sizes = sizes.collect::<Result<Vec<u64>>>()?;
        let total: u64 = sizes.iter().sum();
        let (mut known, mut starts, mut marks, mut remarks) = (Vec::new(), vec![0], Vec::new(), Vec::new());
        let mut before = 0;
        for (path, &size) in paths.iter().zip(&sizes) {
            let share = |done: u64, of: u64| {
                let part = u128::from(size) * u128::from(done) / u128::from(of.max(1));
                watch.progress(before + part as u64, total)
            };
            let fasta = open_fasta(path, None, false, &share)?;
            let text =
                path.to_str().ok_or_else(|| Error::Mismatch(format!("{}: its path is no UTF-8", path.display())));
            remarks.extend(fasta.remark().map(|remark| format!("{}: {remark}", path.display())));
            if let Origin::Memory { because } = fasta.origin() {
                let path = path.display();
                remarks.push(format!("{path}: its index can't be written ({because}) and is built in every process"));
            }
            let fingerprint = *fasta.index().fingerprint();
            known.push(FastaFile { path: text?.to_owned(), seen: Seen::Fully(fingerprint) });
            marks.push((fingerprint.size, fingerprint.sample));
            starts.push(starts.last().unwrap_or(&0) + fasta.len());
            before += size;
        }
        Ok(Self { files: Files::new(&known, None), starts, marks, remarks })
    }

    /// How many contigs there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files, in their order.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        self.files.paths()
    }

    /// The size and a sample of the content of each file, which tell it from others.
    #[must_use]
    pub fn marks(&self) -> &[(u64, u64)] {
        &self.marks
    }

    /// What is odd about the files and no reason not to read them.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// How many contigs each file has, in the order of files.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.starts.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// The file of a contig and its row there.
    pub fn place(&self, contig: u64) -> Result<(u32, u64)> {
        if contig >= self.len() {
            return Err(Error::RowOutOfRange { row: contig as i64, rows: self.len() });
        }
        let file = self.starts.partition_point(|&start| start <= contig) - 1;
        Ok((file as u32, contig - self.starts[file]))
    }

    /// The id of a contig.
    pub fn id(&self, contig: u64) -> Result<String> {
        let (file, row) = self.place(contig)?;
        self.files.get(file)?.read_index(|index| index.id(row).map(str::to_owned))
    }

    /// The length of a contig.
    pub fn length(&self, contig: u64) -> Result<u64> {
        self.lengths().of(contig)
    }

    fn lengths(&self) -> Lengths<'_> {
        Lengths { contigs: self, file: None }
    }

    /// The ids of one file, in its order, passed to `each` with the contig's number and length.
    pub fn each_of(&self, file: u32, mut each: impl FnMut(u64, &str, u64) -> Result<()>) -> Result<()> {
        let fasta = self.files.get(file)?;
        let first = self.starts[file as usize];
        for from in (0..fasta.len()).step_by(BETWEEN_LOOKS as usize) {
            let mut rows = from..fasta.len().min(from + BETWEEN_LOOKS);
            fasta.read_index(|index| {
                rows.try_for_each(|row| each(first + row, index.id(row)?, index.entry(row)?.length))
            })?;
        }
        Ok(())
    }

    /// The contigs of this id: one in each file at the most, unless a file repeats it.
    pub fn find(&self, id: &str) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        for (file, &first) in self.starts[..self.files().len()].iter().enumerate() {
            let fasta = self.files.get(file as u32)?;
            let Some(row) = fasta.read_index(|index| index.find(id))? else { continue };
            found.push(first + row);
            // Look-ups give the first of those that share an id, which few files have.
            let after = if fasta.index().repeated_ids() > 0 { row + 1..fasta.len() } else { 0..0 };
            for later in after {
                if fasta.read_index(|index| index.id(later))? == id {
                    found.push(first + later);
                }
            }
        }
        Ok(found)
    }

    /// Counts the windows of all contigs.
    pub fn windows(&self, windows: &Windows, selection: Selection<'_>, watch: &dyn Watch) -> Result<Planned> {
        let mut planned = Planned::default();
        for (file, &first) in self.starts[..self.files().len()].iter().enumerate() {
            let fasta = self.files.get(file as u32)?;
            let lengths = fasta.read_index(Sidx::checked_lengths)?;
            let mut failed = None;
            let mut meant = |(row, &length): (usize, &u64)| {
                let has = selection.has(first + row as u64, row as u64, &fasta).unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    false
                });
                if has {
                    planned.contigs += 1;
                    planned.letters = planned.letters.saturating_add(length);
                    planned.unseen = planned.unseen.saturating_add(windows.unseen(length));
                }
                has.then_some(length)
            };
            windows::ends(windows, lengths.iter().enumerate().map(&mut meant), &mut planned.ends)?;
            if let Some(error) = failed {
                return Err(error);
            }
            if !watch.progress(file as u64 + 1, self.files().len() as u64) {
                return Err(Error::Interrupted);
            }
        }
        Ok(planned)
    }

    /// The windows of contigs that are not full, and how many letters each has.
    pub fn short(&self, windows: &Windows, ends: &[i64]) -> Result<(Vec<i64>, Vec<i64>)> {
        let mut lengths = Vec::new();
        for file in 0..self.files().len() {
            let fasta = self.files.get(file as u32)?;
            lengths.extend_from_slice(fasta.read_index(Sidx::checked_lengths)?);
        }
        Ok(windows::short(windows, ends, lengths.into_iter()))
    }

    /// Finds windows: of contigs, or of stretches of them where there are any.
    pub fn locate(
        &self,
        windows: &Windows,
        ends: &[i64],
        stretches: Option<&dyn Fn(usize) -> Option<Stretch>>,
        numbers: &[i64],
    ) -> Result<Vec<Found>> {
        let mut lengths = self.lengths();
        let find = |&number: &i64| {
            let (stretch, k) = windows::locate(ends, number)?;
            let Some(of) = stretches else {
                let contig = stretch as u64;
                let length = lengths.of(contig)?;
                let (start, letters) = windows.span(length, k);
                return Ok(Found { contig, length, stretch, start, letters });
            };
            let outside =
                || Error::Mismatch(format!("region {stretch} is none of those that windows were counted for"));
            let Stretch { contig, start, end } = of(stretch).ok_or_else(outside)?;
            let (within, letters) = windows.span(end.saturating_sub(start), k);
            Ok(Found { contig, length: lengths.of(contig)?, stretch, start: start + within, letters })
        };
        numbers.iter().map(find).collect()
    }

    /// How many letters each request has: fewer than asked for where its contig ends before.
    pub fn resolve(&self, requests: &[Request]) -> Result<Vec<u64>> {
        let mut lengths = self.lengths();
        let left = |request: &Request| {
            let (length, Request { row, start, .. }) = (lengths.of(request.row)?, request);
            let left = length.checked_sub(*start).ok_or_else(|| {
                Error::Mismatch(format!(
                    "a window starts at letter {start} of contig {row}, which has {length} letters"
                ))
            })?;
            Ok(left.min(request.letters))
        };
        requests.iter().map(left).collect()
    }

    /// Fills `slots`, one for each request, whose rows are contigs, with what `kernel` makes of the letters.
    pub fn gather<K: Kernel>(&self, requests: &[Request], kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
        let places = requests.iter().map(|request| self.place(request.row)).collect::<Result<Vec<_>>>()?;
        let files: Vec<u32> = places.iter().map(|&(file, _)| file).collect();
        by_file(&files, slots, |file, which, slots| {
            let fasta = self.files.get(file)?;
            let wanted: Vec<Request> = which.iter().map(|&k| Request { row: places[k].1, ..requests[k] }).collect();
            fasta.plan(&wanted).and_then(|batch| fasta.gather(&batch, kernel, slots))
        })
    }

    /// The letters of many windows, one after another, and where each starts.
    pub fn letters(&self, requests: &[Request]) -> Result<(Vec<u8>, Vec<i64>)> {
        gather::gathered(&self.resolve(requests)?, |slots| self.gather(requests, &Raw, slots))
    }
}
