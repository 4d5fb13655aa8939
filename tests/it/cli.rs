//! The command line as a process: what it says where, and how it ends.

mod checking;
mod demo;
mod exit_codes;
mod quoting;
mod watching;

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::harness::{policies, root};

/// A run that came to its end.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

/// Runs `farebox` in the repository's root over the policies of these tests, with nothing else in its environment.
pub fn farebox(arguments: &[&str]) -> Ran {
    farebox_with(arguments, &[], "")
}

pub fn farebox_with(arguments: &[&str], environment: &[(&str, &str)], stdin: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_farebox-under-test"))
        .args(arguments)
        .current_dir(root())
        .env_clear()
        .env("FAREBOX_POLICIES_DIR", policies())
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that does not read its input closes it; that is its own business.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
