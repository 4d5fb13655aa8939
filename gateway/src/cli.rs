//! The command line: `farebox serve`, `demo`, `quote`, `check`, `policy new|build|test|check`, `usage watch`. `docs/cli.md` is its manual.
//!
//! What was asked for goes to stdout; errors and warnings go to stderr, as sentences. `exit` has the exit codes.

mod bar;
mod check;
mod client;
mod columns;
mod demo;
mod exit;
mod json_file;
mod local_sandbox;
mod places;
mod policy;
pub mod policy_build;
mod quote;
mod quote_table;
mod refusal;
mod serve;
mod snapshot_file;
mod terminal;
mod usage;

use std::error::Error;
use std::io::{ErrorKind, Write as _, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::causes::with_causes;
use crate::printable::{printable_json, printable_lines};
use exit::Exit;
use places::Places;

/// Prices GPU compute with sandboxed policies on live utilisation.
#[derive(Debug, Parser)]
#[command(name = "farebox", version, about, after_help = exit::help())]
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
    /// Serve the fixtures with an agent on a recording, print one quote, and go on serving.
    Demo(demo::Options),
    /// Price a request, here or by a running gateway, and show the quote.
    Quote(Box<quote::Options>),
    /// Load everything in a data directory, tell every problem, and exit.
    Check(check::Options),
    /// Write policies: begin one, build it, test it, check it.
    Policy {
        #[command(subcommand)]
        command: policy::PolicyCommand,
    },
    /// Look at live usage.
    Usage {
        #[command(subcommand)]
        command: usage::UsageCommand,
    },
}

/// A sentence for stderr, and how to end.
#[derive(Debug)]
struct Failure {
    sentence: String,
    exit: Exit,
}

impl Failure {
    /// An error and what caused it.
    fn new(error: impl Error) -> Self {
        Self::saying(with_causes(&error))
    }

    fn saying(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), exit: Exit::Failed }
    }

    /// What cannot be done, and the error that stands in the way.
    fn because(sentence: &str, error: impl Error) -> Self {
        Self::saying(format!("{sentence}: {}", with_causes(&error)))
    }

    /// Bad usage or configuration.
    fn usage(error: impl Error) -> Self {
        Self::new(error).ending(Exit::Usage)
    }

    fn ending(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Says first what it is about.
    fn about(self, name: &str) -> Self {
        Self { sentence: format!("{name}: {}", self.sentence), ..self }
    }
}

/// Writes to stdout. That nobody reads on is nobody's problem.
fn tell(text: &str) -> Result<(), Failure> {
    told(text).map(drop)
}

/// Writes to stdout; false where nobody reads on.
fn told(text: &str) -> Result<bool, Failure> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::because("stdout cannot be written", error)),
    }
}

/// Writes a JSON document to stdout.
fn tell_json(json: &str) -> Result<(), Failure> {
    tell(&json_line(json))
}

/// A JSON document for stdout: byte for byte to a program; to a terminal without anything that it would obey.
fn json_line(json: &str) -> String {
    let json = if terminal::is_terminal() { printable_json(json) } else { json.to_owned() };
    format!("{json}\n")
}

/// `1 case`, `2 cases`
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A sentence that stops nothing.
fn warn(sentence: &str) {
    complain(&format!("warning: {sentence}"));
}

/// To stderr. Where that cannot be written either, the exit code still tells.
fn complain(sentence: &str) {
    let _ = writeln!(stderr().lock(), "farebox: {}", printable_lines(sentence));
}

pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are errors of clap's too, told on stdout. A closed stdout is nobody's problem.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    let done = match arguments.command {
        Command::Serve { config } => serve::run(config.as_deref()),
        Command::Demo(options) => demo::run(&options),
        Command::Quote(options) => quote::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Policy { command } => policy::run(command),
        Command::Usage { command } => usage::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { sentence, exit }) => {
            complain(&sentence);
            exit.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use clap::CommandFactory as _;

    use super::*;

    /// What the manual lacks of a command and those below it: its row, its section, and in there an option or an input.
    fn lacking(path: &str, command: &clap::Command, manual: &str) -> Vec<String> {
        if command.has_subcommands() {
            let below = command.get_subcommands();
            return below.flat_map(|it| lacking(&format!("{path} {}", it.get_name()), it, manual)).collect();
        }
        let row = format!("| `{path}");
        let heading = format!("\n## `{path}`\n");
        let mut lacking = Vec::new();
        if !manual.contains(&row) {
            lacking.push(format!("a row for `{path}`"));
        }
        let Some((_, section)) = manual.split_once(&heading) else { return vec![format!("a section `{path}`")] };
        let section = section.split("\n## ").next().unwrap_or_default();
        for argument in command.get_arguments() {
            let names = match argument.get_long() {
                Some(option) => vec![format!("--{option}")],
                None => argument.get_value_names().unwrap().iter().map(ToString::to_string).collect(),
            };
            let is_there = |name: &String| [' ', '`'].iter().any(|end| section.contains(&format!("`{name}{end}")));
            lacking.extend(names.into_iter().filter(|name| !is_there(name)).map(|name| format!("{name} of {path}")));
        }
        lacking
    }

    #[test]
    fn the_manual_has_every_command_option_and_input() {
        let manual = include_str!("../../docs/cli.md").replace("\\|", "|");
        assert_eq!(lacking("farebox", &Arguments::command(), &manual), Vec::<String>::new());
        // And would say so if it had not.
        let without = manual.replacen("`--deny-warnings`", "", 1);
        assert_eq!(lacking("farebox", &Arguments::command(), &without), ["--deny-warnings of farebox policy check"]);
    }

    #[test]
    fn things_are_counted_in_words() {
        assert_eq!([counted(1, "case"), counted(0, "case"), counted(2, "case")], ["1 case", "0 cases", "2 cases"]);
    }

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
