//! `farebox policy new`: a policy that builds, passes its tests and prices something at once.

mod name;
mod place;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use place::Place;

const LIBRARY: &str = include_str!("scaffold/template/lib.rs.txt");
const README: &str = include_str!("scaffold/template/README.md.txt");
const MEMBER: &str = include_str!("scaffold/template/member.toml.txt");
const ALONE: &str = include_str!("scaffold/template/alone.toml.txt");
const CASES: [(&str, &str); 5] = [
    ("cases/at_the_threshold.json", include_str!("scaffold/template/cases/at_the_threshold.json")),
    ("cases/below_the_threshold.json", include_str!("scaffold/template/cases/below_the_threshold.json")),
    ("cases/no_gpu_count.json", include_str!("scaffold/template/cases/no_gpu_count.json")),
    ("cases/own_parameters.json", include_str!("scaffold/template/cases/own_parameters.json")),
    ("cases/refused_parameter.json", include_str!("scaffold/template/cases/refused_parameter.json")),
];

/// Where a policy is begun, and where its SDK may be.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The working directory.
    pub here: &'a Path,
    /// The SDK, or a checkout with it, as its author named it.
    pub sdk: Option<&'a Path>,
    /// The checkout that this binary was built from; it may be gone.
    pub built_from: &'a Path,
}

/// A policy that has just been written.
#[derive(Clone, Debug)]
pub struct Created {
    pub name: String,
    pub directory: PathBuf,
    /// Relative to the directory.
    pub files: Vec<&'static str>,
    /// The SDK that it is built with; `None` for a member of a workspace, which says so for all.
    pub sdk: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScaffoldError {
    #[error("a policy cannot be called `{name}`, which {objection}; `{suggestion}` would do")]
    Name { name: String, objection: String, suggestion: String },
    #[error("`{}` is there already and is not empty; choose another name, or remove it first", .0.display())]
    NotEmpty(PathBuf),
    #[error("`{}` is a file; choose another name", .0.display())]
    IsFile(PathBuf),
    #[error("the path `{}` is not UTF-8, which `Cargo.toml` must be; choose another folder", .0.display())]
    NotText(PathBuf),
    #[error(
        "the policy would be a member of the workspace `{}`, which lacks `farebox-sdk` under `[workspace.dependencies]` or \
         `edition` under `[workspace.package]`; add them, or choose a folder outside of it",
        .workspace.display()
    )]
    ForeignWorkspace { workspace: PathBuf },
    #[error("there is no `farebox-sdk` in `{}`; name the folder `sdk-wasm` of a Farebox checkout", .path.display())]
    NoSdkThere { path: PathBuf },
    #[error("`farebox-sdk` is not on crates.io; name the folder `sdk-wasm` of a Farebox checkout with `--sdk`")]
    NoSdk,
    #[error("`{}` cannot be written; nothing was left behind", .file.display())]
    File { file: PathBuf, source: io::Error },
}

/// Writes a policy into `target`, a name or a path whose last part is the name. An empty directory may be there.
///
/// # Errors
/// Everything is checked before the first file is written; what was written before an error is removed again.
pub fn create(target: &Path, surroundings: Surroundings<'_>) -> Result<Created, ScaffoldError> {
    let directory = place::normalised(&surroundings.here.join(target));
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let place = place::of(&directory, surroundings.sdk, surroundings.built_from)?;
    // The lock file of the SDK's own workspace: the versions that it is tested with, and nothing to be looked up.
    let root = match &place {
        Place::Member { workspace } => workspace.clone(),
        Place::Alone { sdk } => sdk.parent().unwrap_or(sdk).to_owned(),
    };
    let beside = |file: &str| fs::read_to_string(root.join(file)).ok();
    let lock = beside("Cargo.lock");
    let crates = place::locked_crates(lock.as_deref().unwrap_or_default());
    if let Some(objection) = name::objection(&name, &crates) {
        return Err(ScaffoldError::Name { suggestion: name::suggestion(&name, &crates), name, objection });
    }
    let fill = |template: &str| template.replace("{{name}}", &name);
    let mut files = vec![("src/lib.rs", fill(LIBRARY)), ("README.md", fill(README))];
    files.extend(CASES.map(|(file, text)| (file, text.to_owned())));
    let sdk = match place {
        Place::Member { .. } => {
            files.push(("Cargo.toml", fill(MEMBER)));
            None
        }
        Place::Alone { sdk } => {
            let path = sdk.to_str().ok_or_else(|| ScaffoldError::NotText(sdk.clone()))?;
            // A JSON string is a TOML string as well.
            files.push(("Cargo.toml", fill(ALONE).replace("{{sdk}}", &serde_json::Value::from(path).to_string())));
            files.push((".gitignore", "/target/\n".to_owned()));
            files.extend(lock.map(|lock| ("Cargo.lock", lock)));
            files.extend(beside("rust-toolchain.toml").map(|toolchain| ("rust-toolchain.toml", toolchain)));
            Some(sdk)
        }
    };
    write_all(&directory, &files)?;
    let mut files: Vec<&str> = files.into_iter().map(|(file, _)| file).collect();
    files.sort_unstable();
    Ok(Created { name, directory, files, sdk })
}

/// Writes new files only, all or none.
fn write_all(directory: &Path, files: &[(&'static str, String)]) -> Result<(), ScaffoldError> {
    let mut made = Made::default();
    let written = made.directory(directory).and_then(|()| is_empty(directory)).and_then(|empty| {
        if !empty {
            return Err((directory.to_owned(), io::ErrorKind::DirectoryNotEmpty.into()));
        }
        files.iter().try_for_each(|(file, text)| made.file(&directory.join(file), text))
    });
    let Err((file, source)) = written else { return Ok(()) };
    made.remove();
    Err(match source.kind() {
        io::ErrorKind::DirectoryNotEmpty => ScaffoldError::NotEmpty(file),
        io::ErrorKind::NotADirectory => ScaffoldError::IsFile(file),
        _ => ScaffoldError::File { file, source },
    })
}

type Step<T> = Result<T, (PathBuf, io::Error)>;

fn is_empty(directory: &Path) -> Step<bool> {
    let mut entries = fs::read_dir(directory).map_err(|error| (directory.to_owned(), error))?;
    Ok(entries.next().is_none())
}

/// What there was not before: to be removed if the rest fails.
#[derive(Debug, Default)]
struct Made {
    paths: Vec<(PathBuf, bool)>,
}

impl Made {
    /// Makes the directory and what is missing above it.
    fn directory(&mut self, directory: &Path) -> Step<()> {
        if directory.is_dir() {
            return Ok(());
        }
        if directory.exists() {
            return Err((directory.to_owned(), io::ErrorKind::NotADirectory.into()));
        }
        if let Some(parent) = directory.parent() {
            self.directory(parent)?;
        }
        match fs::create_dir(directory) {
            Ok(()) => self.paths.push((directory.to_owned(), true)),
            // Somebody else was faster; what they put there is theirs.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err((directory.to_owned(), error)),
        }
        Ok(())
    }

    fn file(&mut self, file: &Path, text: &str) -> Step<()> {
        let failed = |error| (file.to_owned(), error);
        if let Some(parent) = file.parent() {
            self.directory(parent)?;
        }
        let mut opened = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
        self.paths.push((file.to_owned(), false));
        opened.write_all(text.as_bytes()).map_err(failed)
    }

    /// Only what was made here, and directories only if nobody else put anything there.
    fn remove(self) {
        for (path, is_directory) in self.paths.into_iter().rev() {
            let _ = if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests;
