//! `gpu-check.sh` with stand-ins for nvidia-smi, a load tool and the agent. The real ones it has yet to meet; what is tested is
//! that it reads recordings and nvidia-smi's XML, tells differences apart from agreement, and ends as it says.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use super::*;

/// Writes the recording beside it line by line, as the agent does.
const AGENT: &str = r#"#!/bin/bash
[ "$1" = --once ] && { echo "8 GPUs"; exit; }
trap 'exit 0' TERM
while read -r line; do
	echo "$line" >>"$2"
	sleep 0.05
done <"$(dirname "$0")/source.jsonl"
while :; do sleep 0.05; done
"#;

const SMI: &str = r#"#!/bin/bash
here=$(dirname "$0")
case $1 in
-L) cat "$here/list" ;;
-q) cat "$here/xml" ;;
--query-gpu=power.draw) for i in 1 2 3 4 5 6 7 8; do echo 301.50; done ;;
*) echo 580.95.05 ;;
esac
"#;

/// One board as nvidia-smi's XML has it, with the sections that have leaves of the same names.
fn board(index: usize, name: &str, used_mib: u64, power: &str) -> String {
    format!(
        r#"	<gpu id="00000000:0{index}:00.0">
		<product_name>{name}</product_name>
		<mig_mode>
			<current_mig>Disabled</current_mig>
		</mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<uuid>GPU-00000000-0000-0000-0000-00000000070{index}</uuid>
		<fb_memory_usage>
			<total>81920 MiB</total>
			<reserved>600 MiB</reserved>
			<used>{used_mib} MiB</used>
		</fb_memory_usage>
		<bar1_memory_usage>
			<total>131072 MiB</total>
			<used>1 MiB</used>
		</bar1_memory_usage>
		<gpu_power_readings>
			<power_state>P0</power_state>
			<average_power_draw>N/A</average_power_draw>
			<instant_power_draw>{power}</instant_power_draw>
		</gpu_power_readings>
		<module_power_readings>
			<power_draw>9999.00 W</power_draw>
		</module_power_readings>
		<clocks>
			<graphics_clock>1410 MHz</graphics_clock>
			<sm_clock>1410 MHz</sm_clock>
			<mem_clock>1593 MHz</mem_clock>
		</clocks>
		<max_clocks>
			<sm_clock>9 MHz</sm_clock>
		</max_clocks>
		<processes>
		</processes>
	</gpu>
"#
    )
}

/// A machine of stand-ins. The last board is as given.
fn machine(last: &str, ticks: &[Tick]) -> Place {
    let place = recorded(ticks);
    std::fs::rename(place.file(), place.0.join("source.jsonl")).unwrap();
    let mut list = String::new();
    let mut xml =
        "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n\t<driver_version>580.95.05</driver_version>\n".to_owned();
    for index in 0..8 {
        writeln!(list, "GPU {index}: NVIDIA A100-SXM4-80GB (UUID: GPU-…)").unwrap();
        xml.push_str(&if index < 7 {
            board(index, "NVIDIA A100-SXM4-80GB", 40_960, "301.50 W")
        } else {
            last.to_owned()
        });
    }
    xml.push_str("</nvidia_smi_log>\n");
    std::fs::write(place.0.join("list"), list).unwrap();
    std::fs::write(place.0.join("xml"), xml).unwrap();
    script(&place, "agent", AGENT);
    script(&place, "nvidia-smi", SMI);
    place
}

fn script(place: &Place, name: &str, text: &str) {
    let path = place.0.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn check(place: &Place) -> (Output, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu-check.sh");
    let out = place.0.join("out");
    let mut command = Command::new("/bin/bash");
    command.arg(script).arg(place.0.join("agent")).arg(&out).arg("1");
    command.env("PATH", format!("{}:/usr/bin:/bin", place.0.display()));
    let output = command.output().unwrap();
    (output, std::fs::read_to_string(out.join("report.md")).unwrap_or_default())
}

fn like_the_others() -> String {
    board(7, "NVIDIA A100-SXM4-80GB", 40_960, "301.50 W")
}

#[test]
fn without_a_gpu_the_check_says_so_in_one_sentence() {
    let place = machine(&like_the_others(), &[tick(0)]);
    let told = "gpu-check: there is no GPU here: nvidia-smi is missing or lists none; run this on a machine with an NVIDIA driver\n";
    std::fs::write(place.0.join("list"), "No devices found.\n").unwrap();
    let (output, _) = check(&place);
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(69), told));
    std::fs::remove_file(place.0.join("nvidia-smi")).unwrap();
    let (output, _) = check(&place);
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(69), told));
}

