//! A TCP proxy that delays, swallows, cuts, resets and refuses, and can be told to do another of these at any time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

/// How soon a connection that nobody uses sees another fault.
const POLL: Duration = Duration::from_millis(10);
const CHUNK: usize = 64 << 10;

/// What the proxy does to open and to new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    Pass,
    /// Every chunk is passed so much later, in both directions.
    Delay(Duration),
    /// Bytes are swallowed in both directions; connections stay, and go on after it with what was swallowed missing.
    Drop,
    /// Answers are swallowed; what the client sends arrives.
    DropAnswers,
    /// So many bytes of the next answer, then the end of the connection.
    Truncate(usize),
    /// RST to both sides, of open connections at once, of new ones when they have been accepted.
    Reset,
    /// Open connections are closed, and new ones when they have been accepted.
    Refuse,
}

/// In front of an address, on a free port of loopback. Closes everything when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    accepted: AtomicUsize,
    is_over: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct State {
    target: SocketAddr,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// Of both directions of one connection.
#[derive(Debug, Default)]
struct Ends {
    is_cut: AtomicBool,
}

impl Proxy {
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State { target, fault: Fault::Pass }),
            changed: Condvar::new(),
            accepted: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on, also on open connections.
    pub fn set(&self, fault: Fault) {
        self.shared.state().fault = fault;
        self.shared.changed.notify_all();
    }

    /// Where new connections go, as after a switch of a virtual address: open ones stay where they are.
    pub fn point_at(&self, target: SocketAddr) {
        self.shared.state().target = target;
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> Fault {
        if self.is_over.load(Ordering::SeqCst) { Fault::Refuse } else { self.state().fault }
    }

    /// Until so long has passed, or another fault is set.
    fn wait(&self, pause: Duration) {
        let state = self.state();
        let fault = state.fault;
        let is_same = |state: &mut State| state.fault == fault && !self.is_over.load(Ordering::SeqCst);
        drop(self.changed.wait_timeout_while(state, pause, is_same));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_over.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((client, _)) => {
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                connect(client, shared);
            }
            Err(_) => thread::sleep(POLL),
        }
    }
}

fn connect(client: TcpStream, shared: &Arc<Shared>) {
    let target = shared.state().target;
    client.set_nonblocking(false).unwrap();
    match shared.fault() {
        Fault::Refuse => return,
        Fault::Reset => return reset(&client),
        _ => {}
    }
    // Nobody is there: the client sees the end.
    let Ok(server) = TcpStream::connect(target) else { return };
    let ends = Arc::new(Ends::default());
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(POLL)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    let (client_too, server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    for (direction, from, to) in [(Direction::ToServer, client_too, server_too), (Direction::ToClient, server, client)]
    {
        let (shared, ends) = (Arc::clone(shared), Arc::clone(&ends));
        thread::spawn(move || pass(&shared, &ends, direction, (&from, &to)));
    }
}

/// One direction, until its end.
fn pass(shared: &Shared, ends: &Ends, direction: Direction, (mut from, mut to): (&TcpStream, &TcpStream)) {
    let mut chunk = vec![0; CHUNK];
    let mut is_open = true;
    while is_open && !ends.is_cut.load(Ordering::SeqCst) {
        let count = match from.read(&mut chunk) {
            Ok(count) => Some(count),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(_) => Some(0),
        };
        if let (Some(1..), Fault::Delay(pause)) = (count, shared.fault()) {
            shared.wait(pause);
        }
        let passed = count.and_then(|count| chunk.get(..count)).unwrap_or_default();
        is_open = count != Some(0)
            && match shared.fault() {
                Fault::Reset => {
                    reset(from);
                    reset(to);
                    false
                }
                Fault::Refuse => false,
                Fault::Drop => true,
                Fault::DropAnswers if direction == Direction::ToClient => true,
                Fault::Truncate(bytes) if direction == Direction::ToClient && !passed.is_empty() => {
                    let _ = to.write_all(passed.get(..bytes).unwrap_or(passed));
                    false
                }
                _ => to.write_all(passed).is_ok(),
            };
    }
    ends.is_cut.store(true, Ordering::SeqCst);
    // With a linger of 0 the last descriptor's end sends RST; a shutdown would send FIN before it.
    if shared.fault() != Fault::Reset {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// What is closed after this is reset.
fn reset(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Answers every chunk with itself.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut chunk = [0; 1024];
                    while let Ok(count @ 1..) = stream.read(&mut chunk) {
                        if stream.write_all(&chunk[..count]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn connected(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn asked(stream: &mut TcpStream, text: &str) -> String {
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn an_open_connection_is_swallowed_and_goes_on() {
        let proxy = Proxy::to(echo());
        let mut stream = connected(&proxy);
        assert_eq!(asked(&mut stream, "one"), "one");
        for fault in [Fault::Drop, Fault::DropAnswers] {
            proxy.set(fault);
            stream.write_all(b"lost").unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            assert!(stream.read(&mut [0; 8]).is_err(), "{fault:?}");
            proxy.set(Fault::Pass);
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(asked(&mut stream, "two"), "two", "{fault:?}");
        }
        assert_eq!(proxy.accepted(), 1);
    }

    #[test]
    fn answers_are_truncated_and_connections_end() {
        let proxy = Proxy::to(echo());
        let mut stream = connected(&proxy);
        proxy.set(Fault::Truncate(2));
        stream.write_all(b"four").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "fo");

        let mut stream = connected(&proxy);
        proxy.set(Fault::Refuse);
        assert!(matches!(stream.read(&mut [0; 8]), Ok(0)));
        assert!(matches!(connected(&proxy).read(&mut [0; 8]), Ok(0)));
    }

    #[test]
    fn open_and_new_connections_are_reset() {
        let proxy = Proxy::to(echo());
        let mut stream = connected(&proxy);
        assert_eq!(asked(&mut stream, "one"), "one");
        proxy.set(Fault::Reset);
        assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(connected(&proxy).read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        proxy.set(Fault::Pass);
        assert_eq!(asked(&mut connected(&proxy), "two"), "two");
    }

    #[test]
    fn a_delay_ends_with_another_fault_and_new_connections_go_elsewhere() {
        let proxy = Proxy::to(echo());
        let mut stream = connected(&proxy);
        proxy.set(Fault::Delay(Duration::from_secs(3_600)));
        stream.write_all(b"late").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(stream.read(&mut [0; 8]).is_err());
        proxy.set(Fault::Delay(Duration::from_millis(1)));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"late");

        // Nobody listens there any more.
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        proxy.point_at(nobody);
        assert!(matches!(connected(&proxy).read(&mut [0; 8]), Ok(0)));
        assert_eq!(asked(&mut stream, "same"), "same");
    }
}
