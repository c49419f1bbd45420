//! What is asked of records: features by name, what they are read as, how many values each has.

use super::list::Kind;
use crate::error::{Error, Result};

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// Floats as they are stored.
    F32,
    /// Integers as they are stored.
    I64,
    /// Integers; one that does not fit is refused.
    I32,
    /// Byte strings.
    Bytes,
}

impl Dtype {
    /// The list that such values are read from.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::F32 => Kind::Float,
            Self::I64 | Self::I32 => Kind::Int,
            Self::Bytes => Kind::Bytes,
        }
    }
}

/// How many values each record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As many in each: the column is a block.
    Fixed(usize),
    /// Any multiple of a width: the column is ragged.
    Ragged(usize),
}

/// Values of a record that lacks the feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Floats.
    F32(Vec<f32>),
    /// Integers.
    I64(Vec<i64>),
    /// Smaller integers.
    I32(Vec<i32>),
    /// Byte strings.
    Bytes(Vec<Vec<u8>>),
}

impl Values {
    fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::I64(_) => Dtype::I64,
            Self::I32(_) => Dtype::I32,
            Self::Bytes(_) => Dtype::Bytes,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::Bytes(values) => values.len(),
        }
    }
}

/// One feature that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// What its values become.
    pub dtype: Dtype,
    /// How many of them there are.
    pub shape: Shape,
    /// What stands in for it where it is missing; without, that is an error.
    pub default: Option<Values>,
}

/// Features asked for, each once, found by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    features: Vec<Feature>,
    /// Numbers of features by length and bytes of their names: most names are told apart by their length alone.
    by_name: Vec<usize>,
}

impl Schema {
    /// A schema of these features; columns will come in their order.
    pub fn new(features: Vec<Feature>) -> Result<Self> {
        for feature in &features {
            feature.check()?;
        }
        let mut by_name: Vec<usize> = (0..features.len()).collect();
        let key = |&at: &usize| (features[at].name.len(), features[at].name.as_bytes());
        by_name.sort_unstable_by_key(key);
        if let Some(pair) = by_name.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
            return Err(Error::Mismatch(format!("feature '{}' is asked for twice", features[pair[0]].name)));
        }
        Ok(Self { features, by_name })
    }

    /// The features in the order given.
    #[must_use]
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The number of the feature with this name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let key = |&at: &usize| (self.features[at].name.len(), self.features[at].name.as_bytes());
        let at = self.by_name.binary_search_by_key(&(name.len(), name), key).ok()?;
        Some(self.by_name[at])
    }
}

impl Feature {
    fn check(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::Mismatch(format!("feature '{}': {message}", self.name)));
        if self.shape == Shape::Ragged(0) {
            return refuse("rows of no values can't be counted: its inner shape must not hold a 0");
        }
        let Some(default) = &self.default else { return Ok(()) };
        if default.dtype() != self.dtype {
            return refuse("its default is of another type");
        }
        match self.shape {
            Shape::Fixed(count) if default.len() != count => {
                refuse(&format!("its default must have {count} values, not {}", default.len()))
            }
            Shape::Ragged(width) if !default.len().is_multiple_of(width) => {
                refuse(&format!("its default must have a multiple of {width} values, not {}", default.len()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(name: &str, shape: Shape, default: Option<Values>) -> Feature {
        Feature { name: name.to_owned(), dtype: Dtype::I64, shape, default }
    }

    #[test]
    fn features_are_found_by_name() {
        let names = ["x", "label", "y", "", "xy", "a longer name"];
        let features = names.iter().map(|name| feature(name, Shape::Fixed(1), None)).collect();
        let schema = Schema::new(features).unwrap();
        for (at, name) in names.iter().enumerate() {
            assert_eq!(schema.find(name.as_bytes()), Some(at));
        }
        for other in [&b"z"[..], b"labels", b"\xff", b"yx"] {
            assert_eq!(schema.find(other), None);
        }
    }

    #[test]
    fn what_fits_no_record_is_refused() {
        for (features, message) in [
            (vec![feature("x", Shape::Fixed(1), None); 2], "feature 'x' is asked for twice"),
            (
                vec![feature("x", Shape::Fixed(2), Some(Values::I64(vec![1])))],
                "feature 'x': its default must have 2 values, not 1",
            ),
            (
                vec![feature("x", Shape::Ragged(2), Some(Values::I64(vec![1])))],
                "feature 'x': its default must have a multiple of 2 values, not 1",
            ),
            (
                vec![feature("x", Shape::Fixed(1), Some(Values::F32(vec![1.0])))],
                "feature 'x': its default is of another type",
            ),
            (
                vec![feature("x", Shape::Ragged(0), None)],
                "feature 'x': rows of no values can't be counted: its inner shape must not hold a 0",
            ),
        ] {
            assert_eq!(Schema::new(features).unwrap_err().to_string(), message);
        }
    }
}
