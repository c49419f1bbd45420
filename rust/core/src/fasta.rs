//! A FASTA file and its index behind one handle; without an index, [`FastaStream`].

mod names;
mod stream;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::stream::{FastaStream, StreamRecord};
use crate::error::{Error, Result};
use crate::gather::{self, Kernel, Raw};
use crate::index::fai::{FaiWriter, push_line};
use crate::index::sidx::{self, Builder, Sidx};
pub use crate::io::Origin;
use crate::io::mapped::Mapped;
use crate::io::open::{Opened, Table, beside, open_watched};
use crate::io::seldom::Seldom;
use crate::io::whole::{WholeFile, refuse_to_replace};
use crate::io::{Access, Scratch, Source, Spills, Store, open_source, threads};
use crate::plan::{Address, Batch, Request};
use crate::replacing::{refuse_foreign_table, refuse_other_index};
use crate::scan::fasta::{self, Header};
use crate::scan::samtools;
use crate::watch::{Unwatched, Watch};

/// How to open a FASTA file.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Where the index is; beside the file, with `.sidx` added, unless given.
    pub index: Option<PathBuf>,
    /// Whether to build an index that is missing, stale or damaged. Without it those are errors and nothing is written.
    pub build: bool,
    /// Whether to build the index even if there is a good one.
    pub force: bool,
    /// Whether an index that can't be written is kept in memory instead of being an error.
    pub allow_memory: bool,
    /// How bytes are read.
    pub access: Access,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { index: None, build: true, force: false, allow_memory: true, access: Access::Mmap }
    }
}

/// An open FASTA file. Reads take `&self`, from any number of threads.
pub struct Fasta {
    path: PathBuf,
    index_path: PathBuf,
    source: Arc<dyn Source>,
    index: Sidx,
    origin: Origin,
    remark: Option<String>,
    /// For single reads.
    seldom: Seldom,
}

