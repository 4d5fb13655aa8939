# Two commands on a fresh machine: `make demo` and `make test`. Each target does its own set-up.

WASM_TARGET := wasm32-unknown-unknown
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FAREBOX := $(TARGET_DIR)/debug/farebox
CARGO_DENY_VERSION := ^0.18
SCHEMATHESIS_VERSION := 4.32.5
SCHEMATHESIS_PORT := 8099

AGENT := $(TARGET_DIR)/release/farebox-agent

.DEFAULT_GOAL := help
.PHONY: help demo test check bench throughput live-usage schemathesis agent-soak gpu-check policies farebox fmt wasm-target redis-server cargo-deny

help: ## what there is to make
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: policies ## serve the fixtures, show one quote, go on serving (ARGS="--listen 127.0.0.1:9000")
	$(FAREBOX) demo $(ARGS)

test: wasm-target redis-server ## every test: rooms, properties, policies, real servers
	cargo test --workspace --no-fail-fast

check: wasm-target cargo-deny ## formatting, lints, docs, licences
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo deny --log-level error check --hide-inclusion-graph bans licenses sources

bench: policies ## what the sandbox costs, beside the native twin (docs/performance.md)
	cargo bench -p farebox-tests --bench pricing

throughput: policies ## quotes over HTTP beside a static route, by wrk (docs/performance.md)
	@which wrk >/dev/null || { echo "wrk is missing: apt-get install wrk" >&2; exit 1; }
	cargo bench -p farebox-tests --bench throughput

schemathesis: policies ## send what the OpenAPI document allows and forbids to a running gateway, seeded (needs python3)
	tests/schemathesis/run.sh $(FAREBOX) $(SCHEMATHESIS_VERSION) $(SCHEMATHESIS_PORT)

live-usage: policies redis-server ## quotes while Redis fails, a fleet of 10,000, random kills (docs/performance.md; ARGS="chaos 10")
	cargo bench -p farebox-tests --bench live_usage -- $(ARGS)

agent-soak: farebox ## CPU and memory of the agent with eight stand-in GPUs for ten minutes (docs/performance.md)
	cargo build --release -p farebox-metering --bin farebox-agent
	tests/agent-soak.sh $(TARGET_DIR)/release/farebox-agent $(TARGET_DIR)/debug/deps/libfake_nvml.so

gpu-check: ## the agent beside nvidia-smi, on a machine with GPUs (docs/gpu-check.md; AGENT=path of the built agent)
	timeout --foreground 400 gateway/metering/gpu-check.sh $(AGENT) $(OUT)

policies: farebox ## policies/* into target/policies/*.wasm, reproducibly
	rm -rf target/policies
	$(FAREBOX) policy build policies/*

# The tests are built with it: cargo would otherwise choose other features of the dependencies for `make test`, and build
# them all once more.
farebox: wasm-target
	cargo build --workspace --bins --tests

fmt: ## format everything
	cargo fmt --all

# Automatic installation of targets may be switched off, so it is asked for by name.
wasm-target:
	@rustup target list --installed | grep -qx $(WASM_TARGET) || rustup target add $(WASM_TARGET)

# Tests start servers of their own. A service of the system that comes with the package is not ours to change.
redis-server:
	@command -v redis-server >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server; \
		else \
			echo "redis-server is missing: apt-get install redis-server (6.2 or newer)" >&2; exit 1; \
		fi; }

cargo-deny:
	@cargo deny --version >/dev/null 2>&1 || cargo install cargo-deny --locked --version '$(CARGO_DENY_VERSION)'
