//! `farebox-agent` as a process on a stand-in driver, beside a real gateway: what it reads reaches the quote, and no crash, hang
//! or absence on its side becomes a price.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fake_nvml::{Behaviour, Clocks, Device, Hang, Samples, Scenario, Value as Shown};
use serde_json::{Value, json};

use crate::harness::{Folder, TestGateway, fixture};

/// For what takes a tenth of a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with two A100 under load, its agent, and the gateway that it tells.
struct Host {
    gateway: TestGateway,
    folder: Folder,
    library: PathBuf,
    agent: Option<Agent>,
}

/// Killed at the end, however the test ends.
struct Agent {
    process: Child,
    /// Where it takes job calls.
    control: String,
}

impl Host {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        std::fs::create_dir_all(&*folder).unwrap();
        let library = fake_nvml::install(&folder, &busy()).unwrap();
        let mut host = Self { gateway: TestGateway::start(), folder, library, agent: None };
        host.start();
        host
    }

    fn start(&mut self) {
        self.agent = Some(Agent::start(&self.folder, &self.library, &self.gateway.url("")));
    }

    /// No signal handler runs, no buffer is written.
    fn kill(&mut self) {
        drop(self.agent.take());
    }

    fn control(&self, path: &str) -> String {
        format!("{}{path}", self.agent.as_ref().unwrap().control)
    }

    fn begin_job(&self, job: &str) {
        let parts: Vec<_> = (0..2).map(|index| json!({ "gpu": uuid(index) })).collect();
        let (status, body) = call("PUT", &self.control(&format!("/jobs/acme/{job}")), &json!({ "parts": parts }));
        assert_eq!(status, 201, "{body}");
    }

    fn jobs(&self) -> Vec<String> {
        let (_, body) = call("GET", &self.control("/jobs"), &Value::Null);
        let body: Value = serde_json::from_str(&body).unwrap();
        let jobs = body["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["job"].as_str().unwrap().to_owned()).collect()
    }

    /// What the gateway knows of acme's A100.
    fn usage(&self) -> Option<Value> {
        let usage = self.gateway.get("/v1/tenants/acme/usage").json();
        usage["models"].as_array().unwrap().iter().find(|model| model["gpu_model"] == "A100").cloned()
    }

    fn wait_for_usage(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait(what, || self.usage().filter(&holds))
    }

    fn quote(&self) -> Value {
        let answer = self.gateway.post("/v1/quotes", &fixture("requests/w1.json"));
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()
    }
}

