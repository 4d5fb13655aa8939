//! Delivery over real sockets, to a gateway that these tests play.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::*;
use crate::samples::{Directory, body_with};

/// No test waits for it; it ends one that hangs.
const LONG: Duration = Duration::from_secs(30);

/// Reads one request: its body.
fn request(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// A gateway that answers the n-th request with the n-th answer (the last one for ever), and tells each body with the number
/// of its connection.
fn gateway(answers: Vec<&'static str>) -> (String, mpsc::Receiver<(usize, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (told, bodies) = mpsc::channel();
    thread::spawn(move || {
        let mut answers = answers.into_iter();
        let mut answer = answers.next().unwrap();
        for (connection, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            while let Some(body) = request(&mut stream) {
                let written = stream.get_mut().write_all(answer.as_bytes());
                if told.send((connection, body)).is_err() || written.is_err() {
                    return;
                }
                answer = answers.next().unwrap_or(answer);
            }
        }
    });
    (address, bodies)
}

const APPLIED: &str =
    "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"applied\":true}";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

fn snapshot(job: &str, seq: u64) -> WireSnapshot {
    let mut snapshot: WireSnapshot =
        serde_json::from_value(body_with(&[("/job", json!(job)), ("/seq", json!(seq))])).unwrap();
    snapshot.mac = None;
    snapshot
}

fn settings(gateway: String, state_dir: Option<&Directory>) -> DeliverySettings {
    let key = MacKey::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let state_dir = state_dir.map(|directory| directory.path().to_owned());
    DeliverySettings { to: Destination::Gateway(gateway), key: Some(key), limits: SpoolLimits::standard(), state_dir }
}

fn job_and_seq(body: &[u8]) -> (String, u64) {
    let value: Value = serde_json::from_slice(body).unwrap();
    (value["job"].as_str().unwrap().to_owned(), value["seq"].as_u64().unwrap())
}

#[test]
fn snapshots_arrive_signed_over_one_connection() {
    let (address, bodies) = gateway(vec![APPLIED]);
    let settings = settings(address, None);
    let key = settings.key.clone().unwrap();
    let delivery = Delivery::start(settings, Clock::system()).unwrap();
    for seq in 1..=3 {
        delivery.offer(&[snapshot("a", seq)]);
        let (connection, body) = bodies.recv_timeout(LONG).unwrap();
        assert_eq!((connection, job_and_seq(&body)), (0, ("a".to_owned(), seq)));
        assert_eq!(mac::verify(&key, &body), Ok(()));
        let read: WireSnapshot = serde_json::from_slice(&body).unwrap();
        assert!(crate::snapshot::Snapshot::try_from(read).is_ok());
    }
    delivery.stop(LONG);
}

#[test]
fn a_busy_gateway_is_asked_again_with_the_newest() {
    let (address, bodies) = gateway(vec![BUSY, APPLIED]);
    let delivery = Delivery::start(settings(address, None), Clock::system()).unwrap();
    delivery.offer(&[snapshot("a", 1)]);
    assert_eq!(job_and_seq(&bodies.recv_timeout(LONG).unwrap().1).1, 1);
    delivery.offer(&[snapshot("a", 2)]);
    delivery.offer(&[snapshot("a", 3)]);
    assert_eq!(job_and_seq(&bodies.recv_timeout(LONG).unwrap().1).1, 3);
    delivery.stop(LONG);
}

#[test]
fn what_nobody_took_is_delivered_after_a_restart() {
    let directory = Directory::new();
    // A port that nobody listens on any more.
    let nobody = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let delivery = Delivery::start(settings(nobody, Some(&directory)), Clock::system()).unwrap();
    delivery.offer(&[snapshot("a", 1), snapshot("b", 2)]);
    delivery.stop(LONG);
    let file = directory.path().join(FILE);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept.lines().count(), 2);
    assert!(!kept.contains("\"mac\""), "signed when it is sent, by the key of then");
    // As a crash in the middle of a write on a careless file system would leave it.
    std::fs::write(&file, format!("{kept}{{\"schema\":1,\"no")).unwrap();

    let (address, bodies) = gateway(vec![APPLIED]);
    let delivery = Delivery::start(settings(address, Some(&directory)), Clock::system()).unwrap();
    assert_eq!(delivery.counters().torn_lines, 1);
    let arrived: Vec<_> = (0..2).map(|_| job_and_seq(&bodies.recv_timeout(LONG).unwrap().1)).collect();
    assert_eq!(arrived, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    delivery.stop(LONG);
    assert!(!file.exists());
}

#[test]
fn a_gateway_that_never_answers_holds_nobody_up() {
    let directory = Directory::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let delivery = Delivery::start(settings(address, Some(&directory)), Clock::system()).unwrap();
    for seq in 1..=1000 {
        delivery.offer(&[snapshot("a", seq)]);
    }
    assert_eq!(delivery.counters().waiting, 1);
    delivery.stop(Duration::from_millis(50));
    let kept = std::fs::read(directory.path().join(FILE)).unwrap();
    assert_eq!(job_and_seq(kept.trim_ascii_end()).1, 1000);
}

#[test]
fn a_state_directory_that_vanished_is_counted_and_stops_nothing() {
    let directory = Directory::new();
    let nobody = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let delivery = Delivery::start(settings(nobody, Some(&directory)), Clock::system()).unwrap();
    std::fs::remove_dir_all(directory.path()).unwrap();
    delivery.offer(&[snapshot("a", 1)]);
    let shared = Arc::clone(&delivery.shared);
    delivery.stop(LONG);
    assert!(shared.courier().counters().saves_failed > 0);
}

#[test]
fn the_last_write_waits_for_an_older_one_and_no_older_one_follows_it() {
    let directory = Directory::new();
    let nobody = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let delivery = Delivery::start(settings(nobody, Some(&directory)), Clock::system()).unwrap();
    let shared = Arc::clone(&delivery.shared);
    // As while the other thread writes.
    shared.writing.1.recv().unwrap();
    shared.courier().offer(vec![Written::of(&snapshot("a", 1)).unwrap()]);
    let rest = shared.courier().give_up().unwrap();
    let last = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.save_last(&rest, LONG))
    };
    thread::sleep(Duration::from_millis(50));
    shared.writing.0.send(()).unwrap();
    last.join().unwrap();
    let file = directory.path().join(FILE);
    let kept = std::fs::read(&file).unwrap();
    assert_eq!(job_and_seq(kept.trim_ascii_end()).1, 1);
    shared.save(&[]);
    assert_eq!(std::fs::read(&file).unwrap(), kept);
}