#[test]
fn an_agent_that_agrees_with_nvidia_smi_passes_idle_and_under_load() {
    let place = machine(&like_the_others(), &[tick(0), tick(1), tick(2)]);
    script(&place, "gpu-burn", "#!/bin/sh\nsleep 2\n");
    let (output, report) = check(&place);
    assert_eq!(output.status.code(), Some(0), "{}\n{report}", String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("0 values differ") && report.contains("Load: `gpu-burn`."), "{report}");
    let row = |text: &str| report.matches(text).count();
    assert_eq!(row("| memory total, MiB | 81920 | 81920 | agrees |"), 16, "eight boards, twice\n{report}");
    assert_eq!(row("| power, W | 301.50 | 301.5 | agrees |"), 16, "{report}");
    assert_eq!(row("| SM clock, MHz | 1410 | 1410 | agrees |"), 16, "{report}");
    assert!(report.contains("agent off | 2412.0 W") && report.contains("passes recorded | 3 |"), "{report}");
    assert_eq!(read_all(&place.0.join("out/recording.jsonl")).0.len(), 3, "one recording, whole");
    let (again, _) = check(&place);
    assert_eq!(again.status.code(), Some(0), "a second run replaces the first");
}

#[test]
fn each_value_that_differs_is_named_and_fails_the_check() {
    let other = board(7, "NVIDIA H200", 50_000, "78.00 W");
    let mut lacking = tick(0);
    lacking.devices[0].readings.0.remove(&Metric::SmClockMhz);
    let place = machine(&other, &[lacking]);
    let (output, report) = check(&place);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains("4 values differ"), "{report}");
    for row in [
        "0707 | name | NVIDIA H200 | NVIDIA A100-SXM4-80GB | **differs** |",
        "0707 | memory used, MiB | 50000 | 40960 | **differs** |",
        "0707 | power, W | 78.00 | 301.5 | **differs** |",
        "0700 | SM clock, MHz | 1410 |  | **the agent lacks it** |",
    ] {
        assert!(report.contains(row), "{row}\n{report}");
    }
    assert!(report.contains("Load: none: neither dcgmproftester"), "{report}");
}

#[test]
fn a_divided_board_is_compared_without_the_memory_that_is_its_instances() {
    let mut divided = tick(0);
    divided.devices[7].info.mig = true;
    divided.devices[7].readings.0.remove(&Metric::MemUsedBytes);
    let place = machine(&like_the_others(), &[divided]);
    let (output, report) = check(&place);
    assert_eq!(output.status.code(), Some(0), "{}\n{report}", String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("0707 | memory used, MiB | 40960 |  | under MIG, not compared |"), "{report}");
    assert!(report.contains("0707 | power, W | 301.50 | 301.5 | agrees |"), "{report}");
    assert!(report.contains("0700 | memory used, MiB | 40960 | 40960 | agrees |"), "{report}");
}

#[test]
fn a_board_that_only_one_of_them_sees_is_named() {
    let place = machine("", &[tick(0)]);
    let (output, report) = check(&place);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains("1 values differ") && report.contains("0707 | **nvidia-smi lacks it** |"), "{report}");
}

#[test]
fn an_agent_that_ends_by_itself_fails_the_check() {
    let place = machine(&like_the_others(), &[tick(0)]);
    script(&place, "agent", "#!/bin/sh\n[ \"$1\" = --once ]\n");
    let (output, _) = check(&place);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the agent has ended by itself; see"));
}
