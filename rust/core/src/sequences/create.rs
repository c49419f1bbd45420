//! Making an index of many files, or taking the one that is there if it fits.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rayon::prelude::*;

use super::open::{is_json, refuse_files, refuse_foreign, refuse_foreign_json};
use super::written::{Take, Written, sorted};
use super::{SequenceIndex, refuse_repeats};
use crate::error::{Error, Result};
use crate::fasta::Fasta;
use crate::files::{kept, open_fasta};
use crate::index::ids::Ids;
use crate::index::sequences::builder::too_long;
use crate::index::sequences::json::JsonWriter;
use crate::index::sequences::order::by_length;
use crate::index::sequences::reader::{AT_ONCE, TAKEN};
use crate::index::sequences::{Builder, Counts, Facts, FastaFile, Rows, Seen, Sequence, Sequences, Turns};
use crate::index::sidx::Entries;
use crate::io::open::beside;
use crate::io::whole::WholeFile;
use crate::io::{Origin, Spills, threads};
use crate::watch::Watch;

/// Records are asked for so many records before they are read.
const AHEAD: usize = 32;

/// How to make an index.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateOptions {
    /// Whether to make it, and the indexes of the files, even if there are good ones.
    pub force: bool,
    /// Whether to refuse ids that name two sequences.
    pub unique: bool,
}

/// A file that was given.
struct Given {
    path: PathBuf,
    text: String,
    size: u64,
}

impl SequenceIndex {
    /// The index of these files. The one at `path` is taken if it fits, else it is made, in the form that the path's
    /// ending asks for; without a path it is made in memory.
    pub fn create(files: &[PathBuf], path: Option<&Path>, options: &CreateOptions, watch: &dyn Watch) -> Result<Self> {
        let given = look(files)?;
        let found = match path {
            Some(path) if !options.force => fitting(path, &given, watch)?,
            _ => Err(None),
        };
        match found {
            Ok(index) if options.unique => index.refuse_duplicates().map(|()| index),
            Ok(index) => Ok(index),
            Err(because) => make(&given, path, because, *options, watch),
        }
    }
}

/// The files by their absolute paths, each of which must be there and another one.
fn look(files: &[PathBuf]) -> Result<Vec<Given>> {
    if files.is_empty() {
        return Err(Error::Mismatch("a sequence index is about at least one file, and none was given".to_owned()));
    }
    let mut known: HashMap<(u64, u64), &Path> = HashMap::new();
    let given = files.iter().map(|file| {
        let path = std::path::absolute(file).map_err(|e| Error::io(file, e))?;
        let metadata = std::fs::metadata(&path).map_err(|e| Error::io(file, e))?;
        if let Some(other) = known.insert((metadata.dev(), metadata.ino()), file) {
            let (file, other) = (file.display(), other.display());
            return Err(Error::Mismatch(format!("{file}: the same file was given before, as {other}")));
        }
        let text = path.to_str().map(str::to_owned);
        let text = text.ok_or_else(|| Error::Mismatch(format!("{}: its path is no UTF-8", path.display())))?;
        Ok(Given { path, text, size: metadata.len() })
    });
    given.collect()
}

/// The index at `path` if it is about these files as they are now, or why it is not; nothing if there is none.
fn fitting(path: &Path, given: &[Given], watch: &dyn Watch) -> Result<Result<SequenceIndex, Option<String>>> {
    if !path.exists() {
        return Ok(Err(None));
    }
    let index = match SequenceIndex::open(path, watch) {
        Ok(index) => index,
        Err(error @ Error::Interrupted) => return Err(error),
        Err(error) => return Ok(Err(Some(error.to_string()))),
    };
    Ok(match misfit(&index, given) {
        Some(why) => Err(Some(why)),
        None => Ok(index),
    })
}

fn misfit(index: &SequenceIndex, given: &[Given]) -> Option<String> {
    let there = index.files();
    let known: HashSet<&PathBuf> = there.iter().collect();
    let wanted: HashSet<&PathBuf> = given.iter().map(|file| &file.path).collect();
    if let Some(file) = given.iter().find(|file| !known.contains(&file.path)) {
        return Some(format!("it is not about {}, which was given", file.text));
    }
    if let Some(path) = there.iter().find(|path| !wanted.contains(path)) {
        return Some(format!("it is about {}, which was not given", path.display()));
    }
    if !there.iter().eq(given.iter().map(|file| &file.path)) {
        return Some("the files were given in another order".to_owned());
    }
    let sound = index.sequences().verify().map_err(|e| index.named(e));
    sound.and_then(|()| index.check_contents()).err().map(|error| error.to_string())
}

