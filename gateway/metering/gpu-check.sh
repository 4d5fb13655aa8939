#!/usr/bin/env bash
# The agent on real GPUs, beside nvidia-smi: `make gpu-check`. Needs the built agent and a driver, nothing else; takes three to
# four minutes. Writes report.md and recording.jsonl, and beside them what they were made of.
# usage: gpu-check.sh AGENT [OUT [SECONDS]]
# Ends with 0 if all agrees, 1 if something does not or the agent fails, 64 on wrong usage, 69 without a GPU.
set -euo pipefail
export LC_ALL=C

agent=${1:-}
out=${2:-${OUT:-target/gpu-check}}
seconds=${3:-60}
power_seconds=$(((seconds + 2) / 3))

# What may differ between two readings a moment apart: the larger of an absolute and a relative (per cent) part.
memory_total_mib=1
memory_used_mib=64 memory_used_percent=2
power_w=15 power_percent=15
clock_mhz=100 clock_percent=10
# The agent's budget, of one core and resident.
most_cpu_percent=1.0 most_resident_kib=20480

pid='' load_pid=''
# Asks a process of ours to end, and ends it after ten seconds; its exit status.
end() {
	local tries
	kill -TERM "$1" 2>/dev/null || true
	for ((tries = 0; tries < 50; tries++)); do
		kill -0 "$1" 2>/dev/null || break
		sleep 0.2
	done
	kill -KILL "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null
}
stop() {
	[ -z "$load_pid" ] || end "$load_pid" || true
	[ -z "$pid" ] || end "$pid" || true
	load_pid='' pid=''
}
trap stop EXIT
trap 'exit 1' INT TERM

fail() {
	echo "gpu-check: $2" >&2
	exit "$1"
}

# Mean of the boards' power together over so many seconds, a sample each second; W.
mean_power() {
	local second
	for ((second = 0; second < $1; second++)); do
		timeout 10 nvidia-smi --query-gpu=power.draw --format=csv,noheader,nounits || true
		echo end
		sleep 1
	done | awk '
		$1 == "end" { if (seen) { total += sum; count++ }; sum = 0; seen = 0; next }
		$1 ~ /^[0-9.]+$/ { sum += $1; seen = 1 }
		END { if (count) printf "%.1f\n", total / count; else print "unknown" }'
}

# Clock ticks of CPU time that the agent has had; nothing once it has ended.
cpu_ticks() {
	# The command's name is in parentheses and may hold anything; the fields counted here follow it.
	sed 's/^.*) //' "/proc/$pid/stat" 2>/dev/null | awk '{ print $12 + $13 }'
}

resident_kib() {
	awk -v field="$1:" '$1 == field { print $2 }' "/proc/$pid/status" 2>/dev/null || true
}

# `nvidia-smi -q -x` as lines: uuid, name, memory total, memory used, power, SM clock, memory clock, by tabs.
of_smi() {
	awk '
		function path(  level, text) { for (level = 1; level <= depth; level++) text = text "/" open[level]; return text }
		function take(name, value) { if (!(name in found) && value !~ /N\/A/) found[name] = value }
		{ sub(/^[ \t]+/, "") }
		/^<gpu id=/ { delete found; depth = 0; inside = 1; next }
		/^<\/gpu>/ {
			power = "power" in found ? found["power"] : "instant" in found ? found["instant"] : found["average"]
			printf "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", found["uuid"], found["name"], found["total"], found["used"], power + 0 == 0 ? "" : power, found["sm"], found["mem"]
			inside = 0; next
		}
		!inside { next }
		/^<[a-z_0-9]+>[^<]*<\/[a-z_0-9]+>$/ {
			tag = $0; sub(/^</, "", tag); sub(/>.*/, "", tag)
			value = $0; sub(/^<[^>]*>/, "", value); sub(/<.*/, "", value)
			at = path() "/" tag; number = value; sub(/ .*/, "", number)
			if (at == "/uuid") take("uuid", value)
			if (at == "/product_name") take("name", value)
			if (at == "/fb_memory_usage/total") take("total", number)
			if (at == "/fb_memory_usage/used") take("used", number)
			if (at ~ /^\/(gpu_)?power_readings\/power_draw$/) take("power", number)
			if (at == "/gpu_power_readings/instant_power_draw") take("instant", number)
			if (at == "/gpu_power_readings/average_power_draw") take("average", number)
			if (at == "/clocks/sm_clock") take("sm", number)
			if (at == "/clocks/mem_clock") take("mem", number)
			next
		}
		/^<\// { if (depth) depth--; next }
		/^<[a-z_0-9]+( [^>]*[^\/])?>$/ { tag = $1; gsub(/[<>]/, "", tag); open[++depth] = tag }' "$1"
}

