//! Whether every window of a window database can be read.

use std::collections::{BTreeMap, HashMap};

use super::ids::sample_of;
use super::rule::WindowRule;
use super::sequences::EdenSequences;
use super::windows::EdenWindows;
use crate::error::{Error, Result};
use crate::watch::{Beat, Watch};

/// How many faults of a kind are told in full.
const TOLD: usize = 5;

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No database holds the sample that a contig's id names.
    NoSample,
    /// The sample's database can't be read.
    Unreadable,
    /// The sample's database has no such contig.
    NoContig,
    /// The last window begins beyond the contig's end.
    BeyondEnd,
    /// The contig's length gives another number of windows.
    Count,
    /// Windows are not numbered one after another.
    Numbers,
    /// The metadata don't count what is there.
    Metadata,
}

impl Fault {
    /// The fault in a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSample => "sample without a database",
            Self::Unreadable => "unreadable",
            Self::NoContig => "missing contig",
            Self::BeyondEnd => "window beyond the end",
            Self::Count => "other number of windows",
            Self::Numbers => "numbering",
            Self::Metadata => "metadata",
        }
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Validation {
    /// Windows seen.
    pub windows: u64,
    /// Contigs seen.
    pub sequences: u64,
    /// Samples that contigs are of.
    pub samples: u64,
    /// Faults by kind: how many, and the first few of them in full.
    pub faults: BTreeMap<Fault, (u64, Vec<String>)>,
}

impl Validation {
    fn fault(&mut self, fault: Fault, message: impl FnOnce() -> String) {
        let (count, told) = self.faults.entry(fault).or_default();
        *count += 1;
        if told.len() < TOLD {
            told.push(message());
        }
    }
}

/// Windows of one contig that stand together.
struct Run {
    contig: String,
    first: i64,
    windows: u64,
    last: i64,
    /// Whether they are numbered from 0 on, so far.
    counted: bool,
}

/// Looks at every window of a database, and whether the contigs are there and long enough. Ids tell the sample, unless
/// there is only one database and it is not the one they tell.
pub fn validate(windows: &EdenWindows, sequences: &EdenSequences, watch: &dyn Watch) -> Result<Validation> {
    let rule = windows.rule()?;
    let total = windows.len()?;
    let mut validator = Validator {
        sequences,
        rule,
        numbers: numbers(sequences),
        seen: vec![false; sequences.samples().len()],
        unreadable: HashMap::new(),
        run: None,
        ascending: true,
        found: Validation::default(),
    };
    let mut beat = Beat::new(watch, total);
    windows.each_window(|window, contig, k| validator.meet(window, contig, k), |met| beat.tell(met.min(total)))?;
    validator.end_run()?;
    if !validator.ascending {
        validator.scattered(windows, &mut beat)?;
    }
    validator.counts(windows)?;
    Ok(validator.found)
}

fn numbers(sequences: &EdenSequences) -> HashMap<&str, u32> {
    sequences.samples().iter().zip(0..).map(|(sample, number)| (sample.as_str(), number)).collect()
}

struct Validator<'a> {
    sequences: &'a EdenSequences,
    rule: WindowRule,
    numbers: HashMap<&'a str, u32>,
    seen: Vec<bool>,
    /// Why nothing can be read from a sample, which is looked at once: a locked one is waited for.
    unreadable: HashMap<u32, String>,
    run: Option<Run>,
    /// Whether ids ascend from contig to contig, so that none comes twice.
    ascending: bool,
    found: Validation,
}