fn make(
    given: &[Given],
    path: Option<&Path>,
    because: Option<String>,
    options: CreateOptions,
    watch: &dyn Watch,
) -> Result<SequenceIndex> {
    let json = path.filter(|path| is_json(path));
    let arrow = json.map_or_else(|| path.map(Path::to_owned), |json| Some(beside(json, ".sidx")));
    let files: Vec<PathBuf> = given.iter().map(|file| file.path.clone()).collect();
    if let Some(path) = path {
        refuse_files(path, &files)?;
    }
    if let Some(json) = json {
        refuse_foreign_json(json)?;
    }
    if let Some(arrow) = &arrow {
        refuse_foreign(arrow)?;
    }
    let whole = match &arrow {
        Some(arrow) => WholeFile::create(arrow),
        None => Err(Error::Mismatch("it was given no path".to_owned())),
    };
    // JSON is read without the Arrow file beside it, too; an Arrow file that was asked for is to be there.
    let must = json.is_none() && path.is_some();
    let whole = if must { Ok(whole?) } else { whole };
    let spills = path.filter(|_| whole.is_ok()).map_or_else(Spills::elsewhere, Spills::beside);
    let mut remarks = Vec::new();
    let (records, mut facts) = collect(given, path, options.force, &spills, watch, &mut remarks)?;
    let counts = records.counts()?;
    let sound = |index: &Sequences| if options.unique { refuse_repeats(index, &files) } else { Ok(()) };
    let Some(json) = json else {
        let pass = |take: &mut Take<'_>| records.by_length(&facts, &spills, take);
        let (index, origin) = Written::counted(counts, &facts, whole, watch, pass)?.named(because, must, sound)?;
        return Ok(SequenceIndex::new(path, index, origin, remarks));
    };
    let mut file = WholeFile::create(json)?;
    let mut writer = JsonWriter::new(&mut file, &facts, counts.rows, counts.tokens)?;
    // Collected: what the JSON file looks like stands before the rows and is known after them.
    let mut builder = Builder::new(&spills, watch, 0)?;
    records.by_length(&facts, &spills, &mut |rows| writer.take(rows).and_then(|()| builder.take(rows)))?;
    writer.finish()?;
    facts.json = Some(file.fingerprint()?);
    let publish_json = |index: &Sequences| sound(index).and_then(|()| file.publish().map(drop));
    let (index, origin) = Written::collected(builder, &facts, whole)?.named(because, false, publish_json)?;
    Ok(SequenceIndex::new(Some(json), index, origin, remarks))
}

/// The records of all files, in their order.
enum Records<'a> {
    /// In the files' own indexes, which are open.
    Open(OpenFiles),
    /// Collected, because so many files can't be open at a time.
    Collected(Box<Builder<'a>>),
}

impl Records<'_> {
    /// How many there are, and how large they are.
    fn counts(&self) -> Result<Counts> {
        match self {
            Self::Open(files) => files.counts(),
            Self::Collected(builder) => Ok(builder.counts()),
        }
    }

    /// Hands over all of them by length.
    fn by_length(self, facts: &Facts, spills: &Spills, take: &mut Take<'_>) -> Result<()> {
        match self {
            Self::Open(files) => files.by_length(spills, take),
            Self::Collected(builder) => sorted(*builder, facts, spills, take),
        }
    }
}

/// Files whose records are numbered from the first of the first to the last of the last.
struct OpenFiles {
    files: Vec<Fasta>,
    /// The number of each file's first record.
    starts: Vec<u64>,
}

impl OpenFiles {
    fn new(files: Vec<Fasta>) -> Self {
        let mut next = 0;
        let start = |fasta: &Fasta| {
            let start = next;
            next += fasta.len();
            start
        };
        Self { starts: files.iter().map(start).collect(), files }
    }

    fn counts(&self) -> Result<Counts> {
        let mut counts = Counts::default();
        for fasta in &self.files {
            counts.rows += fasta.len();
            counts.id_bytes += fasta.index().id_bytes().map_err(|e| e.in_file(fasta.index_path()))?;
            for &length in fasta.index().lengths() {
                counts.tokens = counts.tokens.checked_add(length).ok_or_else(too_long)?;
            }
        }
        Ok(counts)
    }

    /// Hands over all records by length. Their checksums are compared first and in the order of files: by length, each
    /// column that is read costs a wait for memory.
    fn by_length(&self, spills: &Spills, take: &mut Take<'_>) -> Result<()> {
        self.files.iter().try_for_each(|fasta| check_rows(fasta).map_err(|e| e.in_file(fasta.index_path())))?;
        let lengths: Vec<&[u64]> = self.files.iter().map(|fasta| fasta.index().lengths()).collect();
        by_length(&lengths, spills, |numbers, rows| self.read(numbers, rows), take)?;
        // What was compared is what was read.
        self.files.iter().try_for_each(|fasta| fasta.index().check_unchanged())
    }

    /// The file and row of a record.
    fn place(&self, number: u64) -> (usize, u64) {
        let file = self.starts.partition_point(|&start| start <= number) - 1;
        (file, number - self.starts[file])
    }

