//! How long a connection may take over its next head: slow, late, idle, endless.

use super::*;

#[test]
fn slow_heads_are_closed_whether_first_or_not() {
    let running = Running::start(Limits { header_read_timeout: SHORT, ..PATIENT });
    let mut silent = running.connect();
    let mut half = running.send("GET / HTTP/1.1\r\nhost");
    let mut second = running.send(GET);
    answer_of(&mut second);
    second.write_all(b"G").unwrap();
    for client in [&mut silent, &mut half, &mut second] {
        let (rest, took) = rest_of(client);
        assert_eq!(rest, "");
        assert!(took < SHORT + SLACK, "{took:?}");
    }
}

#[test]
fn an_idle_connection_has_a_limit_of_its_own() {
    let running = Running::start(Limits { header_read_timeout: SHORT, ..PATIENT });
    let mut idle = running.send(GET);
    for _ in 0..2 {
        answer_of(&mut idle);
        std::thread::sleep(SHORT * 2);
        idle.write_all(GET.as_bytes()).unwrap();
    }
    assert!(answer_of(&mut idle).ends_with("hello"), "it outlived the limit on heads");
    let running = Running::start(Limits { header_read_timeout: SHORT, keep_alive_timeout: SHORT, ..PATIENT });
    let mut idle = running.send(GET);
    answer_of(&mut idle);
    assert_eq!(rest_of(&mut idle).0, "");
}

/// The limits on an idle connection and on a head together hold it, however it came.
#[test]
fn half_a_head_behind_a_whole_request_is_closed() {
    let running = Running::start(Limits { header_read_timeout: SHORT, keep_alive_timeout: SHORT, ..PATIENT });
    let mut together = running.send(&format!("{GET}GET / HT"));
    let mut meanwhile = running.send(GET_HELD);
    running.wait_until("the handler runs", |held| held.started.load(Ordering::SeqCst) == 1);
    meanwhile.write_all(b"GET / HT").unwrap();
    running.held.release();
    for client in [&mut together, &mut meanwhile] {
        assert!(answer_of(client).starts_with("HTTP/1.1 200 OK"));
        assert_eq!(rest_of(client).0, "");
    }
}

#[test]
fn a_head_that_trickles_is_closed() {
    let running = Running::start(Limits { header_read_timeout: SHORT, ..PATIENT });
    let mut client = running.send("GET / HTTP/1.1\r\n");
    let begin = Instant::now();
    while client.write_all(b"a: b\r\n").is_ok() {
        assert!(begin.elapsed() < SHORT + SLACK);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let running = Running::start(PATIENT);
    let mut client = running.connect();
    let _ = client.write_all(format!("GET / HTTP/1.1\r\nhost: a\r\nb: {}\r\n\r\n", "c".repeat(70_000)).as_bytes());
    assert!(answer_of(&mut client).starts_with("HTTP/1.1 431 "));
}
