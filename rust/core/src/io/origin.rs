//! How an index came to be there.

/// Where an index came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It was there and fits.
    Found,
    /// It was built and written.
    Built {
        /// Why the one that was there could not be used, if one was there.
        because: Option<String>,
    },
    /// It was built and is in memory only.
    Memory {
        /// Why it could not be written.
        because: String,
    },
}
