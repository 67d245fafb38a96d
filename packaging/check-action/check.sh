#!/usr/bin/env bash
# Compares COMMAND with BASE, and says the result in the job's summary and in the pull request. Fails if COMMAND is slower than allowed.
set -uo pipefail
options=(--base "$BASE" --fail-over "${FAIL_OVER:-5%}" --color never --no-pager)
[ -z "${RUNS:-}" ] || options+=(--runs "$RUNS")
# The words as a shell has them; what they run is the workflow's own choice.
eval "words=($COMMAND)"
text=$(vitalfew check "${options[@]}" -- "${words[@]}")
code=$?
case $code in
0) verdict=allowed says="not slower than allowed" ;;
4) verdict=unclear says="inconclusive: use more runs" ;;
6) verdict=slower says="slower than allowed" ;;
*) exit $code ;;
esac
echo "verdict=$verdict" >>"$GITHUB_OUTPUT"

comment=$(mktemp)
trap 'rm -f "$comment"' EXIT
# Tildes, because names in the text may have backticks.
printf '**vitalfew check: %s**\n\n~~~~~~text\n%s\n~~~~~~\n\nBase: `%s`\n' "$says" "$text" "$BASE" >"$comment"
cat "$comment" >>"$GITHUB_STEP_SUMMARY"
if [ "${COMMENT:-true}" = true ] && [ -n "${PULL_REQUEST:-}" ]; then
	gh pr comment "$PULL_REQUEST" --repo "$GITHUB_REPOSITORY" --edit-last --create-if-none --body-file "$comment" ||
		echo "::warning::the pull request has no comment: it needs the permission pull-requests: write"
fi
[ $code -ne 6 ]
