//! Gateways and agents as processes of their own, which can be killed.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(120);

/// Of all agents: 32 times `k`.
pub(crate) fn key() -> String {
    STANDARD.encode([b'k'; 32])
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// What a run leaves behind, gone with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farebox-live-usage-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("key"), key()).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that can be killed and started again as it was.
pub(crate) struct Process {
    pub(crate) name: String,
    start: Box<dyn Fn() -> Command>,
    child: Option<Child>,
}

impl Process {
    pub(crate) fn start(name: String, start: impl Fn() -> Command + 'static) -> Self {
        let mut process = Self { name, start: Box::new(start), child: None };
        process.resume();
        process
    }

    pub(crate) fn resume(&mut self) {
        let mut command = (self.start)();
        self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A gateway over the fixtures, fed by Redis.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    http: ureq::Agent,
}

impl Gateway {
    pub(crate) fn start(name: &str, redis: &str, folder: &Path) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings = [
            ("FAREBOX_LISTEN", address.to_string()),
            ("FAREBOX_DATA_DIR", root().join("fixtures").display().to_string()),
            ("FAREBOX_POLICIES_DIR", root().join("target/policies").display().to_string()),
            ("FAREBOX_TOKENS_KEYS", format!("bench:{}", key())),
            ("FAREBOX_SANDBOX_CACHE_DIR", folder.join("compiled").display().to_string()),
            ("FAREBOX_REDIS_URL", redis.to_owned()),
            ("FAREBOX_AGENTS", format!("*:{}", key())),
            ("FAREBOX_MIRROR_ROLL_UPS", "100000".to_owned()),
            ("FAREBOX_LOG_LEVEL", "error".to_owned()),
            ("FAREBOX_LOG_FORMAT", "text".to_owned()),
        ];
        let process = Process::start(name.to_owned(), move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_farebox-under-test"));
            command.arg("serve").envs(settings.clone());
            command
        });
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(20)));
        let gateway = Self { process, address, http: config.build().into() };
        gateway.wait();
        gateway
    }

    /// Until it serves.
    pub(crate) fn wait(&self) {
        let began = Instant::now();
        while self.get("/healthz").is_none() {
            assert!(began.elapsed() < PATIENCE, "{} does not come up", self.process.name);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// `None` where it does not answer.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        self.http.get(format!("http://{}{path}", self.address)).call().ok()?.body_mut().read_to_string().ok()
    }

    pub(crate) fn json(&self, path: &str) -> Option<Value> {
        serde_json::from_str(&self.get(path)?).ok()
    }

    pub(crate) fn quote(&self, body: &str) -> Value {
        let url = format!("http://{}/v1/quotes", self.address);
        let mut answer = self.http.post(url).header("Content-Type", "application/json").send(body).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert_eq!(answer.status(), 201, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// An agent that plays the demo's recording of eight GPUs as a node of its own.
pub(crate) fn agent(node: &str, redis: &str, folder: &Path) -> Process {
    let recordings = root().join("fixtures/recordings");
    let (node, redis, folder) = (node.to_owned(), redis.to_owned(), folder.to_owned());
    Process::start(format!("agent {node}"), move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farebox-agent-under-test"));
        command.arg("--config").arg(recordings.join("demo-agent.toml"));
        command.arg("--replay").arg(recordings.join("demo.jsonl")).arg("--loop").args(["--node", &node]);
        command.arg("--state-dir").arg(folder.join(&node));
        command.env("FAREBOX_AGENT_REDIS_URL", &redis).env("FAREBOX_AGENT_MAC_KEY_FILE", folder.join("key"));
        command
    })
}

/// CPU time of a process, or of its threads of a name, so far.
pub(crate) fn cpu(pid: u32, thread: Option<&str>) -> Duration {
    let of = |stat: &str| {
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // utime and stime, in 1/100 s.
        Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
    };
    let Some(name) = thread else { return of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap()) };
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    stats.filter(|stat| stat.contains(&format!("({name}"))).map(|stat| of(&stat)).sum()
}

/// MiB.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
