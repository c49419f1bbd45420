//! A file that was opened, and whether it is still the one that it was then.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::process::{Resource, getrlimit};

use super::fingerprint::mtime_ns;
use crate::error::{Error, Result};

/// What a file looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    device: u64,
    inode: u64,
    /// When the inode was made, where the file system tells: numbers of inodes are given away again.
    born: Option<SystemTime>,
    size: u64,
    mtime_ns: i128,
    links: u64,
}

impl Seen {
    fn of(metadata: &Metadata) -> Self {
        let (device, inode, links) = (metadata.dev(), metadata.ino(), metadata.nlink());
        let (born, size) = (metadata.created().ok(), metadata.len());
        Self { device, inode, born, size, mtime_ns: mtime_ns(metadata), links }
    }

    fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode, self.born) == (other.device, other.inode, other.born)
    }
}

/// Descriptors that guarded files hold in this process. A forked child has its parent's.
static HELD: AtomicU64 = AtomicU64::new(0);

/// A descriptor that is counted.
#[derive(Debug)]
struct Counted(File);

impl Counted {
    fn new(file: File) -> Self {
        HELD.fetch_add(1, Ordering::Relaxed);
        Self(file)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a file is reached after it was opened.
#[derive(Debug)]
enum Held {
    Open(Counted),
    /// By its name, so that a thousand files need no thousand descriptors. A look costs a microsecond more, and a file
    /// that was moved is not found again.
    Named(PathBuf),
}

/// An open file and what it looked like then: tells whether it has been changed or replaced since.
#[derive(Debug)]
pub struct Guarded {
    path: PathBuf,
    held: Held,
    seen: Seen,
}

impl Guarded {
    /// Opens a regular file for reading. Its descriptor is kept unless a quarter of those that the process may have are
    /// held already: the rest are for everybody else.
    pub fn open(path: &Path) -> Result<Self> {
        // Looked at before it is opened: opening a pipe waits for somebody to write to it.
        let kind = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
        if kind.is_dir() {
            return Err(Error::io(path, io::Error::from_raw_os_error(21))); // EISDIR, as read(2) would say
        }
        if !kind.is_file() {
            let message = "not a regular file: what can't be read twice can't be read at random";
            return Err(Error::io(path, io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let seen = Seen::of(&file.metadata().map_err(|e| Error::io(path, e))?);
        let name = if HELD.load(Ordering::Relaxed) < most_held() { None } else { name_of(path, &seen) };
        let held = name.map_or_else(|| Held::Open(Counted::new(file)), Held::Named);
        Ok(Self { path: path.to_owned(), held, seen })
    }

    /// A file that has no name; `folder` stands for it in messages.
    pub(super) fn unnamed(file: File, folder: &Path) -> Result<Self> {
        let seen = Seen::of(&file.metadata().map_err(|e| Error::io(folder, e))?);
        Ok(Self { path: folder.to_owned(), held: Held::Open(Counted::new(file)), seen })
    }

    /// Whether its descriptor is held.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.held, Held::Open(_))
    }

    /// Whether whoever opened `other`, which looks the same, can do with this one: by its name, a file is found in one
    /// place only.
    pub(super) fn stands_for(&self, other: &Self) -> bool {
        match (&self.held, &other.held) {
            (Held::Open(_), _) => true,
            (Held::Named(name), Held::Named(wanted)) => name == wanted,
            (Held::Named(_), Held::Open(_)) => false,
        }
    }

    /// What `work` makes of the open file, which is opened again where it was let go of.
    pub fn with_file<T>(&self, work: impl FnOnce(&File) -> io::Result<T>) -> Result<T> {
        let fail = |e| Error::io(&self.path, e);
        match &self.held {
            Held::Open(file) => work(&file.0).map_err(fail),
            Held::Named(name) => {
                let file = File::open(name).map_err(|e| self.gone_or(e))?;
                self.compare(&Seen::of(&file.metadata().map_err(fail)?))?;
                work(&file).map_err(fail)
            }
        }
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// Reads bytes that lie in the file, as it was when it was opened, without a mapping.
    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.with_file(|file| file.read_exact_at(out, offset)).map_err(|e| match e {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof => {
                let end = offset + out.len() as u64;
                self.stale(&format!("it ends before byte {end}, which it held when it was opened"))
            }
            other => other,
        })
    }

    /// Its size when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.seen.size
    }

    /// Its modification time when it was opened, in nanoseconds since 1970.
    #[must_use]
    pub fn mtime_ns(&self) -> i128 {
        self.seen.mtime_ns
    }

    /// One look: an error if size or time changed, or if the file was unlinked or replaced by another.
    pub fn check_unchanged(&self) -> Result<()> {
        self.compare(&self.look()?)
    }

    /// One look: an error if size or time changed. The file may have lost its name to another.
    pub fn check_not_overwritten(&self) -> Result<()> {
        match (&self.held, self.look()) {
            (Held::Open(_), now) => self.compare_content(&now?),
            (Held::Named(_), Ok(now)) if now.is_same_file(&self.seen) => self.compare_content(&now),
            // Another file has its name now. It was unlinked, as those are that others are renamed over, so that nobody
            // can write to it, or else moved by hand: then there is no looking at it.
            (Held::Named(_), Ok(_) | Err(Error::Stale { .. })) => Ok(()),
            (Held::Named(_), Err(error)) => Err(error),
        }
    }

    fn look(&self) -> Result<Seen> {
        let metadata = match &self.held {
            Held::Open(file) => file.0.metadata().map_err(|e| Error::io(&self.path, e)),
            Held::Named(name) => std::fs::metadata(name).map_err(|e| self.gone_or(e)),
        };
        Ok(Seen::of(&metadata?))
    }

    fn compare(&self, now: &Seen) -> Result<()> {
        if now.links < self.seen.links || !now.is_same_file(&self.seen) {
            return Err(self.replaced());
        }
        self.compare_content(now)
    }

    fn compare_content(&self, now: &Seen) -> Result<()> {
        if now.size != self.seen.size {
            let (then, now) = (self.seen.size, now.size);
            Err(self.stale(&format!("its size was {then} bytes when it was opened and is {now} now")))
        } else if now.mtime_ns != self.seen.mtime_ns {
            Err(self.stale("it was written to after it was opened"))
        } else {
            Ok(())
        }
    }

    /// What it means that there is no file of the name now.
    fn gone_or(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.replaced(),
            _ => Error::io(&self.path, error),
        }
    }

    fn replaced(&self) -> Error {
        self.stale("it was deleted or replaced after it was opened")
    }

    fn stale(&self, what: &str) -> Error {
        Error::stale(format!("{what}; open it again")).in_file(&self.path)
    }
}

/// The name without links under which a file is found again, if it is.
fn name_of(path: &Path, seen: &Seen) -> Option<PathBuf> {
    let name = std::fs::canonicalize(path).ok()?;
    let found = Seen::of(&std::fs::metadata(&name).ok()?);
    found.is_same_file(seen).then_some(name)
}

/// How many descriptors are held at most: a quarter of those that the process may have now.
fn most_held() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    /// The file held either way.
    fn both_ways(path: &Path) -> [Guarded; 2] {
        let opened = Guarded::open(path).unwrap();
        let named = Guarded { path: path.to_owned(), held: Held::Named(path.to_owned()), seen: opened.seen };
        [opened, named]
    }

    #[test]
    fn changes_are_told_apart() {
        type Change = fn(&Path) -> std::io::Result<()>;
        let changes: [(&str, Change); 4] = [
            ("its size was 4 bytes when it was opened and is 2 now", |path| std::fs::write(path, b"AC")),
            ("written to after", |path| File::options().write(true).open(path)?.set_modified(std::time::UNIX_EPOCH)),
            ("deleted or replaced after", |path| std::fs::remove_file(path)),
            ("deleted or replaced after", |path| {
                let other = path.with_extension("new");
                std::fs::write(&other, b"TTTT")?;
                std::fs::rename(other, path)
            }),
        ];
        for (word, change) in changes {
            let (_folder, path) = file(b"ACGT");
            let both = both_ways(&path);
            for guarded in &both {
                guarded.check_unchanged().unwrap();
            }
            change(&path).unwrap();
            for guarded in both {
                let message = guarded.check_unchanged().unwrap_err().to_string();
                assert!(message.contains(word) && message.contains(&*path.to_string_lossy()), "{message}");
            }
        }
    }

    #[test]
    fn a_file_that_lost_its_name_is_not_overwritten() {
        let (_folder, path) = file(b"ACGT");
        let both = both_ways(&path);
        std::fs::remove_file(&path).unwrap();
        for guarded in &both {
            guarded.check_not_overwritten().unwrap();
        }
        std::fs::write(&path, b"AC").unwrap();
        for guarded in &both {
            guarded.check_not_overwritten().unwrap();
        }
        let now = both_ways(&path);
        std::fs::write(&path, b"ACGTACGT").unwrap();
        for guarded in &now {
            assert!(guarded.check_not_overwritten().is_err());
        }
    }

    #[test]
    fn bytes_are_read_either_way_but_not_those_of_another_file() {
        let (_folder, path) = file(b"ACGT");
        let both = both_ways(&path);
        let mut found = [0; 2];
        for guarded in &both {
            guarded.read_at(1, &mut found).unwrap();
            assert_eq!(&found, b"CG");
        }
        std::fs::write(&path, b"A").unwrap();
        for guarded in &both {
            assert!(matches!(guarded.read_at(1, &mut found), Err(Error::Stale { .. })));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(both[1].read_at(1, &mut found), Err(Error::Stale { .. })));
    }
}
