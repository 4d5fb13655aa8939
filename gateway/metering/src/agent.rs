//! The agent as a program: the command line, the configuration, and the threads that meter, deliver and answer.
//!
//! - the source reads on a thread of its own (NVML may hang in any call), the meter works on the main one
//! - [`crate::delivery`] has one for the gateway, HTTP has one for all its connections, the log has one for stderr
//!
//! Whoever meters waits for none of the others.

mod command;
mod config;
mod exit;
mod holding;
mod http;
mod jobs;
mod log;
mod metrics;
mod once;
mod run;
mod seen;
mod source;
mod state;
mod token;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::clock::Clock;
use crate::delivery::{Delivery, DeliverySettings, Destination};
use crate::generator::{self, GenerateError};
use crate::meter::{Job, Meter, MeterSettings};
use command::{Command, Generate, Other};
use config::{Config, Inputs};
use exit::Exit;
use http::{Desk, Ports};
use jobs::{Aftermath, JobBook};
use log::Lines;
use metrics::{Metrics, Observed};
use run::{Ended, Metering};
use seen::Published;
use source::{Choice, Source, SourceError};
use state::{Kept, State, StateError};

/// From the stop signal to the end of the process: for the last state to be sent, and for the log to be written. Together
/// under 2 s.
const LAST_DELIVERY: Duration = Duration::from_millis(1500);
const LAST_LINES: Duration = Duration::from_millis(200);
/// `--once` reads this far apart.
const ONCE_TICK: Duration = Duration::from_secs(1);
const NO_REPLAY: &str = "a recording would speak in this host's name; give the recording one with `--node`";
const NO_TOKEN: &str =
    "`control_token_file` is not set: any process on this host, a tenant's own as well, may start and end jobs";

/// What ends the agent, in one sentence, and how.
#[derive(Debug)]
struct Failure {
    sentence: String,
    exit: Exit,
}

/// What a run stands on.
struct Ground {
    source: Source,
    state: Arc<State>,
    ports: Ports,
    clock: Clock,
    lines: Lines,
}

/// The whole program, with the process's arguments and environment.
pub fn run() -> ExitCode {
    let ended = Command::parse_from(std::env::args_os()).map_or_else(said_by_clap, |command| act(&command));
    match ended {
        Ok(code) => code,
        Err(Failure { sentence, exit }) => {
            // That nobody reads stderr is nobody's to mend.
            let shown: String = sentence.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect();
            let _ = writeln!(io::stderr(), "farebox-agent: {shown}");
            exit.into()
        }
    }
}

fn act(command: &Command) -> Result<ExitCode, Failure> {
    if let Some(Other::Generate(generate)) = &command.other {
        return self::generate(generate);
    }
    let inputs = Inputs {
        file: command.config.as_deref(),
        environment: config::environment(),
        flags: command.flags(),
        host_name: config::host_name(),
    };
    let config = Config::load(inputs)
        .map_err(|errors| Failure::new(format!("the configuration is wrong\n{errors}"), Exit::Usage))?;
    if command.check {
        return check(&config);
    }
    if command.once {
        return once(&config);
    }
    meter(command, config)
}

/// The configuration has been checked by being loaded; assignments must fit the devices as well.
fn check(config: &Config) -> Result<ExitCode, Failure> {
    let mut meter = Meter::new(meter_settings(config, 0));
    let refused = config.assignments.iter().filter_map(|job| meter.start(job.clone(), 0).err());
    let refused: Vec<_> = refused.map(|error| format!("assignments: {error}")).collect();
    if !refused.is_empty() {
        return Err(Failure::new(format!("the configuration is wrong\n{}", refused.join("\n")), Exit::Usage));
    }
    let no_token = config.control_token.is_none().then_some(NO_TOKEN);
    for warning in config.warnings.iter().map(String::as_str).chain(no_token) {
        tell(&format!("warning: {warning}\n"))?;
    }
    let delivery = config.to.as_ref().map_or("nothing is delivered".to_owned(), |to| format!("delivers to {to}"));
    tell(&format!("ok: {} as `{}`, {} assignment(s)\n", delivery, config.node, config.assignments.len()))?;
    Ok(ExitCode::SUCCESS)
}

