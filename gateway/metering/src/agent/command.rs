//! The command line of `farebox-agent`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{ArgGroup, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::exit;
use crate::generator;

/// Meters this host's GPUs by tenant and job, and tells the gateway.
///
/// Settings come from flags, else from FAREBOX_AGENT_… variables, else from the file.
#[derive(Debug, Parser)]
#[command(name = "farebox-agent", version, args_conflicts_with_subcommands = true)]
#[command(group = ArgGroup::new("mode").args(["once", "check", "record", "replay"]))]
pub(super) struct Command {
    /// The configuration, TOML; `farebox-agent.toml` shows every setting.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print what is seen of the GPUs as a table, and end.
    #[arg(long)]
    pub(super) once: bool,
    /// Check the configuration with its assignments, tell all problems at once, and end.
    #[arg(long)]
    pub(super) check: bool,
    /// Meter, and write what is read into a new file as well.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Meter a recording in the place of this host's GPUs.
    #[arg(long, value_name = "FILE")]
    pub(super) replay: Option<PathBuf>,
    /// How many seconds of the recording pass in one.
    #[arg(long, value_name = "N", requires = "replay", default_value = "1")]
    pub(super) speed: String,
    /// Replay from the beginning again and again.
    #[arg(long = "loop", requires = "replay")]
    pub(super) looped: bool,
    /// End when standard input does: for whoever starts the agent and may not live to stop it.
    #[arg(long)]
    pub(super) stop_with_stdin: bool,
    #[command(subcommand)]
    pub(super) other: Option<Other>,
    #[command(flatten)]
    settings: Settings,
}

/// What is done in the place of metering.
#[derive(Debug, Subcommand)]
pub(super) enum Other {
    /// Write a recording of GPUs that never were, as busy as published fleets.
    Generate(Generate),
}

#[derive(Args, Debug)]
pub(super) struct Generate {
    #[command(flatten)]
    pub(super) options: generator::Options,
    /// The recording, a new file.
    #[arg(long, value_name = "FILE")]
    pub(super) output: PathBuf,
}

/// Each overrides the setting of its name.
#[derive(Args, Debug)]
#[command(next_help_heading = "Settings")]
struct Settings {
    /// This host's name in snapshots.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The gateway, such as http://127.0.0.1:8080; "" for none.
    #[arg(long, value_name = "URL")]
    gateway: Option<String>,
    /// Redis in the gateway's place, such as redis://127.0.0.1:6379; a password belongs in `redis.password_file`.
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
    /// Between two readings: 100ms to 60s.
    #[arg(long, value_name = "DURATION")]
    tick: Option<String>,
    /// NVML, where the loader does not find it.
    #[arg(long, value_name = "FILE")]
    library: Option<String>,
    /// Where jobs and undelivered snapshots are kept.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// Where job calls are taken; loopback only.
    #[arg(long, value_name = "ADDRESS")]
    control_listen: Option<String>,
    /// A further port with metrics and health only.
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// json or text.
    #[arg(long = "log-format", value_name = "FORMAT")]
    format: Option<String>,
    /// error, warn, info, debug or trace.
    #[arg(long = "log-level", value_name = "LEVEL")]
    level: Option<String>,
}

impl Command {
    /// # Errors
    /// What clap says, help and version included.
    pub(super) fn parse_from(arguments: impl Iterator<Item = std::ffi::OsString>) -> Result<Self, clap::Error> {
        let command = Self::command().after_help(exit::help());
        command.try_get_matches_from(arguments).and_then(|matches| Self::from_arg_matches(&matches))
    }

    /// By the setting that each sets.
    pub(super) fn flags(&self) -> BTreeMap<&'static str, String> {
        let Settings {
            node,
            gateway,
            redis_url,
            tick,
            library,
            state_dir,
            control_listen,
            metrics_listen,
            format,
            level,
        } = &self.settings;
        let flags = [
            ("node", node),
            ("gateway", gateway),
            ("redis.url", redis_url),
            ("tick", tick),
            ("library", library),
            ("state_dir", state_dir),
            ("control_listen", control_listen),
            ("metrics_listen", metrics_listen),
            ("log.format", format),
            ("log.level", level),
        ];
        flags.into_iter().filter_map(|(setting, flag)| Some((setting, flag.clone()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Command, clap::Error> {
        Command::parse_from(["farebox-agent"].into_iter().chain(arguments.split_whitespace()).map(Into::into))
    }

    #[test]
    fn modes_exclude_each_other_and_replays_have_their_own_flags() {
        for wrong in
            ["--once --check", "--record a --replay b", "--once --replay a", "--speed 60", "--loop", "--replay", "x"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let command = parse("--replay a.jsonl --speed 60 --loop --tick 2s").unwrap();
        assert_eq!((command.speed.as_str(), command.looped), ("60", true));
        assert_eq!(command.flags(), BTreeMap::from([("tick", "2s".to_owned())]));
        Command::command().debug_assert();
    }

    #[test]
    fn help_has_the_exit_codes() {
        let help = parse("--help").unwrap_err().to_string();
        assert!(
            help.contains("Exit codes:") && help.contains("  69  ") && help.contains("--state-dir <DIR>"),
            "{help}"
        );
    }
}
