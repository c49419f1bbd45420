//! The handle: where its index comes from, and what it says when files are not what they were.

use std::path::Path;

use seekset_core::Error;
use seekset_core::fasta::{Fasta, OpenOptions, Origin, count};
use seekset_core::io::Access;
use seekset_core::plan::Request;

use crate::samples::Sample;

const TWO: &[u8] = b">a\nACGT\nAC\n>b\nGG\n";

fn open(sample: &Sample, options: &OpenOptions) -> seekset_core::Result<Fasta> {
    Fasta::open(&sample.path(), options)
}

fn beside(sample: &Sample) -> std::path::PathBuf {
    sample.path().with_extension("fa.sidx")
}

/// Names of all files in the sample's folder.
fn names(sample: &Sample) -> Vec<String> {
    let folder = std::fs::read_dir(sample.path().parent().expect("a folder")).expect("a folder");
    let mut names: Vec<String> =
        folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_index_is_built_once_and_found_from_then_on() {
    let sample = Sample::new(TWO);
    let options = OpenOptions::default();
    assert_eq!(*open(&sample, &options).expect("a file").origin(), Origin::Built { because: None });
    assert_eq!(*open(&sample, &options).expect("a file").origin(), Origin::Found);
    assert_eq!(names(&sample), ["sample.fa", "sample.fa.sidx"]);
    let forced = open(&sample, &OpenOptions { force: true, ..options }).expect("a file");
    assert_eq!(*forced.origin(), Origin::Built { because: None });
}

#[test]
fn an_index_that_does_not_fit_is_built_again_and_says_why() {
    let sample = Sample::new(TWO);
    let options = OpenOptions::default();
    drop(open(&sample, &options).expect("a file"));
    for (name, bytes) in [("data", &b">c\nTTT\n"[..]), ("index", b"ARROW1 nonsense ARROW1"), ("index", b"")] {
        let path = if name == "data" { sample.path() } else { beside(&sample) };
        std::fs::write(path, bytes).expect("a file");
        let without = OpenOptions { build: false, ..options.clone() };
        assert!(matches!(open(&sample, &without), Err(Error::Stale { .. })), "{name}");
        let fasta = open(&sample, &options).expect("a file");
        assert!(matches!(fasta.origin(), Origin::Built { because: Some(_) }), "{name}: {:?}", fasta.origin());
        assert_eq!(fasta.sequence(0).expect("letters"), b"TTT");
    }
}

#[test]
fn without_leave_to_build_a_missing_index_is_an_error() {
    let sample = Sample::new(TWO);
    let error = open(&sample, &OpenOptions { build: false, ..OpenOptions::default() }).err().expect("an error");
    assert!(matches!(error, Error::Stale { .. }) && error.to_string().contains("there is none"), "{error}");
    assert_eq!(names(&sample), ["sample.fa"]);
}

#[test]
fn an_index_that_cannot_be_written_is_kept_in_memory_if_that_is_allowed() {
    let sample = Sample::new(TWO);
    let nowhere = Some(Path::new("/nonexistent/folder/x.sidx").to_owned());
    let options = OpenOptions { index: nowhere, ..OpenOptions::default() };
    let fasta = open(&sample, &options).expect("a file");
    assert!(matches!(fasta.origin(), Origin::Memory { .. }));
    assert_eq!(fasta.index().find("b").expect("a lookup"), Some(1));
    assert_eq!(fasta.window(0, 3, 5).expect("letters"), b"TA");
    assert!(matches!(open(&sample, &OpenOptions { allow_memory: false, ..options }), Err(Error::Io { .. })));
}

#[test]
fn a_file_that_changes_under_an_open_handle_is_an_error() {
    for access in [Access::Mmap, Access::Pread] {
        let sample = Sample::new(&TWO.repeat(3));
        let fasta = sample.open(access);
        fasta.windows(&[Request::whole(0)]).expect("letters");
        std::fs::write(sample.path(), TWO).expect("a file");
        assert!(matches!(fasta.windows(&[Request::whole(0)]), Err(Error::Stale { .. })), "{access:?}: cut short");
        let fasta = sample.open(access);
        std::fs::remove_file(sample.path()).expect("a file");
        assert!(matches!(fasta.windows(&[Request::whole(0)]), Err(Error::Stale { .. })), "{access:?}: deleted");
    }
}

#[test]
fn work_that_is_stopped_leaves_nothing_behind() {
    let sample = Sample::new(TWO);
    let stopped = Fasta::open_watched(&sample.path(), &OpenOptions::default(), &|_, _| false);
    assert!(matches!(stopped, Err(Error::Interrupted)));
    assert_eq!(names(&sample), ["sample.fa"]);
}

#[test]
fn a_file_that_is_no_fasta_is_named_with_its_first_offence_and_leaves_nothing_behind() {
    let sample = Sample::new(b">a\nAC\n\0\n");
    let message = open(&sample, &OpenOptions::default()).err().expect("an error").to_string();
    let place = format!("{}: line 3, byte 6: ", sample.path().display());
    assert!(message.starts_with(&place), "{message}");
    assert_eq!(names(&sample), ["sample.fa"]);
}

#[test]
fn repeated_ids_are_refused_with_both_places() {
    let sample = Sample::new(b">a\nAC\n>b\n>a again\nGG\n>b\n");
    let fasta = sample.open(Access::Mmap);
    let message = fasta.refuse_duplicates().expect_err("a repeated id").to_string();
    for part in ["'a'", "record 0, line 1, byte 0", "record 2, line 4, byte 9"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(fasta.index().repeated_ids(), 2);
    Sample::new(TWO).open(Access::Mmap).refuse_duplicates().expect("ids that differ");
}

#[test]
fn a_count_is_the_same_as_the_index_says() {
    let sample = Sample::new(TWO);
    for threads in [1, 2] {
        assert_eq!(count(&sample.path(), threads).expect("a FASTA file"), (2, 8));
    }
}

#[test]
fn what_is_no_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in [folder.path().to_owned(), folder.path().join("missing.fa")] {
        let error = Fasta::open(&path, &OpenOptions::default()).err().expect("an error");
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
}