impl Fasta {
    /// Opens a file; its index is used if it fits, and built if not.
    ///
    /// ```
    /// use seekset_core::fasta::{Fasta, OpenOptions, Origin};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("two.fa");
    /// # std::fs::write(&path, b">first a protein\nMKV\nLA\n>second\nMK\n")?;
    /// let fasta = Fasta::open(&path, &OpenOptions::default())?;
    /// assert_eq!(*fasta.origin(), Origin::Built { because: None });
    /// assert_eq!(fasta.header(0)?, "first a protein");
    /// assert_eq!(fasta.window(0, 2, 4)?, b"VL");
    /// // The index now lies beside the file and is used from here on.
    /// let again = Fasta::open(&path, &OpenOptions::default())?;
    /// assert_eq!(*again.origin(), Origin::Found);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        Self::open_watched(path, options, &Unwatched)
    }

    /// [`Fasta::open`], watched while an index is built.
    pub fn open_watched(path: &Path, options: &OpenOptions, watch: &dyn Watch) -> Result<Self> {
        let table = if options.build { Table::Sampled } else { Table::Kept };
        Self::open_with_table(path, options, table, watch)
    }

    /// The same, with a say in what becomes of a `.gzi`.
    pub(crate) fn open_with_table(path: &Path, options: &OpenOptions, table: Table, watch: &dyn Watch) -> Result<Self> {
        let mut opened = open_watched(path, options.access, table, watch)?;
        let index_path = options.index.clone().unwrap_or_else(|| beside(path, ".sidx"));
        let found = if options.force { Err(None) } else { find_index(&index_path, &opened) };
        let (index, origin) = match found {
            Ok(index) => (index, Origin::Found),
            Err(because) if options.build => {
                opened = open_watched(path, options.access, Table::Compared, watch)?;
                build_index(path, &index_path, &opened, options, because, watch)?
            }
            Err(because) => {
                let because = because.unwrap_or_else(|| "there is none".to_owned());
                let message = format!("its index {} can't be used: {because}", index_path.display());
                return Err(Error::stale(message).in_file(path));
            }
        };
        let Opened { source, remark, .. } = opened;
        Ok(Self { path: path.to_owned(), index_path, source, index, origin, remark, seldom: Seldom::new() })
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's index. What it holds of records is mapped: whoever reads that later than at open asks by way of
    /// [`Fasta::read_index`], or looks first.
    #[must_use]
    pub fn index(&self) -> &Sidx {
        &self.index
    }

    /// What `read` finds in the index, which must still be what it was at open: at most one look a millisecond.
    ///
    /// ```
    /// # use seekset_core::fasta::{Fasta, OpenOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("two.fa");
    /// # std::fs::write(&path, b">a\nACGT\nAC\n>b\nGGT\n")?;
    /// let fasta = Fasta::open(&path, &OpenOptions::default())?;
    /// assert_eq!(fasta.read_index(|index| index.find("b"))?, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_index<'a, T>(&'a self, read: impl FnOnce(&'a Sidx) -> Result<T>) -> Result<T> {
        let unchanged = self.check_now_and_then();
        unchanged.and_then(|()| read(&self.index)).map_err(|e| e.in_file(&self.index_path))
    }

    /// Where the index is, or would be if it could be written.
    #[must_use]
    pub fn index_path(&self) -> &Path {
        &self.index_path
    }

    /// Where the index came from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What is odd about the file and no reason not to read it.
    #[must_use]
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// An error with both places if an id names two records.
    pub fn refuse_duplicates(&self) -> Result<()> {
        self.check_unchanged()?;
        self.index.duplicate().map_or(Ok(()), |error| Err(fasta::with_lines(error, &*self.source).in_file(&self.path)))
    }

    /// The header line of record `row`, without `>` and line end.
    pub fn header(&self, row: u64) -> Result<String> {
        self.check_now_and_then()?;
        let entry = self.index.entry(row).map_err(|e| self.named(e))?;
        let mut scratch = Scratch::default();
        let line = self.source.bytes(entry.header_offset..entry.sequence_offset, &mut scratch);
        let header = line.and_then(|line| Header::parse(line, entry.header_offset).map(|h| h.text.to_owned()));
        header.map_err(|e| e.in_file(&self.path))
    }

    /// All letters of record `row`.
    pub fn sequence(&self, row: u64) -> Result<Vec<u8>> {
        self.window(row, 0, u64::MAX)
    }

    /// Letters `start..end` of record `row`; fewer where the record ends before.
    pub fn window(&self, row: u64, start: u64, end: u64) -> Result<Vec<u8>> {
        self.check_now_and_then()?;
        self.one(row, start, end).map_err(|e| self.named(e))
    }

    fn one(&self, row: u64, start: u64, end: u64) -> Result<Vec<u8>> {
        let entry = self.index.entry(row)?;
        let (start, end) = (start.min(entry.length), end.min(entry.length));
        let letters = end.saturating_sub(start);
        if letters > Address::MOST.into() {
            let request = Request { row, start, letters, reverse: false };
            return self.all(&[request]).map(|(bytes, _)| bytes);
        }
        let address = Address::window(&self.index, row, &entry, start, letters)?;
        let mut bytes = Vec::with_capacity(letters as usize);
        gather::letters::each_run(&*self.source, &address, &mut Scratch::default(), |run| {
            bytes.extend_from_slice(run);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// The letters of many windows, one after another, and where each starts.
    ///
    /// ```
    /// use seekset_core::plan::Request;
    /// # use seekset_core::fasta::{Fasta, OpenOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("two.fa");
    /// # std::fs::write(&path, b">a\nACGT\nAC\n>b\nGGT\n")?;
    /// # let fasta = Fasta::open(&path, &OpenOptions::default())?;
    /// let window = Request { row: 0, start: 3, letters: 10, reverse: false };
    /// let (letters, offsets) = fasta.windows(&[Request::whole(1), window, Request { reverse: true, ..window }])?;
    /// // Records end where they end; the last window is the reverse complement of the one before it.
    /// assert_eq!(letters, b"GGTTACGTA");
    /// assert_eq!(offsets, [0, 3, 6, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn windows(&self, requests: &[Request]) -> Result<(Vec<u8>, Vec<i64>)> {
        self.all(requests).map_err(|e| self.named(e))
    }

    fn all(&self, requests: &[Request]) -> Result<(Vec<u8>, Vec<i64>)> {
        self.check_unchanged()?;
        let batch = Batch::plan(&self.index, requests)?;
        gather::gathered(batch.letters(), |slots| gather::gather(&*self.source, &batch, &Raw, slots))
    }

    /// Resolves requests to addresses.
    pub fn plan<'a>(&self, requests: &'a [Request]) -> Result<Batch<'a>> {
        self.check_unchanged()?;
        Batch::plan(&self.index, requests).map_err(|e| self.named(e))
    }

    /// Fills `slots`, which `layout` cuts out of an output, with what `kernel` makes of the batch's letters.
    ///
    /// ```
    /// use seekset_core::gather::layout::{Ends, Rectangle, padded};
    /// use seekset_core::gather::{TokenTable, Translate};
    /// use seekset_core::plan::Request;
    /// # use seekset_core::fasta::{Fasta, OpenOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("two.fa");
    /// # std::fs::write(&path, b">a\nLAG\n>b\nLA\n")?;
    /// # let fasta = Fasta::open(&path, &OpenOptions::default())?;
    /// let esm = TokenTable::named("esm")?;
    /// let requests = [Request::whole(0), Request::whole(1)];
    /// let batch = fasta.plan(&requests)?;
    /// let mut tokens = [0_i32; 2 * 5];
    /// let shape = Rectangle { columns: 5, width: 1, pad: 1 };
    /// let slots = padded(&mut tokens, batch.letters(), shape, Ends { prefix: esm.prefix(), suffix: esm.suffix() })?;
    /// fasta.gather(&batch, &Translate::<i32>::new(&esm)?, slots)?;
    /// assert_eq!(tokens, [0, 4, 5, 6, 2, 0, 4, 5, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gather<K: Kernel>(&self, batch: &Batch<'_>, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
        gather::gather(&*self.source, batch, kernel, slots).map_err(|e| self.named(e))
    }

    /// An error if the file or its index is not what it was at open.
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()?;
        self.index.check_unchanged()
    }

    /// The same for single reads: at most one look a millisecond.
    pub fn check_now_and_then(&self) -> Result<()> {
        self.seldom.look(|| self.check_unchanged())
    }

    /// Errors from below, with the file's name and the record's id.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::UnknownLetter { table, row, id: None, position, letter, .. } => {
                let (path, id) = (Some(self.path.clone()), self.index.id(row).ok().map(str::to_owned));
                Error::UnknownLetter { path, table, row, id, position, letter }
            }
            Error::Format { path: None, .. } => error.in_file(&self.index_path),
            other => other.in_file(&self.path),
        }
    }
}

