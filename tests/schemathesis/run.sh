#!/bin/sh
# Schemathesis against a gateway over the fixtures: `make schemathesis`. Runs from the repository's root.
# usage: run.sh FAREBOX VERSION PORT
set -eu
farebox=$1 version=$2 port=$3
venv=target/schemathesis-venv
out=target/schemathesis
root=http://127.0.0.1:$port

command -v curl >/dev/null || { echo "curl is missing; install it" >&2; exit 1; }
# A gateway that was there before would be tested in place of ours. 7: nobody accepts the connection.
answer=0
curl --silent --max-time 5 --output /dev/null "$root/" || answer=$?
if [ "$answer" -ne 7 ]; then
	echo "port $port is taken; choose another: make schemathesis SCHEMATHESIS_PORT=..." >&2
	exit 1
fi

if ! "$venv/bin/schemathesis" --version 2>/dev/null | grep -qF "$version"; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi

mkdir -p "$out"
FAREBOX_TOKENS_KEYS="schemathesis:$(head -c 32 /dev/urandom | base64)" FAREBOX_DATA_DIR=fixtures \
	FAREBOX_POLICIES_DIR=${POLICIES_DIR:-target/policies} FAREBOX_LISTEN=127.0.0.1:$port \
	"$farebox" serve 2>"$out/gateway.log" &
gateway=$!
trap 'kill "$gateway" 2>/dev/null || true; wait "$gateway" || true' EXIT
tries=0
until curl --silent --fail --output /dev/null "$root/readyz"; do
	tries=$((tries + 1))
	if [ "$tries" -gt 300 ] || ! kill -0 "$gateway" 2>/dev/null; then
		echo "the gateway does not start; see $out/gateway.log" >&2
		exit 1
	fi
	sleep 0.2
done
# Whoever took the port meanwhile would answer as well.
kill -0 "$gateway" 2>/dev/null || { echo "the gateway has ended; see $out/gateway.log" >&2; exit 1; }

"$venv/bin/schemathesis" --config-file tests/schemathesis/schemathesis.toml run "$root/openapi.json"
