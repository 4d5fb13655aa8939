//! Reading a file that only this user should have written.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Why a file gave no bytes.
pub(super) enum Unread {
    /// A link, a pipe or a directory, or longer than the limit: not what this program leaves there.
    NotAFile,
    /// The disk or the system says no; it tells nothing of the file.
    Io(io::Error),
}

/// The whole of a regular file of at most `limit` bytes. No link is followed and no pipe is waited for. `None`: there is
/// nothing of that name.
pub(super) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Unread> {
    let seen = match fs::symlink_metadata(path) {
        Ok(seen) => seen,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unread::Io(error)),
    };
    if !seen.is_file() || seen.len() > limit {
        return Err(Unread::NotAFile);
    }
    let file = match File::open(path) {
        Ok(file) => file,
        // Another process has tidied it away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unread::Io(error)),
    };
    // Files are replaced whole, never written to: if this is another one by now, it is another process's and as good.
    let mut bytes = Vec::with_capacity(usize::try_from(seen.len()).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes).map_err(Unread::Io)?;
    Ok(Some(bytes))
}
