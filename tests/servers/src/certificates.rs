//! Certificates for TLS on loopback, made with the `openssl` command line into a directory of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

const AUTHORITY: &[&str] = &["req", "-x509", "-days", "2", "-subj", "/CN=farebox test authority"];
const REQUEST: &[&str] = &["req", "-new", "-subj", "/CN=localhost"];
const NEW_KEY: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout"];
const SIGN: &[&str] = &["x509", "-req", "-days", "2", "-CAcreateserial", "-extfile", "names", "-in", "server.csr"];

/// An authority and one server's certificate by it, for `localhost` and `127.0.0.1`. Removed when dropped.
#[derive(Debug)]
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    pub fn make() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("farebox-certificates-{}-{}", process::id(), MADE.fetch_add(1, Ordering::SeqCst));
        let directory = env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let made = Self { directory };
        fs::write(made.directory.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        made.openssl(&[AUTHORITY, NEW_KEY, &["authority.key", "-out", "authority.crt"]].concat());
        made.openssl(&[REQUEST, NEW_KEY, &["server.key", "-out", "server.csr"]].concat());
        made.openssl(&[SIGN, &["-CA", "authority.crt", "-CAkey", "authority.key", "-out", "server.crt"]].concat());
        made
    }

    /// PEM: whoever trusts it trusts the server.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("authority.crt")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.join("server.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.directory.join("server.key")
    }

    fn openssl(&self, arguments: &[&str]) {
        let made = Command::new("openssl").args(arguments).current_dir(Path::new(&self.directory)).output();
        let made =
            made.unwrap_or_else(|error| panic!("openssl is needed: {error}; install it: apt-get install openssl"));
        assert!(made.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&made.stderr));
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
