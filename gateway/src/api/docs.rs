//! `/docs`: the API to read and to try in a browser. Swagger UI comes out of its package in this binary: no page of ours asks
//! anybody else for anything.

mod archive;

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

use super::problem::{Problem, ProblemBody};
use super::representation::Representation;
use super::{Gateway, gzip, reading};
use archive::Entry;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
/// Swagger UI styles elements as it makes them and has its icons in its style sheet; nothing else is not from here.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What is served under `/docs/`.
static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let ours = [("start.js", SCRIPT, include_str!("docs/start.js"))];
    let theirs = [("swagger-ui.css", STYLE), ("swagger-ui-bundle.js", SCRIPT)];
    let ours = ours.into_iter().map(|(name, media_type, text)| Asset::of(name, media_type, text.as_bytes()));
    let theirs = theirs.into_iter().filter_map(|(name, media_type)| {
        let entry = archive::entry(SWAGGER_UI_VENDORED, &format!("/dist/{name}"));
        entry.and_then(|entry| Asset::unpacked(name, media_type, &entry))
    });
    ours.chain(theirs).collect()
});
static PAGE: LazyLock<Asset> = LazyLock::new(|| Asset::of("", HTML, include_bytes!("docs/page.html")));

#[derive(Debug)]
struct Asset {
    name: &'static str,
    file: Representation,
}

impl Asset {
    fn of(name: &'static str, media_type: &'static str, plain: &'static [u8]) -> Self {
        Self { name, file: Representation::of(media_type, plain) }
    }

    /// Its gzip is what lies in the package, so that compressing costs nothing.
    fn unpacked(name: &'static str, media_type: &'static str, entry: &Entry<'static>) -> Option<Self> {
        let gzip = entry.deflated().map(|deflated| gzip::frame(deflated, entry.crc, entry.length).into());
        let file = Representation::of(media_type, entry.unpacked()?).with_gzip(gzip);
        Some(Self { name, file })
    }

    /// `kept` is for how long without asking again.
    fn answer(&self, headers: &HeaderMap, kept: &'static str) -> Response {
        let mut response = self.file.answer(headers, HeaderValue::from_static(kept));
        let always = [
            (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ];
        for (name, value) in always {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/docs", reading(page)).route("/docs/{file}", reading(asset))
}

/// This documentation, to read in a browser.
#[utoipa::path(get, path = "/docs", operation_id = "read_docs", tag = "operations", responses(
    (status = 200, description = "a page", body = String, content_type = "text/html; charset=utf-8"),
    (status = 304, description = "still the one that `If-None-Match` names"),
))]
pub(super) async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers, "no-cache")
}

/// A file of the documentation's page.
#[utoipa::path(get, path = "/docs/{file}", operation_id = "read_docs_file", tag = "operations",
    params(("file" = String, Path, description = "as the page names it", example = "start.js")),
    responses(
        (status = 200, description = "the file", content(
            (String = "text/javascript; charset=utf-8"), (String = "text/css; charset=utf-8"))),
        (status = 304, description = "still the one that `If-None-Match` names"),
        (status = 404, description = "`not-found`", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn asset(file: Result<Path<String>, PathRejection>, headers: HeaderMap) -> Result<Response, Problem> {
    let asset = file.ok().and_then(|Path(file)| ASSETS.iter().find(|asset| asset.name == file));
    let asset = asset.ok_or_else(|| Problem::not_found("the documentation has no such file; it begins at /docs"))?;
    Ok(asset.answer(&headers, "public, max-age=86400"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_page_names_is_here() {
        let page = include_str!("docs/page.html");
        let named: Vec<_> = page.split("\"docs/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(named.len(), 3);
        for name in named {
            let asset = ASSETS.iter().find(|asset| asset.name == name).unwrap_or_else(|| panic!("no {name}"));
            assert!(!asset.file.plain.is_empty());
        }
        assert!(!page.contains("://"), "the page asks somebody else");
    }

    #[test]
    fn the_package_is_read_to_the_byte() {
        for asset in ASSETS.iter().filter(|asset| asset.file.gzip.is_some()) {
            let gzip = asset.file.gzip.as_ref().unwrap();
            let (deflated, tail) = (&gzip[10..gzip.len() - 8], &gzip[gzip.len() - 8..]);
            let plain = miniz_oxide::inflate::decompress_to_vec(deflated).unwrap();
            assert_eq!(plain, asset.file.plain, "{}", asset.name);
            assert_eq!(tail[..4], crc32fast::hash(&plain).to_le_bytes());
            assert_eq!(tail[4..], u32::try_from(plain.len()).unwrap().to_le_bytes());
        }
    }
}
