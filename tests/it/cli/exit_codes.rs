//! Each exit code, and the sentence that comes with it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use super::{farebox, farebox_with};
use crate::harness::{Folder, TestGateway, fixture};

const W1: &str = "fixtures/requests/w1.json";

/// The code, and that stdout is empty and stderr begins so.
fn assert_ends(arguments: &[&str], code: i32, begin: &str) {
    let ran = farebox(arguments);
    let is_so = ran.code == code && ran.stdout.is_empty() && ran.stderr.starts_with(begin);
    assert!(is_so, "{arguments:?}: {} {}{}", ran.code, ran.stdout, ran.stderr);
}

#[test]
fn wrong_usage_is_64() {
    assert_ends(&["quote"], 64, "error: ");
    assert_ends(&["quote", "-f", W1, "--at", "now", "--server", "http://127.0.0.1:1"], 64, "error: ");
    assert_ends(&["quote", "-f", W1, "--at", "noon"], 64, "error: ");
    assert_ends(&["quote", "-f", W1, "--json", "--table"], 64, "error: ");
    assert_ends(&["quot", "-f", W1], 64, "error: ");
    let https =
        "farebox: `https://prices.example` is not the address of a gateway; give one like `http://127.0.0.1:8080`";
    assert_ends(&["quote", "-f", W1, "--server", "https://prices.example"], 64, https);
}

#[test]
fn what_cannot_be_read_is_66() {
    let nowhere = "farebox: nowhere.json cannot be read: No such file or directory (os error 2); is the path right";
    assert_ends(&["quote", "-f", "nowhere.json"], 66, nowhere);
    assert_ends(&["quote", "-f", "fixtures"], 66, "farebox: fixtures cannot be read: Is a directory");
    assert_ends(&["quote", "-f", W1, "--snapshot", "nowhere.json"], 66, nowhere);
    let no_data = "farebox: the data directory `nowhere` is not there; name one with `--data`, or ask a gateway with";
    assert_ends(&["quote", "-f", W1, "--data", "nowhere"], 66, no_data);
    let no_policies = "farebox: the directory of policies `nowhere` is not there; build them with `make policies`";
    assert_ends(&["quote", "-f", W1, "--policies", "nowhere"], 66, no_policies);
    assert_ends(&["check", "nowhere"], 66, "farebox: the data directory `nowhere` is not there");
}

#[test]
fn a_request_at_fault_is_65_here_and_at_a_gateway() {
    let gateway = TestGateway::start();
    let server = gateway.url("");
    let mut request = fixture("requests/w1.json");
    request["items"][0]["gpu_count"] = 0.into();
    request["items"][0]["gpu_modell"] = "\u{1b}[31m".into();
    let (invalid, broken) = (request.to_string(), "{\n  \"tenant_id\": \"acme\",\n}");
    let unknown = fixture("requests/w1.json").to_string().replace("acme", "acne");
    for place in [&[][..], &["--server", &server]] {
        let arguments = [&["quote", "-f", "-"], place].concat();
        let ran = farebox_with(&arguments, &[], broken);
        let sentence = "farebox: stdin:3:1: this is not JSON: trailing comma\n";
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (65, "", sentence));
        let ran = farebox_with(&arguments, &[], &invalid);
        assert_eq!((ran.code, ran.stdout.as_str()), (65, ""));
        assert_eq!(
            ran.stderr,
            "farebox: invalid-request: 2 things are wrong\n  \
             /items/0/gpu_count: 0 is less than the minimum of 1\n  \
             /items/0/gpu_modell: `gpu_modell` is not a known field; did you mean `gpu_model`?\n"
        );
        let ran = farebox_with(&arguments, &[], &unknown);
        let begin = "farebox: invalid-request: there is no tenant `acne`";
        assert!(ran.code == 65 && ran.stderr.starts_with(begin), "{}", ran.stderr);
    }
    // Names are suggested where the caller may read them all anyway.
    let offline = farebox_with(&["quote", "-f", "-"], &[], &unknown).stderr;
    assert!(offline.ends_with("there is no tenant `acne`; did you mean `acme`? (at /tenant_id)\n"), "{offline}");
}

