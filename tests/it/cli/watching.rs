//! `farebox usage watch`: once, again and again, and while the gateway is away.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use super::farebox;
use crate::harness::TestGateway;

const USAGE: &str = r#"{"tenant_id":"acme","models":[{"gpu_model":"A100","health":"ok","age_ms":900,"windows":{"15m":{"gpu_util":{"mean":"0.82","p95":"0.97","coverage":"0.99","quality":"ok"}}}}]}"#;

#[test]
fn one_look_is_a_line_for_each_metric_or_the_answer_itself() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let server = gateway.url("");
    let look = |more: &[&str]| farebox(&[&["usage", "watch", "acme", "--once", "--server", &server], more].concat());
    let ran = look(&[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ran.stdout);
    assert!(lines[2].ends_with(" A100: effective 82 % by gpu_util, tenant_7d"), "{}", ran.stdout);
    assert!(lines[0].contains(" model ") && lines[0].contains(" cover "), "{}", ran.stdout);
    assert!(lines[1].contains(" A100 ") && lines[1].contains("[#########-] 82 % 97 % 99 %"), "{}", ran.stdout);
    let ran = look(&["--window", "1m", "--metric", "power_w"]);
    assert!(ran.stdout.contains("power_w") && ran.stdout.contains("not observed"), "{}", ran.stdout);
    let json = look(&["--json"]).json();
    assert_eq!(json["models"][0]["windows"]["7d"]["gpu_util"]["mean"], "0.82");
    let ran = farebox(&["usage", "watch", "globex", "--once", "--server", &server]);
    assert!(ran.code == 0 && ran.stdout.contains("no live snapshot"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn each_end_has_its_code() {
    let gateway = TestGateway::start();
    let server = gateway.url("");
    let nowhere = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for (arguments, code, says) in [
        // Without `--once` too: nobody waits for a tenant that is not there.
        (&["nobody", "--server", &server][..], 65, "not-found: there is no such tenant"),
        (&["no/body?", "--server", &server, "--once"], 65, "not-found: there is no such tenant"),
        (&["acme", "--server", &nowhere, "--once"], 69, "is `farebox serve` running there?"),
        (&["acme", "--window", "1h"], 64, "15m"),
        (&["acme", "--server", "gateway:8080"], 64, "is not the address of a gateway"),
    ] {
        let ran = farebox(&[&["usage", "watch"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?} {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{arguments:?} {}", ran.stderr);
    }
}

/// Answers one request on a connection of its own.
fn answer(listener: &TcpListener, status: &str, body: &str) {
    let (mut stream, _) = listener.accept().unwrap();
    read_head(&mut stream);
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        head.extend(byte);
    }
}

/// It says so once, goes on when the gateway is back, also where it has forgotten the tenant meanwhile, and ends when nobody
/// reads any more.
#[test]
fn an_absent_gateway_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_farebox-under-test"))
        .args(["usage", "watch", "acme", "--server", &server])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    answer(&listener, "503 Service Unavailable", "");
    drop(listener.accept().unwrap());
    answer(&listener, "200 OK", USAGE);
    let mut next = || stdout.next().unwrap().unwrap();
    assert!(next().contains("model"));
    assert!(next().contains("82 %"));
    answer(&listener, "404 Not Found", r#"{"type":"/problems/not-found","detail":"\u001b[2Jthere is no such tenant"}"#);
    answer(&listener, "200 OK", USAGE);
    assert!(next().contains("82 %"), "headings stand above the first lines only");
    drop(stdout);
    answer(&listener, "200 OK", USAGE);
    assert!(child.wait().unwrap().success());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let said: Vec<_> = stderr.lines().collect();
    assert_eq!(said.len(), 2, "{stderr}");
    assert!(said[0].contains("answers 503") && said[0].ends_with("trying again"), "{stderr}");
    assert!(said[1].contains("there is no such tenant") && !stderr.contains('\u{1b}'), "{stderr}");
}
