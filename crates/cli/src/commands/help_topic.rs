//! `vitalfew help TOPIC`: the pages of docs/ that answer a newcomer's questions, in the terminal.

/// The pages by topic. Commands have their own help, so that no topic has the name of one.
const TOPICS: [(&str, &str); 7] = [
    ("tutorial", include_str!("../../../../docs/tutorial.md")),
    (
        "questions",
        include_str!("../../../../docs/which-command.md"),
    ),
    (
        "permissions",
        include_str!("../../../../docs/permissions.md"),
    ),
    (
        "troubleshooting",
        include_str!("../../../../docs/troubleshooting.md"),
    ),
    ("languages", include_str!("../../../../docs/languages.md")),
    ("formats", include_str!("../../../../docs/formats.md")),
    ("comparison", include_str!("../../../../docs/comparison.md")),
];

/// Returns the page that the command line asks for.
pub fn asked_page() -> Option<&'static str> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [help, topic] = words.as_slice() else {
        return None;
    };
    let mut pages = TOPICS.iter().filter(|(name, _)| topic == name);
    pages
        .next()
        .filter(|_| help == "help")
        .map(|(_, page)| *page)
}
