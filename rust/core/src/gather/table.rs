//! Token tables: an id for every letter, and the ids that stand for no letter.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// From letters to token ids.
///
/// ```
/// use seekset_core::gather::TokenTable;
/// let esm = TokenTable::named("esm")?;
/// assert_eq!(esm.id(b'L'), Some(4));
/// assert_eq!(esm.id(b'?'), esm.special("unk"));
/// assert_eq!((esm.prefix(), esm.suffix()), (&[0][..], &[2][..]));
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTable {
    name: String,
    ids: [Option<i32>; 256],
    unk: Option<i32>,
    pad: Option<i32>,
    prefix: Vec<i32>,
    suffix: Vec<i32>,
    specials: BTreeMap<String, i32>,
}

/// The names that [`TokenTable::named`] knows.
pub const NAMES: [&str; 4] = ["bytes", "dna", "esm", "nucleotide"];

impl TokenTable {
    /// A table with an id for each of `letters`.
    ///
    /// ```
    /// use seekset_core::gather::TokenTable;
    /// let table = TokenTable::new("four", b"ACGT".iter().copied().zip(10..))?
    ///     .with_case_folded()
    ///     .with_specials([("unk".to_owned(), 0), ("pad".to_owned(), 1)]);
    /// assert_eq!(b"Gg?".map(|letter| table.id(letter)), [Some(12), Some(12), Some(0)]);
    /// assert_eq!((table.pad(), table.largest()), (Some(1), 13));
    /// # Ok::<(), seekset_core::Error>(())
    /// ```
    pub fn new(name: &str, letters: impl IntoIterator<Item = (u8, i32)>) -> Result<Self> {
        let mut ids = [None; 256];
        for (letter, id) in letters {
            if id < 0 {
                return Err(Error::Mismatch(format!(
                    "token ids are not negative, but '{}' has {id}",
                    char::from(letter)
                )));
            }
            ids[usize::from(letter)] = Some(id);
        }
        let empty = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(Self {
            name: name.to_owned(),
            ids,
            unk: None,
            pad: None,
            prefix: empty.0,
            suffix: empty.1,
            specials: empty.2,
        })
    }

    /// The same table with ids that stand for no letter, by name; `unk` and `pad` have a meaning of their own.
    #[must_use]
    pub fn with_specials(mut self, specials: impl IntoIterator<Item = (String, i32)>) -> Self {
        self.specials.extend(specials);
        self.unk = self.specials.get("unk").copied();
        self.pad = self.specials.get("pad").copied();
        self
    }

    /// The same table with ids put before and after every record.
    #[must_use]
    pub fn with_ends(mut self, prefix: Vec<i32>, suffix: Vec<i32>) -> Self {
        (self.prefix, self.suffix) = (prefix, suffix);
        self
    }

    /// The same table with letters treated as those of the other case, where they have no id of their own.
    #[must_use]
    pub fn with_case_folded(mut self) -> Self {
        for upper in b'A'..=b'Z' {
            let (upper, lower) = (usize::from(upper), usize::from(upper.to_ascii_lowercase()));
            (self.ids[upper], self.ids[lower]) =
                (self.ids[upper].or(self.ids[lower]), self.ids[lower].or(self.ids[upper]));
        }
        self
    }

