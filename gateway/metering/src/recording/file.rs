//! A recording as a file: written one tick a system call, read one line at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::line::{Decoder, Encoder};
use super::{Header, HeaderFault, MAX_LINE, RecordingError};
use crate::tick::Tick;

/// Writes a recording. Nothing is held back: what was written before a kill is in the file.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
    encoder: Encoder,
    /// The line being written; its memory is kept.
    line: Vec<u8>,
    /// Bytes of whole lines in the file.
    whole: u64,
}

impl Recorder {
    /// A new file, with its header.
    ///
    /// # Errors
    /// [`RecordingError::Exists`], [`RecordingError::Create`] and [`RecordingError::Write`].
    pub fn create(path: &Path, header: &Header) -> Result<Self, RecordingError> {
        let file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(|source| match source.kind() {
                ErrorKind::AlreadyExists => RecordingError::Exists { path: path.to_owned() },
                _ => RecordingError::Create { path: path.to_owned(), source },
            })?;
        Self::onto(file, path, header)
    }

    pub(super) fn onto(file: File, path: &Path, header: &Header) -> Result<Self, RecordingError> {
        let (encoder, line) = (Encoder::default(), header.to_line());
        let mut recorder = Self { path: path.to_owned(), file, encoder, line, whole: 0 };
        recorder.put()?;
        Ok(recorder)
    }

    /// Adds a tick.
    ///
    /// # Errors
    /// [`RecordingError::Write`] and [`RecordingError::LongTick`]: the tick is missing, the file ends with the one before it,
    /// and the next may be tried.
    pub fn write(&mut self, tick: &Tick) -> Result<(), RecordingError> {
        self.line.clear();
        self.encoder.encode(tick, &mut self.line);
        // Without its end.
        let bytes = self.line.len().saturating_sub(1);
        if bytes > MAX_LINE {
            self.encoder.start_anew();
            self.line = Vec::new();
            return Err(RecordingError::LongTick { path: self.path.clone(), bytes });
        }
        self.put()
    }

    fn put(&mut self) -> Result<(), RecordingError> {
        let Err(source) = self.file.write_all(&self.line) else {
            self.whole += self.line.len() as u64;
            return Ok(());
        };
        self.encoder.start_anew();
        // Half a line before a whole one would spoil both. Where even this fails, the reader says which line it is.
        let cut = self.file.set_len(self.whole).and_then(|()| self.file.seek(SeekFrom::Start(self.whole)));
        if let Err(error) = cut {
            tracing::warn!(path = %self.path.display(), %error, "half a line could not be cut off the recording");
        }
        Err(RecordingError::Write { path: self.path.clone(), source })
    }
}

/// Reads a recording, one tick after the other; what was read is not kept.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    header: Header,
    lines: BufReader<File>,
    decoder: Decoder,
    /// The line read last; its memory is kept.
    text: Vec<u8>,
    number: u64,
    torn: bool,
}

impl Recording {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    /// [`RecordingError::Open`], [`RecordingError::Read`], [`RecordingError::NotARecording`], [`RecordingError::Version`] and
    /// [`RecordingError::LongLine`].
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let to_open = |source| RecordingError::Open { path: path.to_owned(), source };
        // A pipe could be read once only, and would block whoever replays it.
        if !std::fs::metadata(path).map_err(to_open)?.is_file() {
            let reason = "it is no regular file".to_owned();
            return Err(RecordingError::NotARecording { path: path.to_owned(), reason });
        }
        let file = File::open(path).map_err(to_open)?;
        let mut lines = BufReader::new(file);
        let mut text = Vec::new();
        let path = path.to_owned();
        let not_one = |reason: &str| RecordingError::NotARecording { path: path.clone(), reason: reason.to_owned() };
        match next_line(&mut lines, &mut text) {
            Err(source) => return Err(RecordingError::Read { path, source }),
            Ok(Next::End) => return Err(not_one("it is empty")),
            Ok(Next::Long) => return Err(not_one("its first line is too long")),
            Ok(Next::Line { .. }) => {}
        }
        let header = Header::parse(&text).map_err(|fault| match fault {
            HeaderFault::Version(version) => RecordingError::Version { path: path.clone(), version },
            HeaderFault::Reason(reason) => not_one(&reason),
        })?;
        Ok(Self { path, header, lines, decoder: Decoder::default(), text, number: 1, torn: false })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file ended within a line, as a kill leaves it. Known once [`Self::next_tick`] gave `None`.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// The next tick; `None` at the end. Half a last line is none, and is told in the log.
    ///
    /// # Errors
    /// [`RecordingError::Read`], [`RecordingError::BadLine`] and [`RecordingError::LongLine`]. There is no reading on after
    /// one: later lines may rest on the bad one.
    pub fn next_tick(&mut self) -> Result<Option<Tick>, RecordingError> {
        let next = next_line(&mut self.lines, &mut self.text)
            .map_err(|source| RecordingError::Read { path: self.path.clone(), source })?;
        let line = self.number + 1;
        let ended = match next {
            Next::End => return Ok(None),
            Next::Long => return Err(RecordingError::LongLine { path: self.path.clone(), line }),
            Next::Line { ended } => ended,
        };
        match self.decoder.decode(&self.text) {
            Ok(tick) => {
                self.number = line;
                Ok(Some(tick))
            }
            Err(_) if !ended => {
                self.torn = true;
                tracing::warn!(path = %self.path.display(), line, "the recording ends within a line; the tick is left out");
                Ok(None)
            }
            Err(reason) => Err(RecordingError::BadLine { path: self.path.clone(), line, reason }),
        }
    }
}

enum Next {
    /// `ended`: with a line end.
    Line {
        ended: bool,
    },
    Long,
    End,
}

/// Reads a line into the buffer, without its end, and never more than [`MAX_LINE`] of it.
fn next_line(lines: &mut BufReader<File>, text: &mut Vec<u8>) -> io::Result<Next> {
    text.clear();
    let most = MAX_LINE as u64 + 1;
    lines.by_ref().take(most).read_until(b'\n', text)?;
    let ended = text.last() == Some(&b'\n');
    if ended {
        text.pop();
    }
    Ok(match text.len() {
        0 if !ended => Next::End,
        length if length > MAX_LINE => Next::Long,
        _ => Next::Line { ended },
    })
}