impl Agent {
    fn start(folder: &Path, library: &Path, gateway: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farebox-agent-under-test"));
        command.args(["--node", "gpu-07", "--tick", "100ms", "--control-listen", "127.0.0.1:0", "--gateway", gateway]);
        command.arg("--library").arg(library).arg("--state-dir").arg(folder.join("state"));
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let control = log.find_map(|line| {
            let line: Value = serde_json::from_str(&line.ok()?).ok()?;
            let fields = line.get("fields").unwrap_or(&line);
            Some(format!("http://{}", fields.get("control")?.as_str()?))
        });
        // Nobody reading would end in a full pipe.
        std::thread::spawn(move || log.for_each(drop));
        Self { process, control: control.unwrap() }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn uuid(index: usize) -> String {
    format!("GPU-00000000-0000-0000-0000-00000000070{index}")
}

fn busy() -> Scenario {
    let device = |index| Device {
        uuid: uuid(index),
        name: "NVIDIA A100-SXM4-80GB".to_owned(),
        memory_total: Some(80 << 30),
        memory_used: Some(Shown::Constant(40 << 30)),
        power_mw: Some(Shown::Constant(350_000)),
        power_limit_mw: Some(400_000),
        energy_mj: Some(Shown::Rising { base: 1_000, per_second: 350_000 }),
        clocks: Some(Clocks { sm: Shown::Constant(1_410), memory: Shown::Constant(1_593), max_sm: 1_410 }),
        gpu_samples: Some(Samples::Dated { every_ms: 20, value: Shown::Constant(90) }),
        ..Device::default()
    };
    Scenario { devices: (0..2).map(device).collect(), ..Scenario::default() }
}

fn call(method: &str, url: &str, body: &Value) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = ureq::http::Request::builder().method(method).uri(url).header("Content-Type", "application/json");
    let answer = match body {
        Value::Null => agent.run(request.body(()).unwrap()),
        body => agent.run(request.body(body.to_string()).unwrap()),
    };
    let mut answer = answer.unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn messages(quote: &Value) -> Vec<&str> {
    quote["messages"].as_array().unwrap().iter().filter_map(|message| message["code"].as_str()).collect()
}

#[test]
fn what_the_agent_reads_is_on_the_quote() {
    let host = Host::new("agent-reads");
    host.begin_job("job-9");
    let model = host.wait_for_usage("utilisation", |model| model["windows"]["10s"]["gpu_util"]["mean"] == "0.9");
    assert_eq!(model["health"], "ok");
    assert_eq!(model["windows"]["10s"]["power_w"]["mean"], "350");
    assert_eq!(model["windows"]["10s"]["mem_used_bytes"]["p50"], (40_u64 << 30).to_string());
    assert_eq!(model["devices"].as_array().unwrap().len(), 2);
    let quote = host.quote();
    let snapshot = &quote["inputs"]["snapshot"];
    assert_eq!(
        (&snapshot["window"], &snapshot["value"], &snapshot["scope"]),
        (&json!("7d"), &json!("0.9"), &json!("gpu_model"))
    );
    assert!(messages(&quote).contains(&"thin"), "an hour was not held yet: {quote}");
    assert_eq!(quote["totals"]["total"], "10333.44");
}

#[test]
fn a_job_that_was_acknowledged_survives_kill_9_and_one_that_ended_stays_ended() {
    let mut host = Host::new("agent-killed");
    host.begin_job("job-9");
    host.kill();
    host.start();
    assert_eq!(host.jobs(), ["job-9"]);
    host.wait_for_usage("the job's usage", |model| model["health"] == "ok");
    let (status, body) = call("DELETE", &host.control("/jobs/acme/job-9?reason=preempted"), &Value::Null);
    assert_eq!(status, 200, "{body}");
    wait("the tombstone", || host.usage().is_none().then_some(()));
    assert_eq!(messages(&host.quote())[0], "no_snapshot");
    host.kill();
    host.start();
    assert_eq!(host.jobs(), [""; 0]);
    let (status, _) = call("DELETE", &host.control("/jobs/acme/job-9"), &Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn a_driver_that_hangs_is_said_and_hides_nothing_else() {
    let host = Host::new("agent-hangs");
    host.begin_job("job-9");
    host.wait_for_usage("utilisation", |model| model["health"] == "ok");
    let mut hanging = busy();
    hanging.functions.insert("nvmlDeviceGetPowerUsage".to_owned(), Behaviour::hangs(Hang::UntilChanged));
    fake_nvml::change(&host.library, &hanging).unwrap();
    let model = host.wait_for_usage("the stall", |model| model["health"] == "stalled");
    assert_eq!(call("GET", &host.control("/healthz"), &Value::Null).0, 503);
    assert_eq!(host.jobs(), ["job-9"]);
    let observed_at = model["observed_at"].clone();
    let later = host.wait_for_usage("age", |later| later["age_ms"].as_u64() > model["age_ms"].as_u64());
    assert_eq!(later["observed_at"], observed_at, "what is not read is not observed");
    fake_nvml::change(&host.library, &busy()).unwrap();
    host.wait_for_usage("recovery", |model| model["health"] == "ok" && model["observed_at"] != observed_at);
    assert_eq!(call("GET", &host.control("/healthz"), &Value::Null).0, 200);
}

#[test]
fn a_host_without_gpus_is_said_so_and_waited_for() {
    let host = Host::new("agent-without");
    let gone = Scenario { functions: [("*".to_owned(), Behaviour::returns(9))].into(), ..Scenario::default() };
    host.begin_job("job-9");
    host.wait_for_usage("utilisation", |model| model["health"] == "ok");
    fake_nvml::change(&host.library, &gone).unwrap();
    host.wait_for_usage("the driver's absence", |model| model["health"] == "library_gone");
    fake_nvml::change(&host.library, &busy()).unwrap();
    host.wait_for_usage("the driver's return", |model| model["health"] == "ok");

    let once = Command::new(env!("CARGO_BIN_EXE_farebox-agent-under-test"))
        .args(["--once", "--library", "/nowhere/libnvidia-ml.so.1"])
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(once.status.code(), Some(69), "{once:?}");
    assert_eq!(String::from_utf8_lossy(&once.stderr).lines().count(), 1, "{once:?}");
}
