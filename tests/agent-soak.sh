#!/usr/bin/env bash
# What the agent costs with eight GPUs at 1 Hz, on the stand-in driver: `make agent-soak`. CPU time and resident memory each half
# minute. The stand-in answers in the agent's own process, so that its work is counted too.
# usage: agent-soak.sh AGENT LIBRARY [SECONDS [GATEWAY]]
set -euo pipefail
export LC_ALL=C

agent=$1 library=$2 seconds=${3:-600} gateway=${4:-}
folder=$(mktemp -d)
pid=''
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Six driver samples a second, all fields, GPM, five processes on each device.
device() {
	local index=$1 process processes='' rows=''
	for process in 1 2 3 4 5; do
		processes+="{\"pid\":$((1000 * index + process)),\"memory\":1073741824,\"compute\":true},"
		rows+="{\"pid\":$((1000 * index + process)),\"at_us\":null,\"sm\":{\"constant\":15}},"
	done
	cat <<-JSON
		{"uuid":"GPU-00000000-0000-0000-0000-00000000070$index","name":"NVIDIA H100 80GB HBM3",
		 "memory_total":85899345920,"memory_used":{"wave":{"low":1000000000,"high":80000000000,"period_ms":97000}},
		 "power_mw":{"wave":{"low":90000,"high":690000,"period_ms":61000}},"power_limit_mw":700000,
		 "energy_mj":{"rising":{"base":5000,"per_second":400000}},
		 "clocks":{"sm":{"wave":{"low":345,"high":1980,"period_ms":41000}},"memory":{"constant":2619},"max_sm":1980},
		 "throttle_mask":0,
		 "gpu_samples":{"dated":{"every_ms":166,"value":{"wave":{"low":0,"high":100,"period_ms":53000}}}},
		 "memory_samples":{"dated":{"every_ms":166,"value":{"wave":{"low":0,"high":60,"period_ms":59000}}}},
		 "gpm":{"sm_util":{"wave":{"low":0,"high":90,"period_ms":53000}},"sm_occupancy":{"constant":40},
		        "tensor":{"constant":30},"dram":{"constant":25}},
		 "processes":[${processes%,}],"process_utilisation":[${rows%,}]}
	JSON
}
cp "$library" "$folder/libnvidia-ml.so.1"
{
	printf '{"devices":['
	for index in 0 1 2 3 4 5 6 7; do
		[ "$index" = 0 ] || printf ','
		device "$index"
	done
	printf ']}'
} >"$folder/libnvidia-ml.so.1.scenario.json"
{
	printf 'node = "soak"\ncontrol_listen = "127.0.0.1:0"\n'
	for index in 0 1 2 3 4 5 6 7; do
		printf '[[assignments]]\ngpu = "GPU-00000000-0000-0000-0000-00000000070%s"\ntenant = "acme"\njob = "job-%s"\n' "$index" "$index"
	done
	printf '[log]\nlevel = "warn"\n'
} >"$folder/agent.toml"

"$agent" --config "$folder/agent.toml" --library "$folder/libnvidia-ml.so.1" --state-dir "$folder/state" \
	--gateway "$gateway" &
pid=$!
ticks_a_second=$(getconf CLK_TCK)
echo 'seconds  cpu_s  cpu_percent  resident_kib  threads'
for ((second = 30; second <= seconds; second += 30)); do
	sleep 30
	read -r -a stat < <(sed 's/^.*) //' "/proc/$pid/stat")
	resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
	awk -v s="$second" -v t="$((stat[11] + stat[12]))" -v hz="$ticks_a_second" -v r="$resident" -v n="${stat[17]}" \
		'BEGIN { printf "%7d  %5.2f  %11.2f  %12d  %7d\n", s, t / hz, 100 * t / hz / s, r, n }'
done
