//! A stream that fails when the head of a request does not arrive in time. Between two requests it waits: for how long an
//! idle connection is kept is another limit.
//!
//! What of a head has come together with what is before it, or while that is answered, is not told from it here: until its
//! next byte such a connection counts as idle, and its limit is that of an idle one and of a head together.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Whose turn it is on a connection: counts up when a request's head has arrived, and again when it is answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<AtomicUsize>);

pub(super) struct HeadTimeout<Stream> {
    stream: Stream,
    timeout: Duration,
    turns: Turns,
    /// The turn in which a head began to arrive, and until when it has to be here; `None`: whenever it comes.
    begun: Option<(usize, Option<Instant>)>,
    /// Made when a head first has to be waited for, which for most it never has.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Turns {
    pub(super) fn pass(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl<Stream> HeadTimeout<Stream> {
    /// A new connection owes its first head from the beginning.
    pub(super) fn new(stream: Stream, timeout: Duration, turns: Turns) -> Self {
        let begun = Some((turns.count(), deadline(timeout)));
        Self { stream, timeout, turns, begun, alarm: None }
    }
}

/// A clock that cannot count that far does not limit anything.
fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

impl<Stream: AsyncRead + Unpin> AsyncRead for HeadTimeout<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let turn = self.turns.count();
        if self.begun.is_some_and(|(begun, _)| begun != turn) {
            (self.begun, self.alarm) = (None, None);
        }
        let is_answering = turn % 2 == 1;
        match (polled, self.begun) {
            (Poll::Pending, Some((_, Some(deadline)))) if !is_answering => {
                let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
                alarm.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            (Poll::Ready(Ok(())), None) if !is_answering && buffer.filled().len() > filled => {
                self.begun = Some((turn, deadline(self.timeout)));
                Poll::Ready(Ok(()))
            }
            (polled, _) => polled,
        }
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for HeadTimeout<Stream> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
