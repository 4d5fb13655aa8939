//! `farebox demo` as a process: it shows one quote and how to ask for more, serves on, and ends when it is told to.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::harness::{Folder, policies, root};

/// A demo on a port of its own; gone at the end, however the test ends.
struct Demo(Child);

impl Demo {
    fn start(data: &Path, options: &[&str]) -> (Self, ChildStdout) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_farebox-under-test"))
            .args(["demo", "--listen", "127.0.0.1:0"])
            .args(options)
            .arg("--data")
            .arg(data)
            .arg("--policies")
            .arg(policies())
            .arg("--agent")
            .arg(env!("CARGO_BIN_EXE_farebox-agent-under-test"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        (Self(child), stdout)
    }

    /// Ends it as a terminal or a supervisor would; gives its exit code and what it said on stderr.
    fn stop(mut self) -> (Option<i32>, String) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let mut stderr = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.0.wait().unwrap().code(), stderr)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_shows_a_quote_and_commands_that_work_from_here() {
    let folder = Folder::new("demo");
    let data = folder.join("elsewhere");
    std::os::unix::fs::symlink(root().join("fixtures"), &data).unwrap();
    let (demo, stdout) = Demo::start(&data, &[]);
    let mut shown = Vec::new();
    for line in BufReader::new(stdout).lines() {
        shown.push(line.unwrap());
        if shown.last().is_some_and(|line| line.ends_with("/openapi.json")) {
            break;
        }
    }
    assert!(shown[0].starts_with("Usage goes from the agent through a redis-server of this demo's own ("), "{shown:?}");
    let commands: Vec<&str> = shown.iter().filter_map(|line| line.strip_prefix("  curl -s ")).collect();
    let [ask, read, usage, document] = commands[..] else { panic!("{shown:?}: {}", demo.stop().1) };
    assert!(shown.iter().any(|line| line.contains("total CNY") && line.ends_with(" 9300.10")), "{shown:?}");
    let request = ask.split_once(" -d @").unwrap().1;
    assert_eq!(Path::new(request), data.join("requests/w1.json"));
    let get = |url: &str| ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap();
    assert!(get(read).contains("\"9300.10\""), "{}", get(read));
    let live: serde_json::Value = serde_json::from_str(&get(usage)).unwrap();
    assert_eq!(live["models"][0]["devices"].as_array().unwrap().len(), 8, "the agent's: {live}");
    assert!(get(document).contains("\"openapi\""));
    assert_eq!(demo.stop(), (Some(0), String::new()));
}

/// Nobody cleans up behind `kill -9`: the server notices by itself.
#[test]
fn its_redis_ends_with_it_however_it_ends() {
    let (mut demo, stdout) = Demo::start(&root().join("fixtures"), &[]);
    let line = BufReader::new(stdout).lines().next().unwrap().unwrap();
    let address = line.split_once('(').unwrap().1.split_once(')').unwrap().0;
    assert!(std::net::TcpStream::connect(address).is_ok(), "{line}");
    demo.0.kill().unwrap();
    let began = std::time::Instant::now();
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(began.elapsed().as_secs() < 20, "{address} still answers");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// As behind `| head -1`. The agent is there from before the quote is shown until the demo ends.
#[test]
fn it_serves_on_where_nobody_reads_what_it_shows() {
    let (mut demo, stdout) = Demo::start(&root().join("fixtures"), &["--no-redis"]);
    drop(stdout);
    while demo.0.try_wait().unwrap().is_none() && children(demo.0.id()).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let agents = children(demo.0.id());
    assert_eq!(demo.stop(), (Some(0), String::new()));
    assert_eq!(agents.iter().filter(|agent| Path::new(agent).exists()).count(), 0, "{agents:?}");
}

/// The processes that it started, as directories of /proc.
fn children(parent: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_child = |process: &Path| {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        // After the name, which is in parentheses: state, parent.
        let parents = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1).map(str::to_owned));
        parents == Some(parent.to_string())
    };
    processes.filter(|process| is_child(process)).map(|process| process.display().to_string()).collect()
}
