//! `farebox policy new|build|test|check`: what an author does, and how it is shown.
//!
//! Exit codes are those of all commands. With `--json`, stdout is one document; sentences go to stderr.

mod checking;
mod differences;
mod testing;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;

use super::exit::Exit;
use super::policy_build::{self, BuildError, Toolchain};
use super::{Failure, tell, tell_json};
use crate::authoring::{self, BadCase, ScaffoldError, Surroundings};
use crate::cli::terminal::takes_utf8;
use crate::config;

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Begin a policy: a crate that builds, passes its tests and prices something at once.
    New {
        /// A name, or a path whose last part is the name.
        #[arg(value_name = "NAME|DIR")]
        target: PathBuf,
        /// The folder `sdk-wasm` of a Farebox checkout; by default that of the nearest checkout above, else the one that
        /// this binary was built from. A member of a workspace of policies needs none.
        #[arg(long, value_name = "DIR")]
        sdk: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Build policies into components, reproducibly: the same source gives the same bytes in any folder.
    Build {
        /// Directories of policy crates, or core modules (`.wasm`) that were compiled elsewhere.
        #[arg(value_name = "DIR|FILE.wasm", default_value = ".")]
        inputs: Vec<PathBuf>,
        /// Where <name>.wasm goes.
        #[arg(long, value_name = "DIR", default_value = "target/policies")]
        out: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run every golden case natively and in the sandbox, and compare; show fuel and memory.
    Test {
        /// Directories of policy crates.
        #[arg(value_name = "DIR", default_value = ".")]
        crates: Vec<PathBuf>,
        /// Write what the policy says into its cases, for you to read the difference; UPDATE_CASES=1 does the same.
        #[arg(long)]
        update: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell what can be told of a policy without a plan: imports, contract, schema, determinism, fuel, needless reads.
    Check {
        /// Components, or directories of policy crates, which are built first.
        #[arg(value_name = "DIR|FILE.wasm", default_value = ".")]
        inputs: Vec<PathBuf>,
        /// Golden cases of the one component that is named; a crate has them in `cases`.
        #[arg(long, value_name = "DIR")]
        cases: Option<PathBuf>,
        /// Let warnings fail too.
        #[arg(long)]
        deny_warnings: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(command: PolicyCommand) -> Result<(), Failure> {
    let machine = Machine::here()?;
    match command {
        PolicyCommand::New { target, sdk, json } => new(&machine, &target, sdk.as_deref(), json),
        PolicyCommand::Build { inputs, out, json } => build(&machine, &inputs, &out, json),
        PolicyCommand::Test { crates, update, json } => testing::run(&machine, &crates, update || machine.update, json),
        PolicyCommand::Check { inputs, cases, deny_warnings, json } => {
            let wanted = checking::Wanted { inputs: &inputs, cases: cases.as_deref(), deny_warnings, json };
            checking::run(&machine, wanted)
        }
    }
}

/// What the tools have to know of their surroundings.
struct Machine {
    here: PathBuf,
    cargo_home: PathBuf,
    /// `CARGO_TARGET_DIR`
    target_dir: Option<PathBuf>,
    /// `UPDATE_CASES`
    update: bool,
    /// Whether readers of stdout take UTF-8.
    is_utf8: bool,
}

impl Machine {
    fn here() -> Result<Self, Failure> {
        let here = std::env::current_dir().map_err(Failure::new)?;
        let variable = |wanted: &str| {
            config::environment().find(|(name, value)| name == wanted && !value.is_empty()).map(|(_, value)| value)
        };
        Ok(Self {
            cargo_home: config::cargo_home(),
            target_dir: variable("CARGO_TARGET_DIR").map(|directory| here.join(directory)),
            update: variable("UPDATE_CASES").as_deref() == Some("1"),
            is_utf8: takes_utf8(config::environment()),
            here,
        })
    }

    fn toolchain(&self) -> Toolchain<'_> {
        Toolchain { cargo_home: &self.cargo_home, target_dir: self.target_dir.as_deref() }
    }
}

fn new(machine: &Machine, target: &Path, sdk: Option<&Path>, json: bool) -> Result<(), Failure> {
    // The checkout that this binary was built from, if it is still there.
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let surroundings = Surroundings { here: &machine.here, sdk, built_from };
    let created = authoring::create(target, surroundings)?;
    if json {
        let files: Vec<PathBuf> = created.files.iter().map(|file| target.join(file)).collect();
        return print_json(&serde_json::json!({ "name": created.name, "files": files, "sdk": created.sdk }));
    }
    let files: String = created.files.iter().map(|file| format!("{}\n", target.join(file).display())).collect();
    let place = match created.sdk {
        Some(sdk) => format!("a package of its own, with the SDK in {}", sdk.display()),
        None => "a member of the workspace around it".to_owned(),
    };
    let next = target.display();
    tell(&format!("{files}policy `{}` is {place}\nnext: farebox policy test {next}\n", created.name))
}

fn build(machine: &Machine, inputs: &[PathBuf], out: &Path, json: bool) -> Result<(), Failure> {
    let built = policy_build::build(machine.toolchain(), inputs, out)?;
    if json {
        return print_json(&serde_json::json!({ "policies": built }));
    }
    let line = |policy: &policy_build::BuiltPolicy| {
        format!("{}  {} bytes  sha256 {}\n", policy.file.display(), policy.bytes, policy.sha256)
    };
    tell(&built.iter().map(line).collect::<String>())
}

impl From<ScaffoldError> for Failure {
    fn from(error: ScaffoldError) -> Self {
        let exit = match error {
            ScaffoldError::Name { .. } | ScaffoldError::NoSdk => Exit::Usage,
            ScaffoldError::NoSdkThere { .. } => Exit::NoInput,
            _ => Exit::Failed,
        };
        Self::new(error).ending(exit)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let exit = match error {
            BuildError::NoInput { .. } | BuildError::Unreadable { .. } => Exit::NoInput,
            BuildError::Itself { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        Self::new(error).ending(exit)
    }
}

impl From<BadCase> for Failure {
    fn from(error: BadCase) -> Self {
        let exit = if matches!(error, BadCase::Unreadable { .. }) { Exit::NoInput } else { Exit::Failed };
        Self::new(error).ending(exit)
    }
}

fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    tell_json(&serde_json::to_string_pretty(document).map_err(Failure::new)?)
}

/// `23104` as `23 104`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && digits.len().saturating_sub(position).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        let text = [0, 999, 1_000, 23_104, 2_000_000].map(grouped);
        assert_eq!(text, ["0", "999", "1 000", "23 104", "2 000 000"]);
    }
}
