//! What may be replaced where an index is to be written.

use std::path::Path;

use crate::error::{Error, Result};
use crate::index::columns::{is_ours, other_kind};
use crate::io::mapped::Mapped;
use crate::io::whole::{not_ours, refuse_to_replace};

const ARROW: &[u8] = b"ARROW1";

/// An error if there is an index of another kind at `path`, which must not be taken for a damaged one and replaced.
pub(crate) fn refuse_other_index(path: &Path, kind: &str) -> Result<()> {
    let Ok(mapped) = Mapped::open(path) else { return Ok(()) };
    other_kind(mapped.as_bytes(), kind).map_or(Ok(()), |found| {
        Err(Error::format(0, format!("expected an index of kind '{kind}', {found}")).in_file(path))
    })
}

/// An error if there is a file at `path` that is no Arrow file of seekset's, whole or damaged: other people's tables are
/// Arrow files, too. `what` is what is to be written there.
pub(crate) fn refuse_foreign_table(path: &Path, data: Option<&Path>, what: &str) -> Result<()> {
    let may_be = |start: &[u8]| start.is_empty() || start.starts_with(ARROW) || ARROW.starts_with(start);
    refuse_to_replace(path, data, what, may_be)?;
    let Ok(mapped) = Mapped::open(path) else { return Ok(()) };
    let bytes = mapped.as_bytes();
    if bytes.len() <= ARROW.len() || is_ours(bytes) { Ok(()) } else { Err(not_ours(path, what)) }
}
