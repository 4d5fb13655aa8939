//! W3C Trace Context: the trace that a request belongs to, continued where the caller has begun one.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const VERSION: &str = "00";
/// The one flag of version 00.
const SAMPLED: u8 = 0x01;

/// The trace of a request, and our own span in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceContext {
    /// 32 lower-case hex digits: the request's id in the log and in problems.
    pub(super) trace_id: String,
    span_id: String,
    /// The caller records its part of the trace.
    is_sampled: bool,
}

impl TraceContext {
    /// That of the `traceparent` header; where there is none, several, or one that is not valid, a new one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut random = [0; 24];
        // Without randomness the ids are all zeros, which readers of traces take for "none".
        let _ = getrandom::fill(&mut random);
        let (trace, span) = random.split_at(16);
        let mut sent = headers.get_all(TRACEPARENT).iter();
        let parent = sent.next().filter(|_| sent.next().is_none()).and_then(|value| value.to_str().ok());
        let (trace_id, is_sampled) = match parent.and_then(parse) {
            Some((trace_id, is_sampled)) => (trace_id.to_owned(), is_sampled),
            None => (hex(trace), false),
        };
        Self { trace_id, span_id: hex(span), is_sampled }
    }

    /// The header that carries it on. Flags that version 00 does not know are not passed on.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let Self { trace_id, span_id, is_sampled } = self;
        let flags = if *is_sampled { "01" } else { "00" };
        HeaderValue::from_str(&format!("{VERSION}-{trace_id}-{span_id}-{flags}")).ok()
    }
}

/// Trace id, and whether it is sampled. A later version may append to what version 00 has, and nothing else.
fn parse(parent: &str) -> Option<(&str, bool)> {
    let mut fields = parent.splitn(5, '-');
    let (version, trace_id, span_id, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let has_form = is_hex(version, 2) && is_hex(trace_id, 32) && is_hex(span_id, 16) && is_hex(flags, 2);
    let is_known = version != "ff" && (version != VERSION || fields.next().is_none());
    let is_something = |id: &str| id.bytes().any(|digit| digit != b'0');
    let is_sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & SAMPLED != 0);
    (has_form && is_known && is_something(trace_id) && is_something(span_id)).then_some((trace_id, is_sampled))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(values: &[&str]) -> TraceContext {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        TraceContext::of(&headers)
    }

    #[test]
    fn a_trace_is_continued_under_a_span_of_our_own() {
        let context = of(&[PARENT]);
        assert_eq!(context.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
        let header = context.header().unwrap();
        let header = header.to_str().unwrap();
        assert!(header.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && header.ends_with("-01"), "{header}");
        assert_ne!(header, PARENT);
        assert_eq!(of(&[&PARENT.replacen("00", "cc", 1)]).trace_id, context.trace_id, "a later version");
        assert_eq!(of(&[&(PARENT.replacen("00", "cc", 1) + "-what-comes")]).trace_id, context.trace_id);
    }

    #[test]
    fn only_the_flag_that_we_know_is_carried_on() {
        for (sent, carried) in
            [("00", "-00"), ("01", "-01"), ("02", "-00"), ("03", "-01"), ("fe", "-00"), ("ff", "-01")]
        {
            let header = of(&[&PARENT.replace("-01", &format!("-{sent}"))]).header().unwrap();
            assert!(header.to_str().unwrap().ends_with(carried), "{sent}");
        }
    }

    #[test]
    fn what_is_not_a_traceparent_begins_a_new_trace() {
        let bad = [
            "",
            "x",
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &format!("{PARENT}-more"),
            &PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            &PARENT.replace("00f067aa0ba902b7", "0000000000000000"),
            &PARENT.replace("00f067aa0ba902b7", "00f067aa0ba902b"),
            &PARENT.replace("-01", ""),
            &PARENT.replace("-01", "-1"),
        ];
        for value in bad {
            let context = of(&[value]);
            assert_ne!(context.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736", "{value}");
            assert!(parse(context.header().unwrap().to_str().unwrap()).is_some(), "{value}");
        }
        assert_ne!(of(&[PARENT, PARENT]).trace_id, of(&[PARENT]).trace_id, "two are none");
    }
}
