//! `/docs`: everything that the page needs comes from this server, and the policy on contents holds the browser to it.

use crate::harness::{Answer, TestGateway};

fn assert_is_guarded(answer: &Answer) {
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(!policy.contains("http") && !policy.contains("unsafe-eval") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn each_file_that_the_page_names_is_served_from_here() {
    let gateway = TestGateway::start();
    let page = gateway.get("/docs");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_is_guarded(&page);
    assert!(!page.body.contains("//"), "the page names another server");
    let named: Vec<&str> = page.body.split(['"', '\'']).filter(|text| text.starts_with("docs/")).collect();
    assert_eq!(named.len(), 3, "{named:?}");
    for name in named {
        let file = gateway.get(&format!("/{name}"));
        assert_eq!(file.status, 200, "{name}");
        assert_is_guarded(&file);
        let expected = match name.rsplit('.').next().unwrap() {
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            other => panic!("a .{other}"),
        };
        assert_eq!(file.header("content-type"), Some(expected), "{name}");
        assert_eq!(file.header("cache-control"), Some("public, max-age=86400"));
        let tag = file.header("etag").unwrap();
        let again = gateway.send("GET", &format!("/{name}"), &[("If-None-Match", tag)], &[]);
        assert_eq!((again.status, again.bytes.len()), (304, 0), "{name}");
    }
    let start = gateway.get("/docs/start.js").body;
    assert!(start.contains("url: \"openapi.json\"") && start.contains("validatorUrl: null"), "{start}");
    for missing in ["/docs/swagger-ui.js", "/docs/..%2f..%2fetc%2fpasswd", "/docs/page.html"] {
        assert_eq!(gateway.get(missing).problem(), "not-found", "{missing}");
    }
}

#[test]
fn what_lies_compressed_in_the_package_is_sent_as_it_lies() {
    let gateway = TestGateway::start();
    let path = "/docs/swagger-ui-bundle.js";
    let plain = gateway.get(path);
    let packed = gateway.send("GET", path, &[("Accept-Encoding", "gzip, deflate, br")], &[]);
    assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), (None, Some("gzip")));
    assert!(packed.bytes.len() * 3 < plain.bytes.len(), "{} of {}", packed.bytes.len(), plain.bytes.len());
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    assert_ne!(plain.header("etag"), packed.header("etag"));
    assert_eq!(packed.bytes[..4], [0x1f, 0x8b, 8, 0]);
}
