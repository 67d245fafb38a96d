//! The files of AWS's tools with credentials and settings by profile: `~/.aws/credentials` and
//! `~/.aws/config`, or where `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` say.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The settings of a profile, from both files.
#[derive(Default)]
pub(crate) struct AwsProfile(BTreeMap<String, String>);

impl AwsProfile {
    /// Reads the profile that `AWS_PROFILE` names, else `default`.
    ///
    /// # Errors
    /// A sentence, if a file is unreadable or has no profile of the requested name.
    pub(crate) fn read_profile() -> Result<Self, String> {
        let asked = env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        let name = asked.as_deref().unwrap_or("default");
        let mut found = Self::default();
        let mut is_there = false;
        for (variable, file, section) in [
            ("AWS_CONFIG_FILE", "config", format!("profile {name}")),
            (
                "AWS_SHARED_CREDENTIALS_FILE",
                "credentials",
                name.to_owned(),
            ),
        ] {
            let Some(path) = file_path(variable, file) else {
                continue;
            };
            let text = match fs::read_to_string(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text.map_err(|error| format!("cannot read {}: {error}", path.display()))?,
            };
            for (head, settings) in parse_sections(&text) {
                if head == section || head == name {
                    is_there = true;
                    found.0.extend(settings);
                }
            }
        }
        match asked {
            Some(name) if !is_there => Err(format!(
                "there is no profile '{name}' (AWS_PROFILE) in the files of AWS credentials and settings"
            )),
            _ => Ok(found),
        }
    }

    /// Returns a setting.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a way to get credentials that the profile names and this program does not know.
    pub(crate) fn unsupported_source(&self) -> Option<&'static str> {
        let known = [
            "sso_session",
            "sso_start_url",
            "credential_process",
            "role_arn",
        ];
        known.into_iter().find(|name| self.get(name).is_some())
    }
}

fn file_path(variable: &str, name: &str) -> Option<PathBuf> {
    match env::var_os(variable) {
        Some(path) if !path.is_empty() => Some(path.into()),
        _ => Some(env::home_dir()?.join(".aws").join(name)),
    }
}

/// Returns the sections of a file: their heads, and their settings.
fn parse_sections(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut sections: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for line in text.lines() {
        // An indented line belongs to a nested setting.
        if line.starts_with(['#', ';', ' ', '\t']) {
            continue;
        }
        if let Some(head) = line.trim().strip_prefix('[') {
            let head = head.split(']').next().unwrap_or_default();
            let words: Vec<&str> = head.split_whitespace().collect();
            sections.push((words.join(" "), BTreeMap::new()));
        } else if let (Some((name, value)), Some(last)) =
            (line.split_once('='), sections.last_mut())
        {
            let name = name.trim().to_ascii_lowercase();
            last.1.insert(name, value.trim().to_owned());
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_their_settings() {
        let text = "# x\n[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = x\n[ profile  a ] ; y\nAWS_secret_access_key=a=b\n";
        let sections = parse_sections(text);
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[0].0, "default");
        assert_eq!(sections[0].1["region"], "eu-west-1");
        assert!(!sections[0].1.contains_key("endpoint_url"));
        assert_eq!(sections[1].0, "profile a");
        assert_eq!(sections[1].1["aws_secret_access_key"], "a=b");
    }
}