# The newest whole line of the recording in the same form, and `mig` where a board is divided. Rows of devices come before those of instances.
of_recording() {
	local layout line
	layout=$(grep '"layout":' "$1" | tail -n 1) || return 0
	line=$(tail -n 2 "$1" | grep '^{"wall_us":.*}$' | tail -n 1) || return 0
	column() { sed -n "s/.*\"$1\":\[\([0-9nul,]*\)\].*/\1/p" <<<"$line" | tr ',' '\n'; }
	infos() { grep -o '"info":{[^}]*}' <<<"$layout"; }
	paste <(infos | sed 's/.*"uuid":"\([^"]*\)".*/\1/') \
		<(infos | sed 's/.*"name":"\([^"]*\)".*/\1/') \
		<(infos | awk '{ if (match($0, /"memory_total_bytes":[0-9]+/)) printf "%d\n", substr($0, RSTART + 21, RLENGTH - 21) / 1048576; else print "" }') \
		<(column mem_used_bytes | awk '{ print $1 == "null" ? "" : $1 / 1048576 }') \
		<(column power_w | awk '{ print $1 == "null" ? "" : $1 / 1000 }') \
		<(column sm_clock_mhz | sed 's/null//') \
		<(column mem_clock_mhz | sed 's/null//') \
		<(infos | awk '{ print /"mig":true/ ? "mig" : "" }') | grep '^GPU-' || true
}

# Two such tables beside each other, as rows of Markdown; the last line counts what differs.
compare() {
	awk -F '\t' -v total="$memory_total_mib" -v used="$memory_used_mib" -v used_share="$memory_used_percent" \
		-v power="$power_w" -v power_share="$power_percent" -v clock="$clock_mhz" -v clock_share="$clock_percent" '
		function row(what, smi, agent, absolute, share,  off, most, verdict) {
			if (smi == "" && agent == "") verdict = "neither has it"
			else if (smi == "") verdict = "only the agent has it"
			else if (agent == "") { verdict = "**the agent lacks it**"; bad++ }
			else if (absolute == "") { verdict = smi == agent ? "same" : "**differs**"; bad += smi != agent }
			else {
				off = smi - agent; if (off < 0) off = -off
				most = smi * share / 100; if (most < absolute) most = absolute
				verdict = off <= most ? "agrees" : "**differs**"; bad += off > most
			}
			printf "| %s | %s | %s | %s | %s |\n", uuid, what, smi, agent, verdict
		}
		NR == FNR { agent[$1] = $0; next }
		{
			uuid = $1; seen[uuid] = 1; split(agent[uuid], its, FS)
			row("uuid", $1, its[1])
			if (!(uuid in agent) || agent[uuid] == "") next
			row("name", $2, its[2]); row("memory total, MiB", $3, its[3], total, 0)
			# Under MIG the agent reads the memory of the instances, and none of the board.
			if (its[8] == "mig") printf "| %s | memory used, MiB | %s |  | under MIG, not compared |\n", uuid, $4
			else row("memory used, MiB", $4, its[4], used, used_share)
			row("power, W", $5, its[5], power, power_share)
			row("SM clock, MHz", $6, its[6], clock, clock_share); row("memory clock, MHz", $7, its[7], clock, clock_share)
		}
		END {
			for (uuid in agent) if (agent[uuid] != "" && !(uuid in seen)) { printf "| %s | uuid |  | %s | **nvidia-smi lacks it** |\n", uuid, uuid; bad++ }
			print bad + 0
		}' "$1" "$2"
}

# Reads both at one moment and appends the comparison to the report's; the number of differences is added to `differences`.
differences=0
beside() {
	timeout 30 nvidia-smi -q -x >"$out/$1.xml" || fail 1 "nvidia-smi -q -x fails"
	# The tick after it: nvidia-smi takes its time.
	sleep 1.2
	of_smi "$out/$1.xml" >"$out/$1-smi.tsv"
	of_recording "$out/recording.jsonl" >"$out/$1-agent.tsv"
	compare "$out/$1-agent.tsv" "$out/$1-smi.tsv" >"$out/$1.rows"
	differences=$((differences + $(tail -n 1 "$out/$1.rows")))
}

# Starts a load on the first GPU where there is a tool for one; `load` says which.
load='none: neither dcgmproftester, gpu-burn nor python3 with torch is here'
start_load() {
	local tool
	tool=$(compgen -c dcgmproftester | sort -V | tail -n 1) || true
	if [ -n "$tool" ]; then
		load="\`$tool -t 1004\` (tensor pipes)"
		timeout $((seconds + 60)) "$tool" --no-dcgm-validation -t 1004 -d "$seconds" >"$out/load.log" 2>&1 &
	elif tool=$(command -v gpu-burn || command -v gpu_burn); then
		load="\`${tool##*/}\`"
		timeout $((seconds + 60)) "$tool" "$seconds" >"$out/load.log" 2>&1 &
	elif timeout 60 python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
		load='products of matrices by torch, with pauses'
		timeout $((seconds + 60)) python3 - "$seconds" >"$out/load.log" 2>&1 <<-'PYTHON' &
			import sys, time, torch
			a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
			end = time.monotonic() + float(sys.argv[1])
			while time.monotonic() < end:
			    for _ in range(20):
			        a @ a
			    torch.cuda.synchronize()
			    time.sleep(0.05)
		PYTHON
	else
		return 1
	fi
	load_pid=$!
}

