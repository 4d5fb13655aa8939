//! Builds policies from source: `cargo` makes core modules, the sandbox wraps them as components.
//!
//! The same source gives the same bytes wherever it lies: paths that would end up in panic messages are replaced, and
//! nothing of the machine's own compiler flags gets in. The environment is the caller's business: what must be known of
//! it comes in as [`Toolchain`].

mod native;
mod package;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use farebox_sandbox::{Limits, LoadError, Sandbox, SandboxError, componentize};
use sha2::{Digest as _, Sha256};

pub use native::{NativeRun, run_native_tests};
pub use package::Package;
use package::{Workspace, cargo, complaint, package_name};

use crate::hex::hex;

const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "policy";

/// In front of data and arena. Describing, configuring and evaluating the shipped policies needs under 6 KiB; a guest that
/// needs more than this traps.
const STACK_BYTES: u32 = 16 * 1024;

/// Where things lie on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Toolchain<'a> {
    /// Where Cargo keeps registry sources, `~/.cargo` by default.
    pub cargo_home: &'a Path,
    /// Where all workspaces build, if not each in a `target` of its own.
    pub target_dir: Option<&'a Path>,
}

/// A component on disk.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BuiltPolicy {
    /// The package's name, which is the policy's; of a module its file's.
    pub name: String,
    pub file: PathBuf,
    /// Size of the component, in bytes.
    pub bytes: usize,
    /// Of the component, as 64 hex digits.
    pub sha256: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("`{}` is not there; is the path right from here?", .path.display())]
    NoInput { path: PathBuf },
    #[error("`{}` is no package of a policy; name a directory with a `Cargo.toml`", .directory.display())]
    NoPackage { directory: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("two policies are named `{name}`; a policy's name is its address, so rename one")]
    SameName { name: String },
    #[error("`cargo` does not start; install Rust from rustup.rs")]
    NoCargo(#[source] std::io::Error),
    #[error("this toolchain cannot build policies yet; run `rustup target add wasm32-unknown-unknown`")]
    NoTarget,
    #[error("`cargo {subcommand}` fails:\n{output}")]
    Cargo { subcommand: &'static str, output: String },
    #[error("what `cargo metadata` answers is no JSON")]
    Metadata(#[source] serde_json::Error),
    #[error("the policies do not compile:\n{output}")]
    Compile { output: String },
    #[error("package `{name}` makes no WebAssembly module; give it `[lib] crate-type = [\"cdylib\", \"rlib\"]`")]
    NoModule { name: String },
    #[error("`{name}` is no policy")]
    Wrap { name: String, source: LoadError },
    #[error("`{}` would be overwritten by its own component; choose another folder with `--out`", .file.display())]
    Itself { file: PathBuf },
    #[error("`{}` cannot be read", .file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
    #[error("`{}` cannot be written", .file.display())]
    Unwritable { file: PathBuf, source: std::io::Error },
    #[error("the module cannot be tried")]
    NoSandbox(#[source] SandboxError),
}

/// What becomes a component.
#[derive(Clone, Debug)]
enum Source {
    Package(Package),
    /// A core module that was compiled elsewhere, or a component.
    Module {
        name: String,
        file: PathBuf,
    },
}

impl Source {
    fn find(input: &Path) -> Result<Self, BuildError> {
        if input.is_file() && input.extension().is_some_and(|extension| extension == "wasm") {
            let name = input.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Self::Module { name, file: input.to_owned() });
        }
        Package::find(input).map(Self::Package)
    }

    fn name(&self) -> &str {
        match self {
            Self::Package(package) => &package.name,
            Self::Module { name, .. } => name,
        }
    }
}

/// Builds `inputs`, directories of packages and files of core modules, into `<out>/<name>.wasm`, in that order. Cargo's
/// output is shown only on failure, within [`BuildError::Compile`].
///
/// # Errors
/// The first thing that stands in the way. Nothing is written unless everything compiles.
pub fn build(toolchain: Toolchain<'_>, inputs: &[PathBuf], out: &Path) -> Result<Vec<BuiltPolicy>, BuildError> {
    let mut names = BTreeSet::new();
    let mut sources = Vec::with_capacity(inputs.len());
    for input in inputs {
        let source = Source::find(input)?;
        if !names.insert(source.name().to_owned()) {
            return Err(BuildError::SameName { name: source.name().to_owned() });
        }
        sources.push(source);
    }
    let modules = compile_all(toolchain, &sources)?;
    fs::create_dir_all(out).map_err(|source| BuildError::Unwritable { file: out.to_owned(), source })?;
    sources.into_iter().map(|source| wrap(source, &modules, out)).collect()
}

/// Workspace by workspace. Gives each package's core module.
fn compile_all(toolchain: Toolchain<'_>, sources: &[Source]) -> Result<BTreeMap<String, PathBuf>, BuildError> {
    let mut by_workspace: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for source in sources {
        if let Source::Package(package) = source {
            by_workspace.entry(&package.workspace).or_default().push(&package.name);
        }
    }
    let mut modules = BTreeMap::new();
    for (root, names) in by_workspace {
        let workspace = Workspace::read(root, toolchain)?;
        modules.extend(compile(toolchain, &workspace, &names)?);
    }
    Ok(modules)
}

/// All packages of a workspace in one run, so that Cargo can build them side by side.
fn compile(
    toolchain: Toolchain<'_>,
    workspace: &Workspace,
    names: &[&str],
) -> Result<BTreeMap<String, PathBuf>, BuildError> {
    let mut cargo = cargo(&workspace.root);
    cargo
        .args(["build", "--profile", PROFILE, "--target", TARGET, "--message-format", "json-render-diagnostics"])
        .arg("--target-dir")
        .arg(&workspace.target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags(toolchain, workspace));
    for name in names {
        cargo.args(["--package", name]);
    }
    let output = cargo.output().map_err(BuildError::NoCargo)?;
    if !output.status.success() {
        if !has_target(&workspace.root) {
            return Err(BuildError::NoTarget);
        }
        return Err(BuildError::Compile { output: complaint(&output) });
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(module).collect())
}

/// Separated by the unit separator, so that paths may contain spaces. They replace all other sources of flags. Of two
/// prefixes that fit, the later one counts.
fn rust_flags(toolchain: Toolchain<'_>, workspace: &Workspace) -> String {
    let remap = |path: &Path, name: &str| format!("--remap-path-prefix={}={name}", path.display());
    let mut flags = vec![
        format!("-Clink-arg=-zstack-size={STACK_BYTES}"),
        remap(toolchain.cargo_home, "/cargo"),
        remap(&workspace.root, "/policies"),
        remap(&workspace.target_dir, "/target"),
    ];
    flags.extend(workspace.outside.iter().map(|(name, path)| remap(path, &format!("/{name}"))));
    flags.join("\u{1f}")
}

/// The module that a line of Cargo's JSON announces, and the name of the package that it is made of. That is looked up
/// in the manifest: Cargo's own ids of packages are no stable text.
fn module(line: &str) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message.get("reason")?.as_str()? != "compiler-artifact" {
        return None;
    }
    let files = message.get("filenames")?.as_array()?.iter().filter_map(|file| file.as_str());
    let file = files.map(PathBuf::from).find(|file| file.extension().is_some_and(|extension| extension == "wasm"))?;
    let directory = Path::new(message.get("manifest_path")?.as_str()?).parent()?;
    Some((package_name(directory).ok()?, file))
}

/// Asked only when a build failed: one more process on the way to a better message.
fn has_target(workspace: &Path) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(workspace).args(["--print", "target-libdir", "--target", TARGET]).stdin(Stdio::null());
    let Ok(output) = rustc.output() else { return false };
    Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
}

