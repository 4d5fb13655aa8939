//! Compiled code on disk, so that a start does not compile what an earlier one has compiled.
//!
//! Compiled code is native code: to load it is to trust it. So only this module writes it, into a directory that nobody
//! else can enter, and only this module reads it back, after a check that it is what was written: an entry carries a MAC
//! (HMAC-SHA-256) over the component's digest, the engine's hash and the code. The key lies beside the directory, not in
//! it, so that a copied or shared directory is worth nothing without it. The digest is that of the component that has
//! just been inspected: code is only ever found for bytes that pass today's checks.
//!
//! Nothing here can stop a policy from loading. Whatever is wrong is reported, and the component is compiled as if there
//! were no cache.

mod directory;
mod key;
mod own_file;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::sandbox::hex;
use directory::Directory;
use own_file::Unread;

/// Names the format of an entry; another one would be another purpose.
const PURPOSE: &[u8] = b"farebox compiled code 1\0";
const MAC_BYTES: usize = 32;

/// What happened to the cache. Loading goes on after each of them; prices never depend on it.
#[derive(Debug, thiserror::Error)]
pub enum CacheEvent {
    /// The directory or its key cannot be trusted or used at all.
    #[error("the code cache `{}` is not used, so policies are compiled at every start", directory.display())]
    NotUsed { directory: PathBuf, source: NotUsed },
    /// An entry is not what was written: damaged, moved or planted. It is not run.
    #[error("`{}` in the code cache is not what was written there; the policy is compiled anew", path.display())]
    Tampered { path: PathBuf, source: Mismatch },
    /// An entry could not be read: the disk or the system, nobody's tampering.
    #[error("`{}` in the code cache cannot be read; the policy is compiled anew", path.display())]
    NotRead { path: PathBuf, source: io::Error },
    /// An entry could not be made, written or removed.
    #[error("`{}` in the code cache cannot be written or removed", path.display())]
    NotWritten { path: PathBuf, source: io::Error },
}

/// Why a directory is no cache.
#[derive(Debug, thiserror::Error)]
pub enum NotUsed {
    #[error(
        "its permissions are {mode:03o}; only its owner may enter it: `chmod 700` it, or name one that does not exist"
    )]
    Exposed { mode: u32 },
    #[error("it belongs to user {owner} and this process runs as user {user}; name a directory of its own")]
    Foreign { owner: u32, user: u32 },
    #[error("the key `{}` is not a file of 32 bytes that only this user can read; remove it, and a new one is made", .0.display())]
    Key(PathBuf),
    #[error("it has no name; name a directory below another")]
    Nameless,
    #[error("`{}` cannot be created, read or written", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// How an entry differs from what was written.
#[derive(Debug, thiserror::Error)]
pub enum Mismatch {
    #[error("its authentication code does not fit")]
    Mac,
    #[error("it is not a regular file, or changed while it was read")]
    NotAFile,
    #[error("the engine does not take it")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl NotUsed {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }
}

impl CacheEvent {
    /// True where somebody should look: code or permissions are not as this process leaves them.
    pub fn is_alarm(&self) -> bool {
        match self {
            Self::NotUsed { source, .. } => !matches!(source, NotUsed::Io { .. } | NotUsed::Nameless),
            Self::Tampered { .. } => true,
            Self::NotRead { .. } | Self::NotWritten { .. } => false,
        }
    }
}

/// Told of every event as it happens.
pub(crate) type Report = Box<dyn Fn(&CacheEvent) + Send + Sync>;

/// An open cache of one engine.
pub(crate) struct CodeCache {
    directory: Directory,
    keyed: Hmac<Sha256>,
    engine_hash: String,
    report: Report,
}

/// A component and where its code came from.
pub(crate) struct Compiled {
    pub(crate) component: Component,
    pub(crate) is_cached: bool,
}

impl CodeCache {
    /// Opens or creates `path`, and makes a key beside it if there is none. `None`: reported.
    pub(crate) fn open(path: &Path, engine_hash: String, report: Report) -> Option<Self> {
        let opened = Directory::claim(path).and_then(|directory| {
            let keyed = key::read_or_make(&key::path_of(path)?, directory.owner())?;
            Ok((directory, keyed))
        });
        match opened {
            Ok((directory, keyed)) => {
                let cache = Self { directory, keyed, engine_hash, report };
                cache.tidy();
                Some(cache)
            }
            Err(source) => {
                report(&CacheEvent::NotUsed { directory: path.to_path_buf(), source });
                None
            }
        }
    }

    /// Finds the code of a component or compiles and keeps it. `wasm` must have passed inspection.
    pub(crate) fn compile(&self, engine: &Engine, wasm: &[u8]) -> wasmtime::Result<Compiled> {
        let digest: [u8; 32] = Sha256::digest(wasm).into();
        let path = self.directory.entry(&hex(&digest), &self.engine_hash);
        match self.load(&path, &digest, engine) {
            Ok(Some(component)) => return Ok(Compiled { component, is_cached: true }),
            Ok(None) => {}
            Err(event) => (self.report)(&event),
        }
        let component = Component::from_binary(engine, wasm)?;
        let kept = component.serialize().map_err(io::Error::other).and_then(|code| self.keep(&path, &digest, &code));
        if let Err(source) = kept {
            (self.report)(&CacheEvent::NotWritten { path, source });
        }
        Ok(Compiled { component, is_cached: false })
    }

    /// `None`: there is no entry.
    fn load(&self, path: &Path, digest: &[u8; 32], engine: &Engine) -> Result<Option<Component>, CacheEvent> {
        let tampered = |source| CacheEvent::Tampered { path: path.to_path_buf(), source };
        let entry = match own_file::read(path, directory::MAX_BYTES) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(None),
            Err(Unread::NotAFile) => return Err(tampered(Mismatch::NotAFile)),
            Err(Unread::Io(source)) => return Err(CacheEvent::NotRead { path: path.to_path_buf(), source }),
        };
        let (mac, code) = entry.split_first_chunk::<MAC_BYTES>().ok_or_else(|| tampered(Mismatch::Mac))?;
        // Compares in constant time.
        self.authenticator(digest, code).verify_slice(mac).map_err(|_| tampered(Mismatch::Mac))?;
        #[expect(unsafe_code, reason = "loading code that this module compiled and wrote")]
        // SAFETY: the bytes must be unmodified output of `Component::serialize`. The MAC was made by `keep`, over such
        // output, by a process that holds the key, which only this user can read; and they are in this process's memory
        // since before the check. The engine's hash under the MAC says that this very engine compiled them.
        let component = unsafe { Component::deserialize(engine, code) };
        component.map(Some).map_err(|error| tampered(Mismatch::Engine(error.into())))
    }

    fn keep(&self, path: &Path, digest: &[u8; 32], code: &[u8]) -> io::Result<()> {
        let mac = self.authenticator(digest, code).finalize().into_bytes();
        self.directory.write(path, &[&mac, code])?;
        self.tidy();
        Ok(())
    }

    /// Over parts of fixed length, then the code: no two inputs are one text.
    fn authenticator(&self, digest: &[u8; 32], code: &[u8]) -> Hmac<Sha256> {
        self.keyed.clone().chain_update(PURPOSE).chain_update(digest).chain_update(&self.engine_hash).chain_update(code)
    }

    fn tidy(&self) {
        for (path, source) in self.directory.tidy(&self.engine_hash) {
            (self.report)(&CacheEvent::NotWritten { path, source });
        }
    }
}

/// The key is not shown.
impl fmt::Debug for CodeCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CodeCache").field("directory", &self.directory).finish_non_exhaustive()
    }
}
