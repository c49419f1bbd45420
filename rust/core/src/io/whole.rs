//! Files that appear whole or not at all: written beside their name, then renamed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tempfile::TempPath;

use super::fingerprint::Fingerprint;
use super::mapped::Mapped;
use crate::error::{Error, Result};

/// A file under way to `path`. Dropped without [`WholeFile::publish`], it leaves what was there before.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// Its name until it is whole. Where the system has files without a name, it has none, so that nothing is left by who
    /// is killed.
    temp: Option<TempPath>,
}

impl WholeFile {
    /// Starts a file beside `path`, readable by whom the umask allows.
    pub fn create(path: &Path) -> Result<Self> {
        let (file, temp) = match nameless(path) {
            Some(file) => (file, None),
            None => begin(path).map(|(file, temp)| (file, Some(temp)))?,
        };
        Ok(Self { path: path.to_owned(), out: BufWriter::with_capacity(1 << 20, file), temp })
    }

    /// Waits until all that was written is on the disk: for files that can't be made again.
    pub fn sync(&mut self) -> Result<()> {
        let synced = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(|e| Error::io(&self.path, e))
    }

    /// The file itself, for writing at places of it.
    pub(crate) fn handle(&self) -> Result<File> {
        self.out.get_ref().try_clone().map_err(|e| Error::io(&self.path, e))
    }

    /// The name that it will have.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, replacing what was there.
    pub fn publish(self) -> Result<PathBuf> {
        let path = self.path.clone();
        self.publish_or_map()?.map_or(Ok(path), |(_, error)| Err(error))
    }

    /// The bytes so far as a mapping, before they have their name.
    pub(crate) fn look(&mut self) -> Result<Arc<Mapped>> {
        self.out.flush().map_err(|e| Error::io(&self.path, e))?;
        // By its descriptor: the name that it has now, if any, is about to go.
        Mapped::unnamed(self.handle()?, &self.path)
    }

    /// What the file looks like as it is now, which it keeps when it gets its name.
    pub(crate) fn fingerprint(&mut self) -> Result<Fingerprint> {
        let taken = self.out.flush().and_then(|()| Fingerprint::of(self.out.get_ref()));
        taken.map_err(|e| Error::io(&self.path, e))
    }

    /// [`WholeFile::publish`]; where the name can't be given, the bytes come as a mapping, which needs none, and why.
    pub(crate) fn publish_or_map(self) -> Result<Option<(Arc<Mapped>, Error)>> {
        let Self { path, out, temp } = self;
        let file = out.into_inner().map_err(|e| Error::io(&path, e.into_error()))?;
        let temp = temp.map_or_else(|| named(&file, &path), Ok);
        let Err(error) = temp.and_then(|temp| Ok(temp.persist(&path)?)) else { return Ok(None) };
        Ok(Some((Mapped::unnamed(file, &path)?, Error::io(&path, error))))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// An empty file in the folder of `path` that has no name, readable by whom the umask allows; where there are none, or
/// where they could not get a name later, nothing.
fn nameless(path: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder(path), flags, Mode::from_raw_mode(0o666)).ok()?;
    let file = File::from(file);
    by_descriptor(&file).exists().then_some(file)
}

/// A name beside `path` for a file that has none.
fn named(file: &File, path: &Path) -> io::Result<TempPath> {
    let link = |temp: &Path| {
        rustix::fs::linkat(CWD, by_descriptor(file), CWD, temp, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
    };
    Ok(tempfile::Builder::new().prefix(".").suffix(".part").make_in(folder(path), link)?.into_temp_path())
}

/// Where the system shows an open file.
fn by_descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// An empty file beside `path`, readable by whom the umask allows, that is removed unless it gets a name.
pub(crate) fn begin(path: &Path) -> Result<(File, TempPath)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Opened here and written to as it is, because errors from tempfile's own files lose the system's code.
    let open = |temp: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(temp);
    let mut builder = tempfile::Builder::new();
    let temp = builder.prefix(&format!(".{name}.")).suffix(".part").make_in(folder(path), open);
    Ok(temp.map_err(|e| Error::io(path, e))?.into_parts())
}

/// The folder a path lies in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// An error if there is a folder at `out`; what a rename would say of it leads nowhere.
pub(crate) fn refuse_folder(out: &Path) -> Result<()> {
    if out.is_dir() { Err(Error::io(out, io::Error::from_raw_os_error(21))) } else { Ok(()) } // EISDIR
}

/// An error if writing to `out` would replace the data, or a file that `ours` does not take for one of the kind.
pub(crate) fn refuse_to_replace(
    out: &Path,
    data: Option<&Path>,
    kind: &str,
    ours: impl Fn(&[u8]) -> bool,
) -> Result<()> {
    let Ok(there) = File::open(out) else { return Ok(()) };
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let data = data.and_then(|data| std::fs::metadata(data).ok());
    let is_data = data.is_some_and(|data| there.metadata().is_ok_and(|there| same(&there, &data)));
    let mut start = vec![0; 1 << 16];
    let read = there.read_at(&mut start, 0).unwrap_or(0);
    if is_data || !ours(&start[..read]) {
        return Err(not_ours(out, kind));
    }
    Ok(())
}

/// The error for a file that is not replaced.
pub(crate) fn not_ours(out: &Path, kind: &str) -> Error {
    let out = out.display();
    Error::Mismatch(format!("{out}: there is a file already, and it is no {kind}; delete it or give another path"))
}
