//! S6: what the channel of a workload's image costs or saves.

use farebox_sdk::prelude::*;

parameters! {
    /// Images on offer. One that is not listed is refused.
    pub struct ImageChannel {
        pub channels: BTreeMap<String, Channel> = BTreeMap::from([
            channel("v2.4", "legacy", -10),
            channel("v2.6", "standard", 0),
            channel("v2.8-nightly", "nightly", 5),
        ]),
    }

    pub struct Channel {
        /// On the amount that enters the step.
        pub rate: Rate,
        /// What customers know it as: `legacy`.
        pub label: String,
    }
}

policy! {
    name: "image-channel",
    scope: line,
    reads: ["workload.image"],
    produces: ["*"],
    parameters: ImageChannel,
    evaluate: image_channel,
    narrow_produces: produces,
}

fn channel(image: &str, label: &str, percent: i32) -> (String, Channel) {
    (image.to_owned(), Channel { rate: Rate::percent(percent), label: label.to_owned() })
}

fn produces(parameters: &ImageChannel) -> Vec<String> {
    parameters.channels.keys().cloned().collect()
}

fn image_channel(parameters: &ImageChannel, line: Line) -> Result<Option<Adjustment>, Refusal> {
    let Some(image) = line.fact("workload.image") else { return Ok(None) };
    let Some(channel) = parameters.channels.get(image) else {
        let known: Vec<String> = parameters.channels.keys().map(|name| format!("`{name}`")).collect();
        let detail = format!("image `{image}` is not offered; known are {}", known.join(", "));
        return Err(Refusal::new("unknown_image", detail).at("/workload/image"));
    };
    let label = format!("Image {image} ({})", channel.label);
    Ok(Some(Adjustment::percent(image, label, channel.rate).because(format!("image {image}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_cases() {
        farebox_sdk::testing::golden_cases(&POLICY);
    }

    #[test]
    fn only_listed_images_are_produced() {
        assert_eq!(POLICY.configure("{}").unwrap().produces, ["v2.4", "v2.6", "v2.8-nightly"]);
    }
}