    /// A table that comes with the crate: `esm`, `dna`, `nucleotide` or `bytes`.
    pub fn named(name: &str) -> Result<Self> {
        let specials = |pairs: &[(&str, i32)]| pairs.iter().map(|&(n, id)| (n.to_owned(), id)).collect::<Vec<_>>();
        match name {
            // ESM-2's vocabulary, in its order: four specials, the amino acids by frequency, the rest.
            "esm" => {
                let letters = b"LAGVSERTIDPKQNFYMHWCXBUZO.-";
                let known = [("cls", 0), ("pad", 1), ("eos", 2), ("unk", 3), ("null_1", 31), ("mask", 32)];
                Ok(Self::new(name, letters.iter().copied().zip(4..))?
                    .with_specials(specials(&known))
                    .with_ends(vec![0], vec![2]))
            }
            // The byte tokenizer of genome models: letters are their ASCII codes.
            "dna" => {
                let known = [("eos", 0), ("pad", 1), ("bos", 2), ("sep", 3), ("unk", 4)];
                Ok(Self::new(name, (b'A'..=b'Z').map(|b| (b, b.into())))?
                    .with_specials(specials(&known))
                    .with_case_folded())
            }
            // Whatever is not A, C, G or T (U) is N.
            "nucleotide" => {
                let letters = b"ACGTN".iter().copied().zip(0..).chain([(b'U', 3)]);
                Ok(Self::new(name, letters)?.with_specials(specials(&[("unk", 4), ("pad", 4)])).with_case_folded())
            }
            "bytes" => Ok(Self::new(name, (0..=255).map(|b| (b, b.into())))?.with_specials(specials(&[("pad", 0)]))),
            _ => Err(Error::Mismatch(format!("there is no token table '{name}'; there are {}", NAMES.join(", ")))),
        }
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id of a letter: its own, or the table's for unknown ones, or none.
    #[must_use]
    pub fn id(&self, letter: u8) -> Option<i32> {
        self.ids[usize::from(letter)].or(self.unk)
    }

    /// The id of a special token, by name.
    #[must_use]
    pub fn special(&self, name: &str) -> Option<i32> {
        self.specials.get(name).copied()
    }

    /// All special tokens.
    #[must_use]
    pub fn specials(&self) -> &BTreeMap<String, i32> {
        &self.specials
    }

    /// What padding is filled with.
    #[must_use]
    pub fn pad(&self) -> Option<i32> {
        self.pad
    }

    /// Ids put before every record.
    #[must_use]
    pub fn prefix(&self) -> &[i32] {
        &self.prefix
    }

    /// Ids put after every record.
    #[must_use]
    pub fn suffix(&self) -> &[i32] {
        &self.suffix
    }

    /// The largest id that can come out of it.
    #[must_use]
    pub fn largest(&self) -> i32 {
        let ends = self.prefix.iter().chain(&self.suffix).copied();
        self.ids.iter().flatten().copied().chain(self.specials.values().copied()).chain(ends).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn esm_is_the_vocabulary_of_esm_2() {
        let esm = TokenTable::named("esm").unwrap();
        let ids: Vec<i32> = "LAGVSERTIDPKQNFYMHWCXBUZO.-".bytes().map(|b| esm.id(b).unwrap()).collect();
        assert_eq!(ids, (4..31).collect::<Vec<_>>());
        assert_eq!(["J", "l", "*"].map(|s| esm.id(s.as_bytes()[0])), [Some(3); 3]);
        assert_eq!(esm.largest(), 32);
    }

    #[test]
    fn dna_and_nucleotide_take_both_cases() {
        let dna = TokenTable::named("dna").unwrap();
        assert_eq!([b'A', b'a', b'N', b'*'].map(|b| dna.id(b)), [Some(65), Some(65), Some(78), Some(4)]);
        let nucleotide = TokenTable::named("nucleotide").unwrap();
        assert_eq!(
            "ACGTNacgtnURx".bytes().map(|b| nucleotide.id(b).unwrap()).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 3, 4, 4]
        );
    }

    #[test]
    fn a_custom_table_has_only_what_it_was_given() {
        let table = TokenTable::new("two", [(b'A', 7), (b'B', 300)]).unwrap();
        assert_eq!((table.id(b'A'), table.id(b'a'), table.largest()), (Some(7), None, 300));
        assert!(TokenTable::new("bad", [(b'A', -1)]).is_err());
        assert_eq!(
            TokenTable::named("rna").unwrap_err().to_string(),
            "there is no token table 'rna'; there are bytes, dna, esm, nucleotide"
        );
    }
}
