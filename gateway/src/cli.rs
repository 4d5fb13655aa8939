//! The command line: `farebox serve`, `demo`, `check`, `policy new|build|test|check`.
//!
//! Exit codes: 0 done, 1 an error that a sentence on stderr explains, 64 bad usage or configuration.

mod check;
mod demo;
mod policy;
pub mod policy_build;
mod quote_table;
mod serve;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::causes::with_causes;

/// Prices GPU compute with sandboxed policies on live utilisation.
#[derive(Debug, Parser)]
#[command(name = "farebox", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve quotes over HTTP until SIGTERM or SIGINT.
    Serve {
        /// TOML file; see farebox.example.toml. Without it, defaults and FAREBOX_… variables.
        #[arg(long)]
        config: Option<PathBuf>,
    },
    /// Serve the fixtures with a live snapshot, print one quote, and go on serving.
    Demo {
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Directory with tenants/, price-books/ and plans/.
        #[arg(long, default_value = "fixtures")]
        data: PathBuf,
        /// Directory with the built policies.
        #[arg(long, default_value = "target/policies")]
        policies: PathBuf,
    },
    /// Load everything in a data directory, tell every problem, and exit.
    Check {
        /// Directory with tenants/, price-books/ and plans/.
        data: PathBuf,
        /// Directory with the built policies.
        #[arg(long, default_value = "target/policies")]
        policies: PathBuf,
    },
    /// Write policies: begin one, build it, test it, check it.
    Policy {
        #[command(subcommand)]
        command: policy::PolicyCommand,
    },
}

/// A sentence for stderr, and the exit code.
#[derive(Debug)]
struct Failure {
    sentence: String,
    code: u8,
}

impl Failure {
    /// An error and what caused it.
    fn new(error: impl Error) -> Self {
        Self::saying(with_causes(&error))
    }

    fn saying(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), code: 1 }
    }

    /// What cannot be done, and the error that stands in the way.
    fn because(sentence: &str, error: impl Error) -> Self {
        Self::saying(format!("{sentence}: {}", with_causes(&error)))
    }

    /// Bad usage or configuration: sysexits' EX_USAGE.
    fn usage(error: impl Error) -> Self {
        Self { code: 64, ..Self::new(error) }
    }
}

pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are errors of clap's too, told on stdout. A closed stdout is nobody's problem.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    let done = match arguments.command {
        Command::Serve { config } => serve::run(config.as_deref()),
        Command::Demo { listen, data, policies } => demo::run(listen, data, policies),
        Command::Check { data, policies } => check::run(&data, &policies),
        Command::Policy { command } => policy::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { sentence, code }) => {
            eprintln!("farebox: {sentence}");
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_failure_tells_its_causes_once() {
        let cause = std::io::Error::other("no more threads");
        assert_eq!(
            Failure::new(crate::app::BuildError::Workers(cause)).sentence,
            "the pricing threads cannot be started: no more threads"
        );
    }

    #[tokio::test]
    async fn a_taken_port_names_the_setting_that_chooses_another() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let sentence = serve::listen(address, "`--listen`").await.unwrap_err().sentence;
        let expected = format!("cannot listen on {address}; choose another address with `--listen`: ");
        assert!(sentence.starts_with(&expected) && sentence.len() > expected.len(), "{sentence}");
    }
}