fn wrap(source: Source, modules: &BTreeMap<String, PathBuf>, out: &Path) -> Result<BuiltPolicy, BuildError> {
    let is_foreign = matches!(source, Source::Module { .. });
    let (name, module) = match source {
        Source::Module { name, file } => (name, Some(file)),
        Source::Package(package) => {
            let module = modules.get(&package.name).cloned();
            (package.name, module)
        }
    };
    let Some(module) = module else { return Err(BuildError::NoModule { name }) };
    let file = out.join(format!("{name}.wasm"));
    if file.canonicalize().is_ok_and(|file| Some(file) == module.canonicalize().ok()) {
        return Err(BuildError::Itself { file });
    }
    let core = fs::read(&module).map_err(|source| BuildError::Unreadable { file: module, source })?;
    if is_foreign {
        // What the SDK builds is a policy if it wraps; what comes from elsewhere is loaded once to see.
        let sandbox = Sandbox::new(Limits::standard()).map_err(BuildError::NoSandbox)?;
        if let Err(source) = sandbox.load(&core) {
            return Err(BuildError::Wrap { name, source });
        }
    }
    let component = match componentize(&core) {
        Ok(component) => component,
        Err(source) => return Err(BuildError::Wrap { name, source }),
    };
    write(&file, &component)?;
    let sha256 = hex(&Sha256::digest(&component));
    Ok(BuiltPolicy { name, file, bytes: component.len(), sha256 })
}

/// Under another name first: whoever loads the folder meanwhile finds the old component or the new one, whole.
fn write(file: &Path, component: &[u8]) -> Result<(), BuildError> {
    let unwritten = file.with_extension(format!("wasm-{}", std::process::id()));
    let written = fs::write(&unwritten, component).and_then(|()| fs::rename(&unwritten, file));
    written.map_err(|source| {
        let _ = fs::remove_file(&unwritten);
        BuildError::Unwritable { file: file.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_among_cargos_messages() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let line = |reason: &str, file: &str| {
            let manifest = directory.join("Cargo.toml");
            serde_json::json!({"reason": reason, "manifest_path": manifest, "filenames": ["/t/a.rlib", file]})
                .to_string()
        };
        let found = module(&line("compiler-artifact", "/t/a_b.wasm"));
        assert_eq!(found, Some((env!("CARGO_PKG_NAME").to_owned(), PathBuf::from("/t/a_b.wasm"))));
        assert_eq!(module(&line("compiler-artifact", "/t/a.rmeta")), None);
        assert_eq!(module(&line("build-finished", "/t/a_b.wasm")), None);
        assert_eq!(module("no json"), None);
    }

    #[test]
    fn flags_survive_spaces_in_paths() {
        let toolchain = Toolchain { cargo_home: Path::new("/h/.cargo"), target_dir: None };
        let workspace = Workspace {
            root: PathBuf::from("/a b/c"),
            target_dir: PathBuf::from("/a b/c/target/policies-build"),
            outside: vec![("farebox-sdk".to_owned(), PathBuf::from("/f/sdk-wasm"))],
        };
        let flags = rust_flags(toolchain, &workspace);
        let flags: Vec<&str> = flags.split('\u{1f}').collect();
        assert_eq!(
            flags,
            [
                "-Clink-arg=-zstack-size=16384",
                "--remap-path-prefix=/h/.cargo=/cargo",
                "--remap-path-prefix=/a b/c=/policies",
                "--remap-path-prefix=/a b/c/target/policies-build=/target",
                "--remap-path-prefix=/f/sdk-wasm=/farebox-sdk",
            ]
        );
    }
}
