//! The findings of all methods have one form, the documented one.

use profile::{Finding, TimeKind};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn documented_schema() -> Value {
    let text = std::fs::read_to_string(repository("docs/finding.schema.json")).expect("the schema");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns the claims of a command, each checked against the schema and parsed again.
fn claims(args: &[&str]) -> Vec<Finding> {
    let output = Command::new(env!("CARGO_BIN_EXE_vitalfew"))
        .args(args)
        .output()
        .expect("vitalfew runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout).expect(&complaint);
    let claims = &json["claims"];
    assert_eq!(claims["schema"], profile::FINDING_SCHEMA, "{args:?}");
    let validator = jsonschema::validator_for(&documented_schema()).expect("a schema");
    let list = claims["list"].as_array().expect("a list");
    let read = |claim: &Value| {
        if let Err(error) = validator.validate(claim) {
            panic!("{args:?}: {error}: {claim:#}");
        }
        let finding: Finding = serde_json::from_value(claim.clone()).expect("a finding");
        assert_eq!(
            claim["sentence"],
            results::phrases::claim_sentence(&finding)
        );
        finding
    };
    let findings: Vec<Finding> = list.iter().map(read).collect();
    findings.iter().for_each(assert_next_runs);
    findings
}

/// Runs the command that shows more of a finding; commands that run a program are only checked for
/// it.
fn assert_next_runs(finding: &Finding) {
    let [program, command @ ..] = finding.next.as_slice() else {
        panic!("no command shows more: {finding:?}");
    };
    assert_eq!(program, "vitalfew");
    if command.starts_with(&["causal".to_owned(), "run".to_owned()]) {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_vitalfew"))
        .args(command)
        .stdin(Stdio::null())
        .output()
        .expect("vitalfew runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
}

/// Makes two folded files in which only `slow` doubles, and a third like the first.
fn folded_files(folder: &Path) -> [String; 3] {
    let file = |name: &str, slow: u32| {
        let path = folder.join(name);
        let rows = (0..40).map(|row| format!("main;same{row} {}\n", 2000 + row));
        let text: String = rows.chain([format!("main;slow {slow}\n")]).collect();
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    [
        file("a.folded", 3000),
        file("b.folded", 6000),
        file("c.folded", 3000),
    ]
}

#[test]
fn the_schema_is_that_of_the_types() {
    let generated = schemars::schema_for!(Finding);
    let mut generated = serde_json::to_value(generated).expect("JSON");
    let mut documented = documented_schema();
    if std::env::var_os("WRITE_SCHEMA").is_some() {
        let text = serde_json::to_string_pretty(&generated).expect("JSON");
        std::fs::write(repository("docs/finding.schema.json"), text + "\n").expect("written");
        documented = generated.clone();
    }
    for schema in [&mut generated, &mut documented] {
        schema.as_object_mut().expect("an object").remove("title");
    }
    assert!(
        generated == documented,
        "docs/finding.schema.json is another one; write it anew: WRITE_SCHEMA=1 cargo test -p vitalfew --test findings"
    );
}

/// The tree of time has a column for each kind.
#[test]
fn no_kind_of_time_is_left_out() {
    let schema = documented_schema();
    let kinds = schema["$defs"]["TimeKind"]["oneOf"].as_array();
    let kinds = kinds.expect("kinds").iter().map(|kind| &kind["const"]);
    let listed = TimeKind::ALL.map(|kind| serde_json::to_value(kind).expect("JSON"));
    assert_eq!(kinds.cloned().collect::<Vec<_>>(), listed);
}

/// Claims that need no action: the page leaves them out.
const NOT_ON_THE_PAGE: [&str; 2] = ["speedup_worthless", "speedup_unclear"];

#[test]
fn the_page_has_a_group_for_every_claim() {
    let groups = repository("web/src/model/claims.ts");
    let groups = std::fs::read_to_string(groups).expect("the page's groups");
    let schema = documented_schema();
    let claims = schema["$defs"]["Claim"]["oneOf"]
        .as_array()
        .expect("claims");
    assert!(claims.len() > 8, "{claims:?}");
    for claim in claims {
        let name = claim["const"].as_str().expect("a name");
        let is_grouped = [format!("  {name}: ["), format!("\"{name}\"")];
        let is_grouped = is_grouped.iter().any(|text| groups.contains(text));
        assert!(is_grouped || NOT_ON_THE_PAGE.contains(&name), "{name}");
    }
}

#[test]
fn causal_profiles_claim() {
    let profile = repository("crates/cli/tests/causal/search.json");
    let claims = claims(&["causal", "report", "--json", &profile.display().to_string()]);
    assert!(!claims.is_empty());
    assert!(claims.iter().all(|claim| claim.amount.interval.is_some()));
}

#[test]
fn interference_claims_what_is_lost_to_others() {
    let trace = repository("crates/cli/tests/interference/alone.trace");
    let claims = claims(&[
        "interference",
        "report",
        "--json",
        &trace.display().to_string(),
    ]);
    let [lost] = claims.as_slice() else {
        panic!("the caller loses nothing by itself: {claims:?}");
    };
    assert_eq!(lost.place.what.name(), "inner");
    let [low, high] = lost.amount.interval.expect("an interval");
    assert!(0.3 < low && high < 0.5, "{lost:?}");
}

#[test]
fn searches_claim_what_adds_most_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b, _] = folded_files(folder.path());
    let one = claims(&["bottlenecks", "--auto", "--json", &a]);
    let added: Vec<f64> = one.iter().map(|claim| claim.amount.value).collect();
    assert!(added.is_sorted_by(|a, b| a >= b), "{added:?}");
    let two = claims(&["bottlenecks", "--auto", "--json", &b, "--against", &a]);
    assert_eq!(two[0].place.what.name(), "slow");
}

#[test]
fn comparisons_claim_what_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b, c] = folded_files(folder.path());
    let changed = claims(&["diff", "--json", &a, &b]);
    let [slow] = changed.as_slice() else {
        panic!("{changed:?}");
    };
    assert_eq!(slow.place.what.name(), "slow");
    let [low, high] = slow.amount.interval.expect("an interval");
    assert!(low < 2.0 && 2.0 < high, "{slow:?}");
    assert_eq!(claims(&["diff", "--json", &a, &c]), []);
    let varying = claims(&["stats", "--json", &a, &b, &c]);
    assert_eq!(varying[0].place.what.name(), "slow");
}