/// The index at `path` if it fits the file, or why it does not; nothing if there is none.
fn find_index(path: &Path, opened: &Opened) -> Result<Sidx, Option<String>> {
    let mapped = match Mapped::open(path) {
        Ok(mapped) => mapped,
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Err(None),
        Err(error) => return Err(Some(error.to_string())),
    };
    let index = Sidx::open(Store::File(mapped)).map_err(|e| Some(e.in_file(path).to_string()))?;
    match index.fingerprint().difference(&opened.fingerprint) {
        None if index.data_size() == opened.source.len() => Ok(index),
        None => {
            Err(Some(format!("it was made for {} bytes, and there are {}", index.data_size(), opened.source.len())))
        }
        Some(what) => Err(Some(format!("the file has changed since it was indexed: {what}"))),
    }
}

fn build_index(
    path: &Path,
    index_path: &Path,
    opened: &Opened,
    options: &OpenOptions,
    because: Option<String>,
    watch: &dyn Watch,
) -> Result<(Sidx, Origin)> {
    refuse_other_index(index_path, sidx::KIND)?;
    match options.index {
        Some(_) => refuse_foreign_table(index_path, Some(path), "seekset index")?,
        None => refuse_to_replace(index_path, Some(path), "seekset index", |_| true)?,
    }
    let whole = match WholeFile::create(index_path) {
        Ok(file) => Ok(file),
        Err(error) if options.allow_memory => Err(error.to_string()),
        Err(error) => return Err(error),
    };
    let spills = if whole.is_ok() { Spills::beside(index_path) } else { Spills::elsewhere() };
    let source = &*opened.source;
    let mut builder = Builder::new(source, &spills, watch)?;
    fasta::scan(source, threads::threads(), watch, &mut builder).map_err(|e| e.in_file(path))?;
    source.check_unchanged().map_err(|e| e.in_file(path))?;
    match whole {
        Ok(mut file) => {
            builder.finish(&opened.fingerprint, &mut file).map_err(|e| e.in_file(index_path))?;
            // Somebody else's index may be there that can't be replaced, as in a folder with the sticky bit.
            match file.publish_or_map()? {
                Some((mapped, error)) if options.allow_memory => {
                    let because = error.to_string();
                    return Ok((Sidx::open(Store::File(mapped))?, Origin::Memory { because }));
                }
                Some((_, error)) => return Err(error),
                None => {}
            }
            // Compared again: somebody else may have put another index there since.
            let index = find_index(index_path, opened).map_err(|why| {
                let why = why.unwrap_or_else(|| "it is gone".to_owned());
                Error::stale(format!("the index just written to {} can't be used: {why}", index_path.display()))
            })?;
            Ok((index, Origin::Built { because }))
        }
        Err(because) => {
            let mut bytes = Vec::new();
            builder.finish(&opened.fingerprint, &mut bytes)?;
            Ok((Sidx::open(Store::memory(&bytes))?, Origin::Memory { because }))
        }
    }
}

