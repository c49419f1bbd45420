//! Packing against a slow packer that is right by inspection, and what must hold of every plan.

use proptest::collection::vec;
use proptest::prelude::*;
use seekset_core::plan::packing::{Layout, Overflow, Packing, Piece, Rules, pack, repack};

use crate::generate::cases;

/// Rooms left by best fit decreasing, each time looking at all batches.
fn slow_best_fit(mut costs: Vec<u64>, budget: u64) -> Vec<u64> {
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let mut rooms: Vec<u64> = Vec::new();
    for cost in costs {
        match rooms.iter_mut().filter(|room| **room >= cost).min() {
            Some(room) => *room -= cost,
            None => rooms.push(budget - cost),
        }
    }
    rooms
}

fn overflow(most: u64) -> impl Strategy<Value = Overflow> {
    prop_oneof![Just(Overflow::Truncate), (0..most).prop_map(|overlap| Overflow::Split { overlap })]
}

/// Rules that allow every sequence.
fn rules() -> impl Strategy<Value = Rules> {
    let layout = prop_oneof![3 => Just(Layout::Packed), 1 => Just(Layout::Padded)];
    (1..40_u64, 0..4_u64, 0..200_u64, layout)
        .prop_flat_map(|(most, specials, more, layout)| (Just((most, specials, more, layout)), overflow(most)))
        .prop_map(|((most, specials, more, layout), overflow)| Rules {
            // Beyond 2^16, rooms are kept otherwise.
            max_tokens: if more == 199 { 1 << 40 } else { most + specials + more },
            max_length: Some(most),
            specials,
            overflow,
            layout,
        })
}

fn pieces(packing: &Packing) -> Vec<Piece> {
    (0..packing.len()).flat_map(|batch| packing.batch(batch)).collect()
}

/// The pieces that sequences must become, in the order of rows.
fn expected(lengths: &[u64], rules: &Rules) -> Vec<Piece> {
    let parts = |(row, &length): (u32, &u64)| (0..rules.parts(length)).map(move |part| rules.piece(row, length, part));
    (0..).zip(lengths).flat_map(parts).collect()
}

fn in_order(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| (piece.row, piece.start));
    pieces
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn every_piece_is_in_one_batch_and_no_batch_is_over_its_budget(lengths in vec(0..120_u64, 0..80), rules in rules()) {
        let packing = pack(&lengths, rules).expect("a plan");
        prop_assert_eq!(in_order(pieces(&packing)), expected(&lengths, &rules));
        for (number, &tokens) in packing.tokens().iter().enumerate() {
            let costs: Vec<u64> = packing.batch(number).map(|piece| rules.cost(piece.letters)).collect();
            prop_assert_eq!(costs.iter().sum::<u64>(), tokens);
            let size = match rules.layout { Layout::Packed => tokens, Layout::Padded => costs[0] * costs.len() as u64 };
            prop_assert!(size <= rules.max_tokens);
            let keys: Vec<_> = packing.batch(number).map(|p| (u64::MAX - p.letters, p.row, p.start)).collect();
            prop_assert!(keys.is_sorted());
        }
        prop_assert!(packing.tokens().is_sorted_by(|a, b| a >= b));
        prop_assert!((0.0..=1.0).contains(&packing.efficiency()));
        let cut = lengths.iter().filter(|&&length| rules.is_too_long(length)).count() as u64;
        prop_assert_eq!(packing.truncated, if rules.overflow == Overflow::Truncate { cut } else { 0 });
        prop_assert_eq!(&pack(&lengths, rules).expect("a plan"), &packing);
    }

    #[test]
    fn batches_are_as_full_as_those_of_the_slow_packer(lengths in vec(0..120_u64, 0..200), rules in rules()) {
        let rules = Rules { layout: Layout::Packed, ..rules };
        let packing = pack(&lengths, rules).expect("a plan");
        let costs = expected(&lengths, &rules).iter().map(|piece| rules.cost(piece.letters)).collect();
        let mut rooms = slow_best_fit(costs, rules.max_tokens);
        rooms.sort_unstable();
        let found: Vec<u64> = packing.tokens().iter().map(|tokens| rules.max_tokens - tokens).collect();
        prop_assert_eq!(found, rooms);
    }

    #[test]
    fn a_repacked_plan_is_a_plan_of_the_same_sequences(
        lengths in vec(0..60_u64, 0..80), rules in rules(), seed: u64, epoch: u64,
    ) {
        let mut lengths = lengths;
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let mut repacked = pieces(&pack(&lengths, rules).expect("a plan"));
        for piece in &mut repacked {
            piece.row = repack(piece.row, &lengths, &rules, seed, epoch).expect("a row");
            prop_assert!(rules.makes(*piece, lengths[piece.row as usize]));
        }
        prop_assert_eq!(in_order(repacked), expected(&lengths, &rules));
    }

    #[test]
    fn hostile_lengths_are_packed_or_refused(
        lengths in vec(prop_oneof![any::<u64>(), 0..100_u64, Just(u64::MAX)], 0..10),
        max_tokens: u64, max_length in proptest::option::of(prop_oneof![any::<u64>(), 1 << 30..u64::MAX]),
        specials: u64, overlap: u64, kind in 0..3_u8,
    ) {
        // Splitting into few enough pieces to be allowed, yet too many for a test, is not what this is about.
        let split = max_length.is_some_and(|most| most > 1 << 58 && overlap < most / 2);
        let overflow = match kind {
            0 => Overflow::Truncate,
            1 if split => Overflow::Split { overlap },
            _ => Overflow::Error,
        };
        let rules = Rules { max_tokens, max_length, specials, overflow, layout: Layout::Packed };
        if let Ok(packing) = pack(&lengths, rules) {
            prop_assert_eq!(in_order(pieces(&packing)), expected(&lengths, &rules));
        }
    }
}

/// Lengths as proteins have them: most in the hundreds, few in the thousands.
fn proteins(count: u64) -> Vec<u64> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state >> 44 // 20 bits
    };
    // A sum of four is bell-shaped; its power of two is skewed as lengths are.
    let mut length = || {
        let bell = (0..4).map(|_| next()).sum::<u64>(); // 22 bits, the middle at 2^21
        (1 << (bell >> 18)) * (64 + (bell >> 12) % 64) / 512 + 20
    };
    (0..count).map(|_| length()).collect()
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn plans_of_proteins_are_full_and_balanced_over_ranks() {
    let lengths = proteins(200_000);
    for max_tokens in [4096, 16384] {
        let rules = Rules {
            max_tokens,
            max_length: Some(1022),
            specials: 2,
            overflow: Overflow::Truncate,
            layout: Layout::Packed,
        };
        let packing = pack(&lengths, rules).expect("a plan");
        assert!(packing.efficiency() > 0.99, "{}", packing.efficiency());
        for ranks in (1..40).filter(|ranks| packing.len() >= 100 * ranks) {
            let share = |rank| packing.tokens().iter().skip(rank).step_by(ranks).sum::<u64>();
            let mean = packing.total_tokens as f64 / ranks as f64;
            let worst = (0..ranks).map(|rank| (share(rank) as f64 / mean - 1.0).abs()).fold(0.0, f64::max);
            assert!(worst <= 0.01, "{ranks} ranks: {worst}");
        }
    }
}