impl Validator<'_> {
    fn database(&self, contig: &str) -> Option<u32> {
        let told = sample_of(contig).and_then(|sample| self.numbers.get(sample.as_str()).copied());
        told.or((self.sequences.samples().len() == 1).then_some(0))
    }

    /// The next window: its number, its contig, and which of the contig's windows it is.
    fn meet(&mut self, window: i64, contig: &str, k: i64) -> Result<()> {
        let expected = self.found.windows;
        if window != expected as i64 {
            self.found.fault(Fault::Numbers, || format!("expected window {expected}, found window {window}"));
        }
        self.found.windows += 1;
        let mut run = match self.run.take() {
            Some(run) if run.contig == contig => run,
            done => {
                self.ascending &= done.as_ref().is_none_or(|done| done.contig.as_str() < contig);
                self.run = done;
                self.end_run()?;
                Run { contig: contig.to_owned(), first: window, windows: 0, last: k, counted: true }
            }
        };
        // Told once for a contig: where one number is wrong, those after it mostly are.
        if run.counted && k != run.windows as i64 {
            run.counted = false;
            let expected = run.windows;
            self.found.fault(Fault::Numbers, || {
                format!("window {window}: contig '{contig}': expected its window number {expected}, found number {k}")
            });
        }
        run.windows += 1;
        run.last = run.last.max(k);
        self.run = Some(run);
        Ok(())
    }

    fn end_run(&mut self) -> Result<()> {
        self.run.take().map_or(Ok(()), |done| self.check(&done))
    }

    /// Contigs whose windows are not all together: each of their runs may be numbered well by itself.
    fn scattered(&mut self, windows: &EdenWindows, beat: &mut Beat<'_>) -> Result<()> {
        windows.each_contig(beat, |contig, first, last, count| {
            if last.checked_sub(first).is_none_or(|between| between >= count) {
                self.found.fault(Fault::Numbers, || {
                    format!("contig '{contig}': expected its {count} windows one after another, found them from window {first} to window {last}")
                });
            }
            Ok(())
        })
    }

    fn check(&mut self, run: &Run) -> Result<()> {
        self.found.sequences += 1;
        let (contig, window) = (&run.contig, run.first);
        let Some(database) = self.database(contig) else {
            let sample = sample_of(contig).map_or("names no sample".to_owned(), |sample| {
                format!("names sample '{sample}', which has no database")
            });
            self.found.fault(Fault::NoSample, || format!("window {window}: contig '{contig}' {sample}"));
            return Ok(());
        };
        if !std::mem::replace(&mut self.seen[database as usize], true) {
            self.found.samples += 1;
        }
        let path = self.sequences.paths()[database as usize].display();
        match self.length(database, contig)? {
            Err(why) => self.found.fault(Fault::Unreadable, || format!("window {window}: contig '{contig}': {why}")),
            Ok(None) => {
                self.found.fault(Fault::NoContig, || format!("window {window}: contig '{contig}' is not in {path}"));
            }
            Ok(Some(length)) => self.fits(run, length),
        }
        Ok(())
    }

    /// The length of a contig, if there is one; or why it can't be read.
    fn length(&mut self, database: u32, contig: &str) -> Result<Result<Option<u64>, String>> {
        if let Some(why) = self.unreadable.get(&database) {
            return Ok(Err(why.clone()));
        }
        match self.sequences.length(database, contig) {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                let why = error.to_string();
                // What is wrong with one contig is told as damage to the format; everything else is about the file.
                if !matches!(error, Error::Format { .. }) || self.sequences.open(database).is_err() {
                    self.unreadable.insert(database, why.clone());
                }
                Ok(Err(why))
            }
            Ok(length) => Ok(Ok(length)),
        }
    }

    fn fits(&mut self, run: &Run, length: u64) {
        let (contig, window) = (&run.contig, run.first);
        let start = u64::try_from(run.last).unwrap_or(0).saturating_mul(self.rule.stride());
        if start >= length && (start, length) != (0, 0) {
            self.found.fault(Fault::BeyondEnd, || {
                format!("window {window}: contig '{contig}' has {length} letters, but its last window starts at letter {start}")
            });
            return;
        }
        let expected = self.rule.windows(length);
        if expected != run.windows {
            let windows = run.windows;
            self.found.fault(Fault::Count, || {
                format!("window {window}: contig '{contig}' has {length} letters, which give {expected} windows, but there are {windows}")
            });
        }
    }

    fn counts(&mut self, windows: &EdenWindows) -> Result<()> {
        let metadata = windows.metadata()?;
        for (key, count) in [("total_windows", self.found.windows), ("distinct_sequences", self.found.sequences)] {
            match metadata.get(key) {
                Some(&told) if told != count as i64 => {
                    self.found.fault(Fault::Metadata, || format!("{key} is {told}, but there are {count}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
