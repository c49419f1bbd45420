//! Any bytes are a plan or are refused; a plan that opens gives batches that fit its rules and lengths, or errors.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seekset_core::index::PlanFile;
use seekset_core::io::Store;

/// The lengths that the seeds are plans of.
const LENGTHS: [u64; 10] = [9, 30, 10, 0, 0, 55, 3, 2, 10, 10];

fuzz_target!(|bytes: &[u8]| {
    let Ok(plan) = PlanFile::open(Store::memory(bytes)) else { return };
    let rules = plan.facts().rules;
    for number in (0..plan.len()).chain([u64::MAX]) {
        let Ok(batch) = plan.batch(number) else { continue };
        assert_eq!((batch.starts.len(), batch.lengths.len()), (batch.rows.len(), batch.rows.len()));
        if batch.compare(&LENGTHS, &rules).is_ok() {
            assert!(batch.pieces().all(|piece| piece.start + piece.letters <= LENGTHS[piece.row as usize]));
        }
    }
    let _ = (plan.check_batches(), plan.tokens_place(), plan.ends_place(), plan.efficiency());
});
