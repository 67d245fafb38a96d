//! Output of commands, word for word (tests/cmd/). To write them anew: TRYCMD=overwrite.

#[test]
fn commands_print_what_they_did() {
    let database = tempfile::tempdir().expect("a temporary directory");
    trycmd::TestCases::new()
        .case("tests/cmd/*.trycmd")
        .env(
            "VITALFEW_DB",
            database.path().join("db").display().to_string(),
        )
        .env("COLUMNS", "100");
}
