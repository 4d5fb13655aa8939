//! The threads that price: a fixed number, with a bounded queue in front.
//!
//! Pricing is pure computing of tens of microseconds, but a policy near its fuel limit takes milliseconds, so it never
//! runs on the threads that serve connections. When the queue is full a request is refused at once: a queue that grows
//! only makes everyone wait for an answer that nobody wants any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crossbeam_channel::{Sender, TrySendError, bounded};
use tokio::sync::oneshot;

/// The guest's stack (256 KiB) lives on the thread's own, four times over.
const STACK_BYTES: usize = 2 * 1024 * 1024;

type Job = Box<dyn FnOnce() + Send>;

/// Dropping it ends the threads once the queue is empty.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    queue: Sender<Job>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("all workers are busy and the queue is full")]
    Overloaded,
    /// A defect: the panic was logged, the worker lives on.
    #[error("the work panicked")]
    Panicked,
}

impl Workers {
    pub(crate) fn start(threads: usize, queue_length: usize) -> std::io::Result<Self> {
        let (queue, jobs) = bounded::<Job>(queue_length);
        for number in 0..threads.max(1) {
            let jobs = jobs.clone();
            let work = move || {
                while let Ok(job) = jobs.recv() {
                    // The job's sender is dropped by the panic, which tells the request.
                    if catch_unwind(AssertUnwindSafe(job)).is_err() {
                        tracing::error!("a pricing worker panicked");
                    }
                }
            };
            thread::Builder::new().name(format!("pricing-{number}")).stack_size(STACK_BYTES).spawn(work)?;
        }
        Ok(Self { queue })
    }

    /// Runs `work` on a worker; not at all where the caller has gone away by the time that one is free.
    pub(crate) async fn run<Answer: Send + 'static>(
        &self,
        work: impl FnOnce() -> Answer + Send + 'static,
    ) -> Result<Answer, WorkError> {
        let (done, answer) = oneshot::channel();
        // What is logged over there belongs to this request.
        let span = tracing::Span::current();
        let job: Job = Box::new(move || {
            if done.is_closed() {
                return;
            }
            let _entered = span.entered();
            let _ = done.send(work());
        });
        match self.queue.try_send(job) {
            Ok(()) => answer.await.map_err(|_| WorkError::Panicked),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(WorkError::Overloaded),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crossbeam_channel::{RecvError, Sender};
    use tokio::task::{JoinHandle, yield_now};

    use super::{WorkError, Workers};

    /// Keeps the only worker busy until the sender is dropped.
    async fn occupy(workers: &Workers) -> (Sender<()>, JoinHandle<Result<Result<(), RecvError>, WorkError>>) {
        let (release, blocked) = crossbeam_channel::bounded::<()>(0);
        let (started, start) = tokio::sync::oneshot::channel();
        let busy = workers.clone();
        let running = tokio::spawn(async move {
            busy.run(move || {
                let _ = started.send(());
                blocked.recv()
            })
            .await
        });
        start.await.unwrap();
        (release, running)
    }

    async fn until_one_waits(workers: &Workers) {
        while workers.queue.is_empty() {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_a_panic_costs_one_answer() {
        let workers = Workers::start(1, 1).unwrap();
        assert_eq!(workers.run(|| panic!("expected by the test")).await, Err::<(), _>(WorkError::Panicked));
        let (release, running) = occupy(&workers).await;
        let queued = workers.clone();
        let waiting = tokio::spawn(async move { queued.run(|| 1).await });
        until_one_waits(&workers).await;
        assert_eq!(workers.run(|| 2).await, Err(WorkError::Overloaded));
        drop(release);
        assert!(running.await.unwrap().is_ok());
        assert_eq!(waiting.await.unwrap(), Ok(1));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_worked_on() {
        let workers = Workers::start(1, 2).unwrap();
        let (release, running) = occupy(&workers).await;
        let (queued, has_run) = (workers.clone(), Arc::new(AtomicBool::new(false)));
        let runs = Arc::clone(&has_run);
        let waiting = tokio::spawn(async move { queued.run(move || runs.store(true, Ordering::SeqCst)).await });
        until_one_waits(&workers).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        drop(release);
        assert!(running.await.unwrap().is_ok());
        while !workers.queue.is_empty() {
            yield_now().await;
        }
        assert_eq!(workers.run(|| 3).await, Ok(3), "the one worker has been past it");
        assert!(!has_run.load(Ordering::SeqCst));
    }
}
