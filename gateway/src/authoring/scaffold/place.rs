//! Where a policy is to lie: as a member of a workspace of policies, or as a package of its own; and where the SDK is.

use std::fs;
use std::path::{Component, Path, PathBuf};

use toml::{Table, Value};

use super::ScaffoldError;

const SDK: &str = "farebox-sdk";

/// What a new policy has to do with the workspace around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Members inherit, so that all policies of a workspace are built alike.
    Member { workspace: PathBuf },
    /// A workspace of its own, with the SDK at a path.
    Alone { sdk: PathBuf },
}

/// Finds the place of a policy in `directory`, an absolute path.
pub(super) fn of(directory: &Path, sdk: Option<&Path>, built_from: &Path) -> Result<Place, ScaffoldError> {
    if let Some((workspace, manifest)) = workspace_around(directory)
        && is_member(directory, &workspace, &manifest)
    {
        let inherits = |table: &str, key: &str| {
            manifest.get("workspace").and_then(|it| it.get(table)).and_then(|it| it.get(key)).is_some()
        };
        if inherits("dependencies", SDK) && inherits("package", "edition") {
            return Ok(Place::Member { workspace });
        }
        return Err(ScaffoldError::ForeignWorkspace { workspace });
    }
    find_sdk(directory, sdk, built_from).map(|sdk| Place::Alone { sdk })
}

/// The nearest workspace whose root is above the directory.
fn workspace_around(directory: &Path) -> Option<(PathBuf, Table)> {
    directory.ancestors().skip(1).find_map(|folder| {
        let manifest = manifest(folder)?;
        manifest.contains_key("workspace").then(|| (folder.to_owned(), manifest))
    })
}

/// True if a pattern of `members` names the directory; `*` stands for one name, as far as Cargo's patterns are needed.
fn is_member(directory: &Path, workspace: &Path, manifest: &Table) -> bool {
    let Ok(inside) = directory.strip_prefix(workspace) else { return false };
    let names: Vec<_> = inside.components().map(|name| name.as_os_str().to_string_lossy()).collect();
    let list = |key: &str| {
        let list = manifest.get("workspace").and_then(|it| it.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    };
    let matches = |pattern: &str| {
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        parts.len() == names.len() && parts.iter().zip(&names).all(|(part, name)| *part == "*" || part == name)
    };
    list("members").any(matches) && !list("exclude").any(matches)
}

/// The SDK that was named, else the one of the nearest checkout above, else that of the checkout which built this binary.
fn find_sdk(directory: &Path, named: Option<&Path>, built_from: &Path) -> Result<PathBuf, ScaffoldError> {
    let canonical = |path: &Path| path.canonicalize().ok().filter(|path| is_sdk(path));
    if let Some(named) = named {
        // A checkout is taken for its SDK.
        let found = canonical(named).or_else(|| canonical(&named.join("sdk-wasm")));
        return found.ok_or_else(|| ScaffoldError::NoSdkThere { path: named.to_owned() });
    }
    let above = directory.ancestors().map(|folder| folder.join("sdk-wasm"));
    above.chain([built_from.join("sdk-wasm")]).find_map(|path| canonical(&path)).ok_or(ScaffoldError::NoSdk)
}

fn is_sdk(path: &Path) -> bool {
    let name = manifest(path).and_then(|manifest| Some(manifest.get("package")?.get("name")?.as_str()? == SDK));
    name == Some(true)
}

fn manifest(folder: &Path) -> Option<Table> {
    fs::read_to_string(folder.join("Cargo.toml")).ok()?.parse().ok()
}

/// Names of all crates in a lock file.
pub(super) fn locked_crates(lock: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("name = \"")?.strip_suffix('"')?.to_owned());
    lock.lines().filter_map(name).collect()
}

/// The path without `.` and `..`, not touching the disk: the directory may not be there yet.
pub(super) fn normalised(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_those_that_the_patterns_name() {
        let manifest: Table =
            "[workspace]\nmembers = [\"gateway\", \"policies/*\"]\nexclude = [\"policies/old\"]".parse().unwrap();
        for (directory, member) in [
            ("/w/policies/new", true),
            ("/w/policies/old", false),
            ("/w/policies/a/b", false),
            ("/w/new", false),
            ("/elsewhere/policies/new", false),
        ] {
            assert_eq!(is_member(Path::new(directory), Path::new("/w"), &manifest), member, "{directory}");
        }
    }

    #[test]
    fn paths_are_cleaned_without_the_disk() {
        assert_eq!(normalised(Path::new("/a/./b/../c/")), Path::new("/a/c"));
        assert_eq!(locked_crates("[[package]]\nname = \"serde\"\nversion = \"1\"\n"), ["serde"]);
    }
}
