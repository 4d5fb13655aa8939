//! From the driver's device names to the price book's.

use std::collections::BTreeMap;

/// Before the model in names: vendor and product lines. `RTX` and `Quadro RTX` are part of the model.
const LINES: [&str; 3] = ["NVIDIA ", "Tesla ", "GeForce "];
/// Of snapshots' `gpu_model`, bytes.
const LONGEST: usize = 128;
/// For a device that has no name.
pub(super) const NAMELESS: &str = "unknown";

/// As the settings say, else by rule: what precedes the first `-` or space after the product line, where it has a digit
/// (`NVIDIA A100-SXM4-80GB`: `A100`), else all of it (`NVIDIA GeForce RTX 4090`: `RTX 4090`). `None`: it says no name.
pub(super) fn model_of(name: &str, models: &BTreeMap<String, String>) -> Option<String> {
    let model = models.get(name).map_or_else(|| by_rule(name), String::as_str);
    presentable(model)
}

fn by_rule(name: &str) -> &str {
    let mut model = name.trim();
    for line in LINES {
        model = model.strip_prefix(line).unwrap_or(model).trim_start();
    }
    let first = model.split(['-', ' ']).next().unwrap_or_default();
    if first.bytes().any(|byte| byte.is_ascii_digit()) { first } else { model }
}

/// A name that snapshots take, whatever the driver said.
fn presentable(model: &str) -> Option<String> {
    let mut text: String = model.chars().filter(|letter| !letter.is_control()).collect();
    while text.len() > LONGEST {
        text.pop();
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_names_become_the_price_books() {
        let table = [
            ("NVIDIA A100-SXM4-80GB", "A100"),
            ("NVIDIA A100 80GB PCIe", "A100"),
            ("NVIDIA H100 80GB HBM3", "H100"),
            ("NVIDIA H200", "H200"),
            ("NVIDIA GB200", "GB200"),
            ("NVIDIA L40S", "L40S"),
            ("NVIDIA A10G", "A10G"),
            ("Tesla V100-SXM2-16GB", "V100"),
            ("Tesla T4", "T4"),
            ("NVIDIA GeForce RTX 4090", "RTX 4090"),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop GPU"),
            ("NVIDIA RTX A6000", "RTX A6000"),
            ("NVIDIA TITAN V", "TITAN V"),
            ("Graphics Device", "Graphics Device"),
        ];
        for (name, model) in table {
            assert_eq!(model_of(name, &BTreeMap::new()).as_deref(), Some(model), "{name}");
        }
        assert_eq!(["", " ", "\u{7}\n"].map(|name| model_of(name, &BTreeMap::new())), [const { None }; 3]);
        assert!(model_of(&"X".repeat(500), &BTreeMap::new()).unwrap().len() <= LONGEST);
    }

    #[test]
    fn the_settings_have_the_last_word() {
        let models = BTreeMap::from([("NVIDIA H100 80GB HBM3".to_owned(), "H100-SXM".to_owned())]);
        assert_eq!(model_of("NVIDIA H100 80GB HBM3", &models).unwrap(), "H100-SXM");
        assert_eq!(model_of("NVIDIA H100 PCIe", &models).unwrap(), "H100");
    }
}
