//! A request body that has to end in time, however it trickles.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// The client took too long to send its body. Found by walking the sources of the error that reading a body gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body did not end within {} s", timeout.as_secs_f32())]
pub struct BodyTooSlow {
    pub timeout: Duration,
}

pub(super) struct DeadlineBody {
    body: Incoming,
    timeout: Duration,
    deadline: Instant,
    /// Made when the body first has to be waited for, which for most it never has.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl DeadlineBody {
    pub(super) fn new(body: Incoming, timeout: Duration) -> Self {
        // A clock that cannot count that far does not limit anything.
        let now = Instant::now();
        Self { body, timeout, deadline: now.checked_add(timeout).unwrap_or(now), alarm: None }
    }
}

impl Body for DeadlineBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let deadline = self.deadline;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        match alarm.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(BodyTooSlow { timeout: self.timeout }.into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