fn generate(asked: &Generate) -> Result<ExitCode, Failure> {
    let path = asked.output.display();
    let cannot = |error: io::Error| Failure::new(format!("`{path}` cannot be made: {error}"), Exit::CannotCreate);
    let mut file = io::BufWriter::new(File::create_new(&asked.output).map_err(cannot)?);
    let ticks = generator::run(&asked.options, &mut file).map_err(|error| {
        // What was begun is no recording.
        let _ = std::fs::remove_file(&asked.output);
        let exit = if matches!(error, GenerateError::Write(_)) { Exit::CannotCreate } else { Exit::Usage };
        Failure::new(with_causes(&error), exit)
    })?;
    tell(&format!("{path}: {ticks} ticks\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn once(config: &Config) -> Result<ExitCode, Failure> {
    let choice = Choice::Live { library: config.library.clone(), tick: ONCE_TICK, record: None };
    let Source { mut reader, .. } = source::open(&choice, &config.node, &Clock::system())?;
    let tick = once::look(reader.as_mut()).map_err(|error| Failure::new(error.to_string(), Exit::Unavailable))?;
    let mut jobs = config.assignments.clone();
    jobs.extend(State::jobs_in(&config.state_dir.path));
    tell(&once::table(&config.node, &tick, &jobs))?;
    Ok(ExitCode::SUCCESS)
}

fn meter(command: &Command, config: Config) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::new(error.to_string(), Exit::Failed);
    let lines = Lines::to(io::stderr()).map_err(failed)?;
    // INVARIANT: nobody has set one before.
    let _ = tracing::subscriber::set_global_default(log::subscriber(config.log, lines.clone()));
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if command.replay.is_none() && config.control_token.is_none() {
        tracing::warn!("{NO_TOKEN}");
    }
    may_replay(command, &config)?;
    // What is replayed never was: this host's own agent and its jobs have nothing to do with it.
    let is_kept = command.replay.is_none() || config.state_dir.was_named;
    let state = if is_kept { State::open(&config.state_dir)? } else { State::nowhere() };
    let metrics = config.metrics_listen.map(bind).transpose()?;
    let ports = Ports { control: bind(config.control_listen)?, metrics };
    let clock = Clock::system();
    let source = source::open(&choice(command, &config), &config.node, &clock)?;
    let ground = Ground { source, state: Arc::new(state), ports, clock, lines };
    let (lines, fault) = (ground.lines.clone(), Arc::clone(&ground.source.fault));
    let (stop, stopped) = bounded(1);
    if command.stop_with_stdin {
        stop_with_stdin(stop.clone()).map_err(failed)?;
    }
    let ended = start(config, ground, (stop, &stopped)).map_err(failed);
    lines.flush(LAST_LINES);
    match (ended, fault.get()) {
        (Ok(_), Some(fault)) => Err(Failure::new(fault, Exit::NoInput)),
        (ended, _) => ended.map(|_| ExitCode::SUCCESS),
    }
}

/// # Errors
/// Where a recording would speak in this host's name.
fn may_replay(command: &Command, config: &Config) -> Result<(), Failure> {
    match command.replay.is_some() && config.to.is_some() && !config.node_was_named {
        true => Err(Failure::new(NO_REPLAY, Exit::Usage)),
        false => Ok(()),
    }
}

/// What is replayed was long ago; told now, it is newer than all that was told before.
fn after_epoch_us(last_us: i64, is_replay: bool, clock: &Clock) -> i64 {
    if is_replay { clock.now().wall_us.max(last_us) } else { last_us }
}

/// Starts every thread, meters until the end, and sends the last state.
fn start(config: Config, ground: Ground, (stop, stopped): (Sender<()>, &Receiver<()>)) -> io::Result<Ended> {
    let Ground { source, state, ports, clock, lines } = ground;
    let (node, tick, to) = (config.node.clone(), source.tick, told(config.to.as_ref()));
    let is_replay = source.is_recorded;
    let after_epoch_us = after_epoch_us(state.last_epoch_us(), is_replay, &clock);
    let settings = MeterSettings { tick, ..meter_settings(&config, after_epoch_us) };
    let delivery = config.to.map(|to| {
        let state_dir = state.directory().map(ToOwned::to_owned);
        let settings = DeliverySettings { to, key: config.key, limits: config.spool, state_dir };
        Delivery::start(settings, clock.clone()).map(Arc::new)
    });
    let delivery = delivery.transpose()?;
    let published = Arc::new(Published::default());
    let Kept { running, ended } = state.jobs();
    let (assignments, running) = admitted(&settings, config.assignments, running);
    let (commands, obeyed) = bounded(0);
    let observe = {
        let (published, delivery, clock) = (Arc::clone(&published), delivery.clone(), clock.clone());
        move || Observed {
            seen: published.get(),
            now_us: clock.now().mono_us,
            delivery: delivery.as_ref().map(|delivery| delivery.counters()),
            log_lines_dropped: lines.dropped(),
        }
    };
    let kept = Kept { running: running.clone(), ended: ended.clone() };
    let aftermath = Aftermath { published: Arc::clone(&published), delivery: delivery.clone() };
    let desk = Desk {
        book: Arc::new(Mutex::new(JobBook::new(kept, Arc::clone(&state), commands, aftermath))),
        assignments: assignments.clone(),
        published: Arc::clone(&published),
        delivery: delivery.clone(),
        metrics: Metrics::new(observe),
        token: config.control_token,
        clock: clock.clone(),
        node: config.node,
        tick,
    };
    // With port 0, only the socket knows.
    let control = ports.control.local_addr()?;
    http::serve(ports, Arc::new(desk), stop)?;
    tracing::info!(node, ?tick, is_replay, to, %control, jobs = running.len(), "metering");
    let jobs = assignments.into_iter().chain(running).collect();
    let meter = Meter::new(settings);
    let metering = Metering { clock, meter, jobs, ended, state, delivery: delivery.clone(), published };
    let ended = run::run(source, metering, &obeyed, stopped);
    if let Some(delivery) = delivery {
        delivery.stop(LAST_DELIVERY);
    }
    tracing::info!(?ended, "stopped");
    Ok(ended)
}

/// For the log.
fn told(to: Option<&Destination>) -> String {
    to.map_or_else(|| "nobody".to_owned(), ToString::to_string)
}

/// Whoever holds the other end of standard input is gone when it ends, however.
fn stop_with_stdin(stop: Sender<()>) -> io::Result<()> {
    let wait = move || {
        let mut ignored = [0; 256];
        while io::stdin().read(&mut ignored).is_ok_and(|count| count > 0) {}
        tracing::info!("standard input has ended: stopping");
        let _ = stop.try_send(());
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(wait).map(drop)
}

/// Those jobs from before the start and assignments that fit together, in this order: a line in a file that was changed since
/// does not take a device from whom it was promised to.
fn admitted(settings: &MeterSettings, mut assignments: Vec<Job>, mut running: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    let mut trial = Meter::new(settings.clone());
    let mut fits = |job: &Job| {
        let started = trial.start(job.clone(), 0);
        if let Err(error) = &started {
            let (tenant, job) = (&job.tenant, job.job.as_deref());
            tracing::error!(%tenant, job, %error, "an assignment does not fit with what runs, and is left out");
        }
        started.is_ok()
    };
    running.retain(&mut fits);
    assignments.retain(&mut fits);
    (assignments, running)
}

fn meter_settings(config: &Config, after_epoch_us: i64) -> MeterSettings {
    MeterSettings { node: config.node.clone(), tick: config.tick, models: config.models.clone(), after_epoch_us }
}

fn choice(command: &Command, config: &Config) -> Choice {
    match &command.replay {
        Some(recording) => {
            Choice::Replay { recording: recording.clone(), speed: command.speed.clone(), looped: command.looped }
        }
        None => Choice::Live { library: config.library.clone(), tick: config.tick, record: command.record.clone() },
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .map_err(|error| Failure::new(format!("`{address}` cannot be listened on: {error}"), Exit::Failed))
}

/// Help and the version are answers, everything else is wrong usage.
fn said_by_clap(error: clap::Error) -> Result<ExitCode, Failure> {
    if error.use_stderr() {
        let sentence = error.to_string();
        let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence).trim_end().to_owned();
        return Err(Failure::new(sentence, Exit::Usage));
    }
    tell(&error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes to stdout. That nobody reads on is nobody's problem.
fn tell(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("stdout cannot be written: {error}"), Exit::Failed))
        }
        _ => Ok(()),
    }
}