alive() {
	kill -0 "$pid" 2>/dev/null || fail 1 "the agent has ended by itself; see $out/agent.log"
}

[[ $seconds =~ ^[1-9][0-9]{0,2}$ && $seconds -le 120 && -n $agent ]] || fail 64 'usage: gpu-check.sh AGENT [OUT [SECONDS, at most 120]]'
boards=$(timeout 30 nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || boards=0
[ "$boards" -gt 0 ] || fail 69 'there is no GPU here: nvidia-smi is missing or lists none; run this on a machine with an NVIDIA driver'
[ -x "$agent" ] || fail 1 "there is no agent at $agent; cargo build --release -p farebox-metering makes it"

mkdir -p "$out/state"
# The recorder overwrites nothing. What is left of an earlier run is this script's own.
rm -f "$out"/recording.jsonl "$out"/report.md "$out"/*.rows "$out"/*.tsv "$out"/*.xml

echo "gpu-check: $boards GPUs; about $(((2 * seconds + power_seconds) / 60 + 1)) minutes"
timeout 60 "$agent" --once >"$out/once.txt" 2>"$out/once.log" || fail 1 "farebox-agent --once fails; see $out/once.log"
power_off=$(mean_power "$power_seconds")

# An agent of its own, whatever else runs on this machine.
FAREBOX_AGENT_STATE_DIR="$out/state" FAREBOX_AGENT_CONTROL_LISTEN=127.0.0.1:0 \
	"$agent" --record "$out/recording.jsonl" >"$out/agent.log" 2>&1 &
pid=$!
sleep 1
alive
began=$(date +%s%N) before=$(cpu_ticks)
power_on=$(mean_power "$power_seconds")
beside idle
sleep $((seconds - power_seconds))
alive
after=$(cpu_ticks) ended=$(date +%s%N)
cpu=$(awk -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" -v span=$((ended - began)) \
	'BEGIN { printf "%.2f", 100 * ticks / hertz / (span / 1e9) }')
if start_load; then
	sleep $((seconds / 2))
	# Compared while it runs, if it does.
	kill -0 "$load_pid" 2>/dev/null || load="$load, which ended early; see load.log"
	beside load
	wait "$load_pid" || load="$load, which failed; see load.log"
	load_pid=''
fi
alive
resident=$(resident_kib VmRSS) peak=$(resident_kib VmHWM)
ending=$pid pid=''
end "$ending" || fail 1 "the agent does not end cleanly within 10 s of SIGTERM; see $out/agent.log"

ticks=$(($(wc -l <"$out/recording.jsonl") - 1))
within() { awk -v value="$1" -v most="$2" 'BEGIN { print value <= most ? "within" : "**over**" }'; }
rows() { sed '$d' "$out/$1.rows"; }
{
	echo '# The agent on real GPUs'
	echo
	echo "$(date -u +%Y-%m-%dT%H:%M:%SZ), driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1), $boards GPUs, $(uname -sr)."
	echo
	echo '## Cost'
	echo
	echo '| what | found | budget |'
	echo '|---|---|---|'
	echo "| CPU at 1 Hz, idle GPUs | $cpu % of a core | $most_cpu_percent %, $(within "$cpu" "$most_cpu_percent") |"
	echo "| resident at the end | $resident KiB | $most_resident_kib KiB, $(within "$resident" "$most_resident_kib") |"
	echo "| resident at most | $peak KiB | |"
	echo "| power of all boards, agent off | $power_off W over $power_seconds s | |"
	echo "| power of all boards, agent on | $power_on W over $power_seconds s | |"
	echo "| passes recorded | $ticks | |"
	echo
	echo 'Both powers are read by nvidia-smi once a second, which itself keeps a board from its deepest sleep.'
	echo
	echo '## Beside nvidia-smi -q -x'
	echo
	echo "$differences values differ. Tolerances, for readings a moment apart: memory total $memory_total_mib MiB; memory used"
	echo "$memory_used_mib MiB or $memory_used_percent %; power $power_w W or $power_percent %; clocks $clock_mhz MHz or $clock_percent %."
	for moment in idle load; do
		echo
		if [ "$moment" = load ]; then echo "Load: $load."; else echo 'Idle, as far as others leave the GPUs alone:'; fi
		[ -e "$out/$moment.rows" ] || continue
		echo
		echo '| GPU | what | nvidia-smi | agent | |'
		echo '|---|---|---|---|---|'
		rows "$moment"
	done
	echo
	echo '## farebox-agent --once'
	echo
	echo '```'
	cat "$out/once.txt"
	echo '```'
} >"$out/report.md"

echo "gpu-check: $out/report.md and $out/recording.jsonl are written; $differences values differ from nvidia-smi's"
[ "$differences" -eq 0 ]