    fn read(&self, numbers: &[u64], rows: &mut Rows) -> Result<()> {
        let entries: Vec<Entries<'_>> = self.files.iter().map(|fasta| fasta.index().entries()).collect();
        let ids: Vec<Ids<'_>> = self.files.iter().map(|fasta| fasta.index().ids()).collect();
        let places: Vec<(usize, u64)> = numbers.iter().map(|&number| self.place(number)).collect();
        rows.reserve(places.len());
        for (k, &(file, row)) in places.iter().enumerate() {
            if let Some(&(file, row)) = places.get(k + AHEAD) {
                entries[file].prefetch_start(row);
                ids[file].prefetch_place(row);
            }
            if let Some(&(file, row)) = places.get(k + AHEAD / 2) {
                ids[file].prefetch(row);
            }
            push(rows, &entries[file], &ids[file], file as u32, row)?;
        }
        Ok(())
    }
}

/// Compares all rows of a file's own index with their checksums.
fn check_rows(fasta: &Fasta) -> Result<()> {
    let starts: Vec<u64> = (0..fasta.len()).step_by(TAKEN as usize).collect();
    let check = |&start: &u64| fasta.index().check_rows(start..fasta.len().min(start + TAKEN));
    threads::in_pool(|| starts.par_iter().try_for_each(check))?
}

/// Adds a record of a file whose rows were compared with their checksums.
fn push(rows: &mut Rows, entries: &Entries<'_>, ids: &Ids<'_>, file: u32, row: u64) -> Result<()> {
    let missing = || Error::RowOutOfRange { row: row as i64, rows: entries.index().len() };
    let (length, byte_offset) = entries.unchecked_start(row).ok_or_else(missing)?;
    let (id, check) = ids.unchecked(row).ok_or_else(missing)?;
    rows.push_checked(id, check, &Sequence { length, file, row, byte_offset });
    Ok(())
}

/// The records of all files, in their order, and what the files look like.
fn collect<'a>(
    given: &[Given],
    path: Option<&Path>,
    force: bool,
    spills: &Spills,
    watch: &'a dyn Watch,
    remarks: &mut Vec<String>,
) -> Result<(Records<'a>, Facts)> {
    let total: u64 = given.iter().map(|file| file.size).sum();
    let few = given.len() <= kept();
    let mut builder = Builder::new(spills, watch, total)?;
    let (mut files, mut open) = (Vec::new(), Vec::new());
    let mut before = 0;
    for (file, number) in given.iter().zip(0..) {
        let share = |done: u64, of: u64| {
            let part = u128::from(file.size) * u128::from(done) / u128::from(of.max(1));
            watch.progress(before + part as u64, total)
        };
        let fasta = open_fasta(&file.path, path, force, &share)?;
        remarks.extend(fasta.remark().map(|remark| format!("{}: {remark}", file.text)));
        if let Origin::Memory { because } = fasta.origin() {
            remarks.push(format!(
                "{}: its own index can't be written ({because}) and is built again in every process",
                file.text
            ));
        }
        files.push(FastaFile { path: file.text.clone(), seen: Seen::Fully(*fasta.index().fingerprint()) });
        if few {
            open.push(fasta);
        } else {
            take_records(&fasta, number, &mut builder)?;
        }
        before += file.size;
    }
    if !watch.progress(total, total) {
        return Err(Error::Interrupted);
    }
    let records = if few { Records::Open(OpenFiles::new(open)) } else { Records::Collected(Box::new(builder)) };
    Ok((records, Facts { files, created: now(), json: None }))
}

fn take_records(fasta: &Fasta, file: u32, builder: &mut Builder<'_>) -> Result<()> {
    let (entries, ids) = (fasta.index().entries(), fasta.index().ids());
    let read = |&start: &u64, rows: &mut Rows| {
        let some = start..fasta.len().min(start + TAKEN);
        fasta.index().check_rows(some.clone()).map_err(|e| e.in_file(fasta.index_path()))?;
        rows.reserve(TAKEN as usize);
        some.into_iter().try_for_each(|row| push(rows, &entries, &ids, file, row))
    };
    let mut turns = Turns::default();
    for from in (0..fasta.len()).step_by(AT_ONCE as usize) {
        let starts: Vec<u64> = (from..fasta.len().min(from + AT_ONCE)).step_by(TAKEN as usize).collect();
        turns.next(&starts, read, &mut |rows| builder.take(rows))?;
    }
    turns.end(|rows| builder.take(rows))
}

/// The time now, as in 2026-01-31T23:59:59Z.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day counted from 1970-01-01.
fn date(mut day: u64) -> (u64, usize, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (364, (1970, 12, 31)),
            (365, (1971, 1, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (20_454, (2026, 1, 1)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(day), expected);
        }
    }
}
