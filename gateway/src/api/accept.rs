//! Which of two representations a request asks for (RFC 9110 §12.5.1).

use axum::http::{HeaderMap, header};

/// Thousandths of a weight.
const WHOLE: u16 = 1_000;

/// How much a media type is wanted, and how exactly it is named: not at all, by `*/*`, by `type/*`, by itself.
type Wish = (u16, u8);

/// True where a stream of events is wanted rather than JSON: its weight is higher, or it is as high and only the stream is
/// named. Whoever takes anything gets JSON, and so does who takes neither.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let (events, json) = (wish(headers, ("text", "event-stream")), wish(headers, ("application", "json")));
    events.0 > json.0 || (events.0 == json.0 && events.0 > 0 && events.1 == 3 && json.1 < 3)
}

/// The most exact range that the type is in decides.
fn wish(headers: &HeaderMap, wanted: (&str, &str)) -> Wish {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = values.flat_map(|value| value.split(','));
    let matching = ranges.filter_map(|range| {
        let (range, parameters) = range.split_once(';').unwrap_or((range, ""));
        let (kind, form) = range.trim().split_once('/')?;
        let exactness = match (kind, form) {
            ("*", "*") => 1,
            (kind, "*") if kind.eq_ignore_ascii_case(wanted.0) => 2,
            (kind, form) if kind.eq_ignore_ascii_case(wanted.0) && form.eq_ignore_ascii_case(wanted.1) => 3,
            _ => return None,
        };
        Some((weight(parameters).map_or(WHOLE, thousandths), exactness))
    });
    matching.max_by_key(|(weight, exactness)| (*exactness, *weight)).unwrap_or((0, 0))
}

/// `0.5` of `level=1;q=0.5`, as whatever is negotiated has it (RFC 9110 §12.4.2).
pub(super) fn weight(parameters: &str) -> Option<&str> {
    parameters.split(';').find_map(|parameter| {
        let (name, weight) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(weight.trim())
    })
}

/// Of `0.5`, 500. What is no weight is as if it were not there.
fn thousandths(weight: &str) -> u16 {
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "0" if decimals.len() <= 3 && is_digits(decimals) => format!("{decimals:0<3}").parse().unwrap_or(WHOLE),
        _ => WHOLE,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn asking(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        wants_events(&headers)
    }

    #[test]
    fn events_are_for_those_who_prefer_them() {
        let streaming: [&[&str]; 9] = [
            &["text/event-stream"],
            &["Text/Event-Stream"],
            &["text/event-stream; charset=utf-8"],
            &["text/event-stream, */*"],
            &["application/json;q=0.9, text/event-stream"],
            &["application/json; q=0.9", "text/event-stream; Q=0.901"],
            &["text/event-stream;q=0.1"],
            &["text/event-stream, */*;q=0.1"],
            &["text/*, application/json;q=0.5"],
        ];
        for values in streaming {
            assert!(asking(values), "{values:?}");
        }
        let reading: [&[&str]; 14] = [
            &[],
            &[""],
            &["*/*"],
            &["application/json"],
            &["application/json, text/event-stream"],
            &["text/event-stream, application/json"],
            &["text/event-stream;q=0"],
            &["text/event-stream;q=0.5, */*"],
            &["text/event-stream;q=0.5, application/*;q=0.501"],
            &["text/html, application/xhtml+xml, */*;q=0.8"],
            &["text/*;q=0.5, */*;q=0.5"],
            &["text/*, text/event-stream;q=0"],
            &["image/png"],
            &["nonsense, ;;, /"],
        ];
        for values in reading {
            assert!(!asking(values), "{values:?}");
        }
    }

    #[test]
    fn weights_are_read_to_three_decimals() {
        let read = ["0", "0.", "0.5", "0.05", "0.125", "1", "1.000", "0.1234", "x", ""].map(thousandths);
        assert_eq!(read, [0, 0, 500, 50, 125, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE]);
    }
}