#[test]
fn a_snapshot_at_fault_is_65_here_and_at_a_gateway() {
    let gateway = TestGateway::start();
    let server = gateway.url("");
    let folder = Folder::new("snapshots-at-fault");
    let wrong_value = folder.join("wrong-value.json");
    let mut snapshot = fixture("snapshots/steady-82.json");
    snapshot["gpu_model"] = "".into();
    std::fs::write(&wrong_value, snapshot.to_string()).unwrap();
    let wrong_instant = folder.join("wrong-instant.json");
    snapshot["observed_at"] = "@now-soon".into();
    std::fs::write(&wrong_instant, snapshot.to_string()).unwrap();
    for place in [&[][..], &["--server", &server]] {
        for (path, sentence) in [
            (&wrong_value, ": invalid-request: the snapshot "),
            (&wrong_instant, ": `observed_at` is `@now-soon`; write `@now`, `@now-45s` or an instant such as `"),
        ] {
            let path = path.to_str().unwrap();
            assert_ends(
                &[&["quote", "-f", W1, "--snapshot", path], place].concat(),
                65,
                &format!("farebox: {path}{sentence}"),
            );
        }
    }
}

/// Answers one request with this, whatever it is.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let root = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        assert!(client.read(&mut [0; 8192]).unwrap() > 0);
        let length = answer.split_once("\r\n\r\n").unwrap().1.len();
        let answer =
            answer.replacen("\r\n\r\n", &format!("\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"), 1);
        client.write_all(answer.as_bytes()).unwrap();
    });
    root
}

#[test]
fn an_unavailable_server_is_69() {
    // No listener of a test is on a port below 1024.
    let nobody = "farebox: http://127.0.0.1:1/v1/quotes does not answer: ";
    assert_ends(&["quote", "-f", W1, "--server", "http://127.0.0.1:1/"], 69, nobody);
    let fault = "HTTP/1.1 503 Service Unavailable\r\n\r\n\
                 {\"type\":\"/problems/policy-fault\",\"detail\":\"step \\u001b[1m`x` failed\",\"trace_id\":\"t-1\"}";
    let sentence = "farebox: policy-fault: step [1m`x` failed (trace t-1)\n";
    assert_ends(&["quote", "-f", W1, "--server", &answering(fault)], 69, sentence);
    let proxy = answering("HTTP/1.1 502 Bad Gateway\r\n\r\n<html>\u{1b}]0;x");
    let sentence = format!("farebox: {proxy}/v1/quotes answers 502: <html>]0;x\n");
    assert_ends(&["quote", "-f", W1, "--server", &proxy], 69, &sentence);
    let stranger = answering("HTTP/1.1 200 OK\r\n\r\nhello");
    assert_ends(&["quote", "-f", W1, "--table", "--server", &stranger], 69, "farebox: the answer is not JSON: ");
    let elsewhere = answering("HTTP/1.1 404 Not Found\r\n\r\nno");
    assert_ends(
        &["quote", "-f", W1, "--server", &elsewhere],
        65,
        &format!("farebox: {elsewhere}/v1/quotes answers 404: no"),
    );
}

#[test]
fn a_plan_that_is_left_out_is_1_and_names_the_command_that_tells_why() {
    let request = fixture("requests/w1.json").to_string();
    let arguments = ["quote", "-f", "-", "--data", "fixtures/broken", "--plan", "floor-above-list"];
    let ran = farebox_with(&arguments, &[], &request);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    let begin =
        "farebox: plan `floor-above-list` cannot be priced under at the moment: the data directory has problems (";
    assert!(ran.stderr.starts_with(begin) && ran.stderr.contains("`farebox check fixtures/broken "), "{}", ran.stderr);
}
