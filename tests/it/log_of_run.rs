//! The log of the whole run, at its most talkative: kept to be read by tests, and no line of it may hold a secret.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

use farebox::telemetry::log_subscriber;

use crate::harness;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// How every compact JWS begins: `{"` in base64url.
const TOKEN: &str = "eyJ";

#[derive(Clone, Copy)]
struct Keep;

impl io::Write for Keep {
    /// Events come whole, one write each.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines().push(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines() -> std::sync::MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on everything that is logged in this process is kept.
pub fn keep() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        let mut settings = harness::config().log;
        settings.level = "trace".parse().unwrap();
        tracing::subscriber::set_global_default(log_subscriber(settings, || Keep)).unwrap();
    });
}

/// The lines so far that contain a text.
pub fn with(text: &str) -> Vec<String> {
    lines().iter().filter(|line| line.contains(text)).cloned().collect()
}

/// The first line with a key or a token in it. Called when a gateway has stopped, so that each test answers for its own.
pub fn leak() -> Option<String> {
    let is_leak =
        |line: &&String| line.contains(TOKEN) || line.contains(harness::SECRET) || line.contains(&"a".repeat(32));
    lines().iter().find(is_leak).cloned()
}