/// What became of a `.fai`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaiReport {
    /// Where it was written.
    pub path: PathBuf,
    /// How many records it leaves out.
    pub left_out: u64,
    /// What is odd about the FASTA file and no reason not to read it.
    pub remark: Option<String>,
}

/// Writes the `.fai` of a FASTA file and, for BGZF, its `.gzi`.
///
/// What samtools would silently lose is refused, unless `like_samtools` asks for exactly that.
///
/// ```
/// use seekset_core::fasta::faidx;
/// use seekset_core::watch::Unwatched;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("two.fa");
/// std::fs::write(&path, b">a\nACGT\nAC\n>b\nGG\n")?;
/// let fai = faidx(&path, None, false, &Unwatched)?;
/// assert_eq!(std::fs::read_to_string(fai.path)?, "a\t6\t3\t4\t5\nb\t2\t14\t2\t3\n");
/// assert_eq!(fai.left_out, 0);
///
/// std::fs::write(&path, b">a\nAC\nACGT\n")?;
/// assert!(faidx(&path, None, false, &Unwatched).is_err()); // lines differ in length
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn faidx(path: &Path, out: Option<&Path>, like_samtools: bool, watch: &dyn Watch) -> Result<FaiReport> {
    let opened = open_watched(path, Access::Mmap, Table::Compared, watch)?;
    let given = out.is_some();
    let out = out.map_or_else(|| beside(path, ".fai"), Path::to_owned);
    refuse_to_replace(&out, Some(path), ".fai", |start| {
        let line = start.split(|&b| b == b'\n').next().unwrap_or_default();
        !given || start.is_empty() || memchr::memchr_iter(b'\t', line).count() == 4
    })?;
    let write = if like_samtools { write_fai_like_samtools } else { write_fai };
    let left_out =
        write(&*opened.source, &out, watch).map_err(|e| fasta::with_lines(e, &*opened.source).in_file(path))?;
    Ok(FaiReport { path: out, left_out, remark: opened.remark })
}

fn write_fai(source: &dyn Source, out: &Path, watch: &dyn Watch) -> Result<u64> {
    let (mut file, spills) = (WholeFile::create(out)?, Spills::beside(out));
    let write = |text: &[u8]| file.write_all(text).map_err(|e| Error::io(out, e));
    let mut writer = FaiWriter::new(source, &spills, write);
    fasta::scan(source, threads::threads(), watch, &mut writer)?;
    source.check_unchanged()?;
    if writer.finish(watch)? {
        // Nearly nobody needs to know which, so that nobody else pays for it.
        names::refuse_repeated(source, &spills, watch)?;
    }
    file.publish()?;
    Ok(0)
}

fn write_fai_like_samtools(source: &dyn Source, out: &Path, watch: &dyn Watch) -> Result<u64> {
    let mut file = WholeFile::create(out)?;
    let mut line = Vec::new();
    let left_out = samtools::scan(source, watch, |name, numbers| {
        line.clear();
        push_line(&mut line, name, numbers);
        Ok(file.write_all(&line)?)
    })?;
    source.check_unchanged()?;
    file.publish()?;
    Ok(left_out)
}

/// Counts records and letters without keeping an index: the bare scan, for measuring.
pub fn count(path: &Path, threads: usize) -> Result<(u64, u64)> {
    #[derive(Default)]
    struct Count(u64, u64);
    impl fasta::Rows for Count {
        fn push(&mut self, record: &fasta::Record, _id: &[u8]) {
            self.0 += 1;
            self.1 += record.lines.bases;
        }
    }
    impl fasta::Sink for Count {
        type Rows = Count;
        fn take(&mut self, rows: Count) -> Result<()> {
            self.0 += rows.0;
            self.1 += rows.1;
            Ok(())
        }
    }
    let opened = open_source(path, Access::Mmap)?;
    let mut total = Count::default();
    fasta::scan(&*opened.source, threads, &Unwatched, &mut total).map_err(|e| e.in_file(path))?;
    Ok((total.0, total.1))
}
