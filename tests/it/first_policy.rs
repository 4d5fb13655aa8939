//! The guide `docs/first-policy.md`, run: its shell blocks as they stand, in an empty folder, and its outputs held against
//! what was printed. `UPDATE_CASES=1` writes `docs/first-policy-recording.txt` anew.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

use crate::harness::{Folder, policies, root, updates_cases};

/// What a shell block of the guide holds, and what the guide says that it prints.
struct Block {
    commands: Vec<String>,
    /// Lines; each has its words on a line of the output, in this order.
    printed: Vec<String>,
}

#[test]
fn the_guide_does_what_it_says() {
    let blocks = blocks(&fs::read_to_string(root().join("docs/first-policy.md")).unwrap());
    assert!(blocks.len() >= 8, "only {} shell blocks", blocks.len());
    let stage = Stage::set();
    let said = stage.run(&blocks);
    let mut said = said.iter();
    let mut recording = String::new();
    for block in &blocks {
        let mut of_block = String::new();
        for command in &block.commands {
            let output = said.next().unwrap_or_else(|| panic!("nothing was run after:\n{recording}"));
            of_block.push_str(output);
            recording.push_str(&format!("$ {}\n{output}", command.replace('\n', "\n> ")));
        }
        check_printed(&block.printed, &of_block);
    }
    compare(&recording);
}

/// Shell blocks that are marked `sh`, with the `text` block that may follow each. `sh setup` depends on the machine.
fn blocks(guide: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match language {
            "sh" => blocks.push(Block { commands: commands(&inside), printed: Vec::new() }),
            "text" => blocks.last_mut().unwrap().printed = inside.iter().map(|line| (*line).to_owned()).collect(),
            "sh setup" => {}
            other => panic!("the guide has a block of `{other}`, which nobody checks"),
        }
    }
    blocks
}

/// Lines that belong together: a here-document, a loop.
fn commands(lines: &[&str]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut until, mut loops) = (None::<String>, 0);
    for line in lines {
        match commands.last_mut() {
            Some(command) if until.is_some() || loops > 0 => command.push_str(&format!("\n{line}")),
            _ => commands.push((*line).to_owned()),
        }
        if until.as_deref() == Some(*line) {
            until = None;
        } else if until.is_none() {
            let word = line.split_once("<<").filter(|(_, rest)| !rest.starts_with('<')).map(|(_, rest)| rest);
            until = word.map(|word| word.trim_matches('\'').to_owned());
            loops += usize::from(line.starts_with("for "));
            loops -= usize::from(*line == "done");
        }
    }
    commands
}

/// The folders that the guide speaks of.
struct Stage {
    folder: Folder,
}

impl Stage {
    /// The same folder in each run, so that only the policy is built anew; one for each checkout.
    fn set() -> Self {
        let mut hasher = DefaultHasher::new();
        root().hash(&mut hasher);
        let folder = Folder::at(std::env::temp_dir().join(format!("farebox-first-policy-{:x}", hasher.finish())));
        for inside in ["pricing", "bin", "farebox/target/policies"] {
            fs::create_dir_all(folder.join(inside)).unwrap();
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_farebox-under-test"), folder.join("bin/farebox")).unwrap();
        for component in fs::read_dir(policies()).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&component, folder.join("farebox/target/policies").join(component.file_name().unwrap())).unwrap();
        }
        let copied = Command::new("cp").arg("-r").arg(root().join("fixtures")).arg(folder.join("farebox")).status();
        assert!(copied.unwrap().success());
        Self { folder }
    }

    /// Runs all commands in one shell; gives what each printed, masked.
    fn run(&self, blocks: &[Block]) -> Vec<String> {
        let output = self.folder.join("output");
        let script = self.folder.join("script.sh");
        let commands = blocks.iter().flat_map(|block| &block.commands);
        let marked = commands.map(|command| format!("printf '\\036'\n{command}\n")).collect::<String>();
        fs::write(&script, format!("set -euo pipefail\nexec 2>&1\n{marked}")).unwrap();
        let path = std::env::var("PATH").unwrap();
        let status = Command::new("bash")
            .arg(&script)
            .current_dir(self.folder.join("pricing"))
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("CHECKOUT", self.folder.join("farebox"))
            .env("CARGO_TARGET_DIR", root().join("target/first-policy"))
            .env("LC_ALL", "C.UTF-8")
            .env_remove("UPDATE_CASES")
            .stdout(fs::File::create(&output).unwrap())
            .stderr(fs::File::options().append(true).open(&output).unwrap())
            .status()
            .unwrap();
        let printed = fs::read_to_string(&output).unwrap();
        assert!(status.success(), "a command of the guide fails:\n{printed}");
        printed.split('\u{1e}').skip(1).map(|part| self.masked(part)).collect()
    }

    /// The folders as the guide calls them, and nothing that differs from run to run.
    fn masked(&self, text: &str) -> String {
        let text = text.replace(self.folder.join("pricing").to_str().unwrap(), "~/pricing");
        let text = text.replace(self.folder.join("farebox").to_str().unwrap(), "~/farebox");
        let text = text.replace(root().to_str().unwrap(), "~/farebox");
        text.lines()
            .map(|line| format!("{}\n", line.split(' ').map(masked_word).collect::<Vec<_>>().join(" ")))
            .collect()
    }
}

