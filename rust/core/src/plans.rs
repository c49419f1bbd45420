//! Packing plans in files.

use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};
use crate::index::PlanFile;
use crate::io::Store;
use crate::io::mapped::Mapped;
use crate::io::whole::{WholeFile, refuse_folder, refuse_to_replace};

/// Opens the plan in a file, in constant time.
///
/// ```
/// use seekset_core::index::PlanFile;
/// use seekset_core::plan::packing::{Layout, Overflow, Rules};
/// use seekset_core::{plan, plans};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("plan.arrow");
/// let overflow = Overflow::Truncate;
/// let rules = Rules { max_tokens: 10, max_length: None, specials: 2, overflow, layout: Layout::Packed };
/// let plan = PlanFile::of(&plan::pack(&[8, 3, 3], rules)?, "mine")?;
/// plans::save(&plan, &path)?;
/// assert_eq!(plans::open(&path)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(path: &Path) -> Result<PlanFile> {
    PlanFile::open(Store::File(Mapped::open(path)?)).map_err(|error| error.in_file(path))
}

/// Writes a plan to a file, which appears whole or not at all. Other files than plans are not replaced.
pub fn save(plan: &PlanFile, path: &Path) -> Result<()> {
    let ours = |start: &[u8]| start.is_empty() || memchr::memmem::find(start, b"seekset.max_tokens").is_some();
    refuse_folder(path)?;
    refuse_to_replace(path, None, "plan", ours)?;
    plan.check_unchanged()?;
    let mut file = WholeFile::create(path)?;
    file.write_all(plan.store().bytes()).map_err(|error| Error::io(path, error))?;
    file.publish().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::pack;
    use crate::plan::packing::{Layout, Overflow, Rules};

    fn plan() -> PlanFile {
        let overflow = Overflow::Truncate;
        let rules = Rules { max_tokens: 32, max_length: Some(30), specials: 2, overflow, layout: Layout::Packed };
        PlanFile::of(&pack(&[9, 30, 10], rules).unwrap(), "x").unwrap()
    }

    #[test]
    fn a_saved_plan_is_the_same_plan_and_replaces_only_plans() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("plan.arrow"), folder.path().join("x.fa"));
        let plan = plan();
        save(&plan, &path).unwrap();
        save(&plan, &path).unwrap();
        let again = open(&path).unwrap();
        assert_eq!((again.facts(), again.store().path()), (plan.facts(), Some(&*path)));
        assert_eq!(again.batch(1).unwrap(), plan.batch(1).unwrap());
        std::fs::write(&other, b">a\nAC\n").unwrap();
        assert!(save(&plan, &other).unwrap_err().to_string().contains("it is no plan"));
        assert_eq!(std::fs::read(&other).unwrap(), b">a\nAC\n");
        assert!(open(&other).unwrap_err().to_string().contains("x.fa"));
    }

    #[test]
    fn a_file_that_is_overwritten_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.arrow");
        save(&plan(), &path).unwrap();
        let plan = open(&path).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(100).unwrap();
        assert!(matches!(plan.batch(0), Err(Error::Stale { .. })));
    }
}
