//! Commands that show more of a finding.

/// Returns the words of a command line: `vitalfew`, then these.
pub fn command_words(words: &[&str]) -> Vec<String> {
    let words = words.iter().map(|word| (*word).to_owned());
    std::iter::once("vitalfew".to_owned())
        .chain(words)
        .collect()
}
