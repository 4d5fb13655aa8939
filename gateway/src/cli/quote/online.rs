//! Asking a running gateway.

use super::super::client::Client;
use super::super::quote_table::text;
use super::super::warn;
use super::{Answer, Failure, JsonFile};

/// Posts the snapshots, then the request. Each answer is awaited, so the quote has seen them.
pub(super) fn quote(server: &str, request: &JsonFile, snapshots: &[JsonFile]) -> Result<Answer, Failure> {
    let client = Client::of(server)?;
    for file in snapshots {
        let name = &file.name;
        let receipt = client.post_json("/v1/usage-snapshots", &file.bytes).map_err(|failure| failure.about(name))?;
        match text(&receipt, "/reason").as_deref() {
            None => {}
            Some("not_newer") => warn(&format!("{name} changes nothing: the gateway has a newer one; raise its `seq`")),
            Some("from_the_future") => {
                warn(&format!("{name} is from the gateway's future; are the clocks of the two machines in step?"));
            }
            Some(other) => warn(&format!("{name}: {other}")),
        }
    }
    let body = client.post("/v1/quotes", &request.bytes)?;
    Ok(Answer { body, recorder: None })
}