fn masked_word(word: &str) -> String {
    if word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return "<sha256>".to_owned();
    }
    if word.starts_with("q_") {
        return "<quote>".to_owned();
    }
    let (bare, end) = word.strip_suffix(';').map_or((word, ""), |bare| (bare, ";"));
    if bare.len() >= 20 && bare.contains('T') && bare.ends_with('Z') && bare.starts_with("20") {
        return format!("<instant>{end}");
    }
    match word.split_once("http://127.0.0.1:") {
        Some((before, after)) => {
            let path = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
            let path = path.split_once("/q_").map_or(path.to_owned(), |(before, _)| format!("{before}/<quote>"));
            format!("{before}http://127.0.0.1:<port>{path}")
        }
        None => word.to_owned(),
    }
}

/// Every line of the guide has all its words on a line of the output; columns may be wider there.
fn check_printed(expected: &[String], output: &str) {
    let mut lines = output.lines();
    for line in expected {
        let words: Vec<&str> = line.split_whitespace().collect();
        let has_words = |found: &str| {
            let found: Vec<&str> = found.split_whitespace().collect();
            words.iter().all(|word| found.iter().any(|found| found == word || found.trim_end_matches(';') == *word))
        };
        assert!(lines.any(has_words), "the guide shows `{line}`, but this was printed:\n{output}");
    }
}

fn compare(recording: &str) {
    let file = root().join("docs/first-policy-recording.txt");
    if updates_cases() {
        fs::write(&file, recording).unwrap();
        return;
    }
    let recorded = fs::read_to_string(&file).unwrap();
    let (recorded, recording) = (without_costs(&recorded), without_costs(recording));
    let differs = recorded.lines().zip(recording.lines()).find(|(old, new)| old != new);
    assert!(recorded == recording, "{} is out of date at {differs:?}; UPDATE_CASES=1 writes it anew", file.display());
}

/// Fuel, sizes and ages change with every change of the SDK, the compiler or the hour; prices do not.
fn without_costs(recording: &str) -> String {
    let is_cost = |line: &str| ["bytes", "fuel", " ms", "shared"].iter().any(|word| line.contains(word));
    let lines = recording.lines().map(|line| {
        if !is_cost(line) {
            return format!("{line}\n");
        }
        let is_word = |word: &&str| word.chars().all(|letter| letter.is_ascii_alphabetic() || "_@-".contains(letter));
        let kept = line.split_whitespace().filter(is_word);
        format!("{}\n", kept.collect::<Vec<_>>().join(" "))
    });
    lines.collect()
}

#[test]
fn commands_are_told_apart() {
    let lines = [
        "one",
        "cat > x <<'E'",
        "two",
        "E",
        "for a in b; do",
        "  cat <<J",
        "for x",
        "J",
        "done",
        "read <<< y",
        "three",
    ];
    let found = commands(&lines);
    assert_eq!(found.len(), 5, "{found:?}");
    assert_eq!(found[1], "cat > x <<'E'\ntwo\nE");
    assert_eq!((found[3].as_str(), found[4].as_str()), ("read <<< y", "three"));
}