/// An error with what caused it, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

impl Failure {
    fn new(sentence: impl Into<String>, exit: Exit) -> Self {
        Self { sentence: sentence.into(), exit }
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::new(error.to_string(), Exit::CannotCreate)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::new(with_causes(&error), error.exit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Part;

    #[test]
    fn a_recording_has_a_name_and_an_epoch_of_its_own() {
        let replays = |arguments: &str| {
            let words = ["farebox-agent"].into_iter().chain(arguments.split(' ')).map(Into::into);
            let command = Command::parse_from(words).unwrap();
            let (environment, host_name) = (std::iter::empty(), Some("gpu-07".to_owned()));
            let inputs = Inputs { file: None, environment, flags: command.flags(), host_name };
            may_replay(&command, &Config::load(inputs).unwrap()).is_ok()
        };
        assert!(!replays("--replay a --gateway http://a:1"));
        assert!(replays("--replay a --gateway http://a:1 --node demo") && replays("--replay a"));
        assert!(replays("--gateway http://a:1"));
        let clock = Clock::from_fn(|| crate::clock::Now { wall_us: 1_000, mono_us: 7 });
        assert_eq!([true, false].map(|is_replay| after_epoch_us(5, is_replay, &clock)), [1_000, 5]);
        assert_eq!(after_epoch_us(2_000, true, &clock), 2_000);
    }

    #[test]
    fn a_running_job_is_worth_more_than_a_new_assignment() {
        let job = |tenant: &str, gpu_uuid: &str| {
            let part = Part { gpu_uuid: gpu_uuid.to_owned(), instance: None, share: 1_000_000 };
            Job { tenant: tenant.to_owned(), job: None, parts: vec![part], workloads: Vec::new() }
        };
        let settings =
            MeterSettings { node: "n".to_owned(), tick: ONCE_TICK, models: Default::default(), after_epoch_us: 0 };
        let assignments = vec![job("globex", "GPU-1"), job("globex-2", "GPU-2")];
        let admitted = admitted(&settings, assignments, vec![job("acme", "GPU-1")]);
        assert_eq!(admitted, (vec![job("globex-2", "GPU-2")], vec![job("acme", "GPU-1")]));
    }
}
