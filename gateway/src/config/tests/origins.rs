//! The web pages that may call.

use super::{KEY, load};

#[test]
fn origins_are_written_as_browsers_send_them() {
    for (value, is_fine) in [
        ("*", true),
        ("https://shop.example", true),
        ("http://127.0.0.1:5173,https://shop.example", true),
        ("", false),
        ("null", false),
        ("shop.example", false),
        ("https://", false),
        ("https://shop.example/", false),
        ("https://Shop.example", false),
        ("https://*.example", false),
        ("https://shop.example,", false),
        ("https://shop.example, *", false),
    ] {
        assert_eq!(load(None, &[KEY, ("FAREBOX_HTTP_CORS_ORIGINS", value)]).is_ok(), is_fine, "{value}");
    }
}
