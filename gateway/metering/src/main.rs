//! `farebox-agent`: reads a host's GPUs and tells the gateway what their tenants used.

fn main() {}
