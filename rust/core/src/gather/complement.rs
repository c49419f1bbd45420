//! The complement of a nucleotide, by the IUPAC codes, in both cases.

/// For every byte its complement; what is no IUPAC code is its own.
pub const COMPLEMENT: [u8; 256] = complement();

const fn complement() -> [u8; 256] {
    let pairs = b"ATCGGCTAUARYYRSSWWKMMKBVVBDHHDNN";
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte as u8;
        byte += 1;
    }
    let mut k = 0;
    while k < pairs.len() {
        table[pairs[k] as usize] = pairs[k + 1];
        table[pairs[k].to_ascii_lowercase() as usize] = pairs[k + 1].to_ascii_lowercase();
        k += 2;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complements_are_those_of_iupac() {
        let of = |text: &str| -> String { text.bytes().map(|b| char::from(COMPLEMENT[usize::from(b)])).collect() };
        assert_eq!(of("ACGTUNRYSWKMBDHV"), "TGCAANYRSWMKVHDB");
        assert_eq!(of("acgtunryswkmbdhv"), "tgcaanyrswmkvhdb");
        assert_eq!(of("-*.XxE"), "-*.XxE");
    }
}
