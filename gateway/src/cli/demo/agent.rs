//! The demo's agent: `farebox-agent` on a recording, as a process of its own, as on a GPU host.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::redis::Redis;
use super::{Exit, Failure};

/// How fast the recording is played. Eight GPUs hold their first GPU-hour, under which a window is thin, in 7.5 s.
const SPEED: &str = "60";
/// What an agent needs to send its last state.
const PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);

/// Ends with this value; and, as its standard input closes with the demo's process, with the demo, however that ends.
#[derive(Debug)]
pub(super) struct Agent(Child);

/// Where its snapshots go.
#[derive(Clone, Copy, Debug)]
pub(super) enum To<'a> {
    /// The gateway's root URL.
    Gateway(&'a str),
    Redis(&'a Redis),
}

impl Agent {
    /// Plays `recordings/demo.jsonl` of the data directory over and over.
    pub(super) fn start(binary: &Path, data: &Path, to: To<'_>) -> Result<Self, Failure> {
        let recordings = data.join("recordings");
        let mut command = Command::new(binary);
        command.arg("--config").arg(recordings.join("demo-agent.toml"));
        command.arg("--replay").arg(recordings.join("demo.jsonl"));
        command.args(["--loop", "--speed", SPEED, "--stop-with-stdin"]);
        match to {
            To::Gateway(root) => command.args(["--gateway", root]),
            To::Redis(redis) => {
                command.args(["--redis-url", &redis.url()]).env("FAREBOX_AGENT_MAC_KEY_FILE", redis.key_file())
            }
        };
        let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        started.map(Self).map_err(|error| {
            let sentence = format!("`{}` cannot be started: {error}; build it with `make policies`", binary.display());
            Failure::saying(sentence).ending(Exit::NoInput)
        })
    }

    /// Its exit code, where it has ended by itself.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.0.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let began = Instant::now();
        while self.ended().is_none() && began.elapsed() < PATIENCE {
            thread::sleep(POLL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The binary beside this one, as both are built and installed.
pub(super) fn beside_this_binary() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(format!("farebox-agent{}", std::env::consts::EXE_SUFFIX))
}
