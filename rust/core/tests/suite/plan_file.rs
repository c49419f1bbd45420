//! A damaged plan gives errors or what it gave before it was damaged, and never anything else.

use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use seekset_core::Result;
use seekset_core::index::PlanFile;
use seekset_core::index::plan_file::{PlannedBatch, write_plan};
use seekset_core::io::Store;
use seekset_core::plan::packing::{Layout, Overflow, Rules, pack};

use crate::damage::damage;
use crate::generate::cases;

const LENGTHS: [u64; 10] = [9, 30, 10, 0, 0, 55, 3, 2, 10, 10];

fn plan_of(lengths: &[u64], overflow: Overflow) -> Vec<u8> {
    let rules = Rules { max_tokens: 24, max_length: Some(10), specials: 2, overflow, layout: Layout::Packed };
    let mut bytes = Vec::new();
    write_plan(&pack(lengths, rules).expect("a plan"), "some index", &mut bytes).expect("a file");
    bytes
}

fn sound() -> &'static [u8] {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| plan_of(&LENGTHS, Overflow::Split { overlap: 3 }))
}

fn sound_plan() -> &'static PlanFile {
    static SOUND: OnceLock<PlanFile> = OnceLock::new();
    SOUND.get_or_init(|| open(sound()).expect("a plan"))
}

fn open(bytes: &[u8]) -> Result<PlanFile> {
    PlanFile::open(Store::memory(bytes))
}

/// Touches all that `damaged` holds and compares what it has to say.
fn check(damaged: &[u8], what: &dyn std::fmt::Debug) {
    let Ok(plan) = open(damaged) else { return };
    let sound = sound_plan();
    assert_eq!((plan.facts(), plan.len()), (sound.facts(), sound.len()), "{what:?}");
    for number in 0..plan.len() {
        let right = |batch: &PlannedBatch<'_>| sound.batch(number).is_ok_and(|other| other == *batch);
        assert!(plan.batch(number).is_err() || plan.batch(number).as_ref().is_ok_and(right), "{what:?}: {number}");
    }
    let bytes = |plan: &PlanFile| {
        let place = |(store, place): (&Store, std::ops::Range<usize>)| store.bytes()[place].to_vec();
        Some((plan.tokens_place().ok().map(place)?, plan.ends_place().ok().map(place)?))
    };
    assert!(bytes(&plan).is_none() || bytes(&plan) == bytes(sound), "{what:?}");
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_damaged_plan_never_gives_another_answer(damage in vec(damage(), 1..4)) {
        let mut bytes = sound().to_vec();
        for damage in &damage {
            damage.apply(&mut bytes);
        }
        check(&bytes, &damage);
    }
}

#[test]
fn no_single_byte_of_a_plan_can_be_changed_unnoticed() {
    for at in 0..sound().len() {
        for mask in [1, 0x10, 0xff] {
            let mut bytes = sound().to_vec();
            bytes[at] ^= mask;
            check(&bytes, &(at, mask));
        }
    }
}

#[test]
fn a_plan_cut_anywhere_is_refused() {
    let bytes = sound();
    for len in 0..bytes.len() {
        assert!(open(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn the_index_of_a_file_is_no_plan() {
    let message = open(&crate::samples::index_of(b">a\nACGT\n")).expect_err("an index").to_string();
    assert!(message.contains("this is the index of one FASTA file, which Fasta reads"), "{message}");
}

/// Where the fuzzer of plans starts from.
const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/plan_open");

/// A fuzzer that starts from plans of another version would find nothing but that.
#[test]
fn the_seeds_of_the_fuzzer_are_plans_of_this_version() {
    for seed in std::fs::read_dir(SEEDS).expect("a folder") {
        let path = seed.expect("an entry").path();
        let plan = open(&std::fs::read(&path).expect("a file")).expect("a plan; write the seeds again");
        plan.check_batches().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// `cargo test -p seekset-core --test suite -- --ignored write_the_seeds`, after a change of the format.
#[test]
#[ignore = "it writes files that are committed"]
fn write_the_seeds_of_the_fuzzer() {
    std::fs::create_dir_all(SEEDS).expect("a folder");
    for (name, plan) in [
        ("none", plan_of(&[], Overflow::Error)),
        ("cut", plan_of(&LENGTHS, Overflow::Truncate)),
        ("split", sound().to_vec()),
    ] {
        std::fs::write(std::path::Path::new(SEEDS).join(name), plan).expect("a seed");
    }
}
