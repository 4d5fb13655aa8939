//! A feed's own connection: every answer within a time, and what went wrong in words.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, Pipeline, RedisError, ServerError, Value};
use tokio::time::timeout;

use crate::redis::link::describe;

/// A round waits up to a second for entries; a link that is slow by two seconds each way takes four more. What is silent for
/// longer is gone, and a connection to it is made anew.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// Why a connection is given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("Redis has not answered for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("{}", describe(.0))]
    Redis(#[from] RedisError),
    #[error("{}", describe(&RedisError::from(.0.clone())))]
    Refused(ServerError),
    #[error("Redis answers what no such command answers; is a key of the prefix used for something else?")]
    Strange,
}

pub(super) struct Line(MultiplexedConnection);

impl Line {
    pub(super) async fn open(client: &Client) -> Result<Self, Trouble> {
        // No response timeout: redis-rs's own, 500 ms, would end every wait for entries (`metering.md` case 19).
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(Some(PATIENCE));
        let opening = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Self(within(opening).await??))
    }

    /// One answer for each command, of which none is an error.
    pub(super) async fn ask<const N: usize>(&mut self, pipeline: &Pipeline) -> Result<[Value; N], Trouble> {
        let answers = self.send(pipeline).await?.into_iter().map(refused).collect::<Result<Vec<_>, _>>()?;
        answers.try_into().map_err(|_| Trouble::Strange)
    }

    /// As many answers as commands; `Nil` for a key that holds something of another kind.
    pub(super) async fn ask_for_values(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, Trouble> {
        let answers = self.send(pipeline).await?.into_iter();
        let value = |answer| match answer {
            Value::ServerError(error) if error.code() == "WRONGTYPE" => Ok(Value::Nil),
            answer => refused(answer),
        };
        answers.map(value).collect()
    }

    async fn send(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, Trouble> {
        Ok(within(self.0.send_packed_commands(pipeline, 0, pipeline.len())).await??)
    }
}

fn refused(answer: Value) -> Result<Value, Trouble> {
    match answer {
        Value::ServerError(error) => Err(Trouble::Refused(error)),
        answer => Ok(answer),
    }
}

impl Trouble {
    /// True where another connection would be answered alike, and this one still serves for other commands.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Redis(error) => matches!(error.kind(), ErrorKind::Server(_)),
            Self::Silent | Self::Strange => false,
        }
    }
}

async fn within<T>(answer: impl Future<Output = T>) -> Result<T, Trouble> {
    timeout(PATIENCE, answer).await.map_err(|_| Trouble::Silent)
}
