/**
 * The search over call sequences, by clicking: start with one, zoom to longer ones, label it, and
 * see what all labels cover.
 */
import { useMemo } from "preact/hooks";
import { amount, grouped, percent, shortened } from "../model/format";
import {
  type Label,
  formatLabels,
  formatSteps,
  parseLabels,
  parseSteps,
  pathOfSteps,
  stepNames,
} from "../model/labels";
import { compilePattern } from "../model/search";
import { type Path, type Sequence, newCum, overlapOf, sequenceOf } from "../model/sequences";
import { callsOf } from "../model/subject";
import { SUGGESTERS, type Suggested, type Suggester, suggestedSequences, withoutOverlap } from "../model/suggest";
import { type Labelled, Coverage } from "../parts/coverage";
import { LabelForm } from "../parts/label-form";
import { Nearby } from "../parts/nearby";
import { ProfileEmpty } from "../parts/profile-empty";
import { costs, page, profile, tree, value, valueIndex, whole } from "../state/page";
import { change, route } from "../state/route";

/** Maximum number of sequences that are suggested or found. */
const LISTED = 14;

export function Bottlenecks() {
  const shown = profile.value;
  const calls = tree.value;
  const sums = costs.value;
  const which = valueIndex.value;
  const {
    path = "",
    labels: labelText = "",
    suggester = "",
    find = "",
    zoom = "",
    cutoff: cutoffText = "",
  } = route.value.params;
  const steps = useMemo(() => (shown ? stepNames(shown) : []), [shown]);
  const keys = useMemo(() => new Map(steps.map((step, method) => [step, method])), [steps]);
  const asked = useMemo(() => pathOfSteps(keys, parseSteps(path)), [keys, path]);
  const current = useMemo(() => (calls && asked ? sequenceOf(calls, which, asked) : null), [calls, which, asked]);
  const labels = useMemo(() => parseLabels(labelText), [labelText]);
  const labelled = useMemo(
    () => (calls ? labelledSequences(labels, keys, (one) => sequenceOf(calls, which, one)) : []),
    [labels, keys, calls, which],
  );
  const list = useMemo(
    () => (calls && sums && shown ? listed(suggester as Suggester | "", find, labelled) : []),
    [calls, sums, which, suggester, find, labelled],
  );
  const beside = (one: Suggested) =>
    Math.abs(one.amount - one.sequence.cum) <= 1e-9 * whole.value ? null : (
      <span class="quiet"> (of {percent(one.sequence.cum / whole.value)} with all that it calls)</span>
    );
  if (!shown || !calls || !sums || whole.value === 0) return <ProfileEmpty />;
  const cutoff = Number(cutoffText) > 0 && Number(cutoffText) <= 1 ? Number(cutoffText) : 0.95;
  const stepsOf = (one: Path) => one.map((method) => steps[method]!);
  const address = (one: Path) => ({ path: formatSteps(stepsOf(one)) });
  const open = (one: Path) => change(address(one));
  const text = (one: Path) => one.map((method) => shortened(shown.names[method]!, 50)).join(" › ");
  const setLabels = (next: readonly Label[]) => change({ labels: formatLabels(next) });
  const fresh = (sequence: Sequence) =>
    labelled.length === 0
      ? null
      : newCum(
          calls,
          which,
          sequence,
          labelled.map((one) => one.sequence),
        );
  const by = suggester === "" ? defaultSuggester() : suggester;
  return (
    <div class="bottlenecks">
      <h1>Bottlenecks</h1>
      <p class="quiet">
        A call sequence is methods that call each other, anywhere in a stack; its cost is what they and all below them
        cost, and what sequences share counts once. As in <code>vitalfew bottlenecks</code>.
      </p>
      <Coverage
        labelled={labelled}
        overlap={overlapOf(
          calls,
          which,
          labelled.map((one) => one.sequence),
        )}
        whole={whole.value}
        name={shortened(shown.name, 80)}
        missing={labels.filter((one) => !labelled.some((known) => known.label === one)).map((one) => one.name)}
        text={text}
        onOpen={open}
        onDrop={(label) => setLabels(labels.filter((one) => one !== label))}
        onClear={() => setLabels([])}
      />
      {path !== "" && !current && (
        <p role="alert">This profile has no call sequence {shortened(parseSteps(path).join(" › "), 200)}.</p>
      )}
      {current && (
        <section class="card" aria-label="The call sequence">
          <h2>The sequence</h2>
          <ol class="steps">
            {current.path.map((method, at) => (
              <li key={at}>
                {current.path.length === 1 ? (
                  <b>{shortened(shown.names[method]!, 100)}</b>
                ) : (
                  <button type="button" class="plain" title="This method alone" onClick={() => open([method])}>
                    {shortened(shown.names[method]!, 100)}
                  </button>
                )}
              </li>
            ))}
          </ol>
          <p data-testid="sequence-cost">
            <b>{percent(current.cum / whole.value)}</b> {amount(current.cum, value.value.unit)}, of it{" "}
            {percent(current.base / whole.value)} in the sequence itself; {grouped(current.ends.length)}{" "}
            {current.ends.length === 1 ? "context" : "contexts"}
            {labelled.length > 0 && `; ${percent(fresh(current)! / whole.value)} that no label has`}
          </p>
          <LabelForm
            names={[...new Set(labels.map((one) => one.name))]}
            own={labels.filter((one) => formatSteps(one.steps) === path).map((one) => one.name)}
            suggestion={shortened(shown.names[current.path.at(-1)!]!, 40)}
            onLabel={(name) => setLabels([...labels, { name, steps: stepsOf(current.path) }])}
          />
          <Nearby
            tree={calls}
            value={which}
            sequence={current}
            zoom={zoom !== "off"}
            cutoff={cutoff}
            whole={whole.value}
            names={shown.names}
            fresh={fresh}
            onOpen={open}
          />
        </section>
      )}
      <h2>Start with</h2>
      <div class="bar">
        <label>
          Suggester{" "}
          <select value={by} onChange={(event) => change({ suggester: event.currentTarget.value })}>
            {SUGGESTERS.filter(([name]) => name !== "Auto" || defaultSuggester() === "Auto").map(([name, what]) => (
              <option key={name} value={name}>
                {name}: {what}
              </option>
            ))}
          </select>
        </label>
        <label>
          Find{" "}
          <input
            type="search"
            value={find}
            placeholder="name or /regex/"
            onInput={(event) => change({ find: event.currentTarget.value }, true)}
          />
        </label>
      </div>
      <ul class="choices" aria-label="Suggested">
        {list.map((one) => (
          <li key={formatSteps(stepsOf(one.sequence.path))}>
            <button type="button" onClick={() => open(one.sequence.path)}>
              <b>{percent(one.amount / whole.value)}</b> {text(one.sequence.path.slice(-4))}
              {beside(one)}
            </button>
          </li>
        ))}
      </ul>
      {list.length === 0 && (
        <p class="quiet">
          {find === "" ? "Nothing to suggest: labels have all of it." : "Nothing has this in its name."}
        </p>
      )}
    </div>
  );
}

function labelledSequences(
  labels: readonly Label[],
  keys: ReadonlyMap<string, number>,
  measure: (path: Path) => Sequence | null,
): Labelled[] {
  const found = labels.flatMap((label) => {
    const path = pathOfSteps(keys, label.steps);
    const sequence = path && measure(path);
    return sequence ? [{ label, sequence }] : [];
  });
  return found.sort((a, b) =>
    a.label.name === b.label.name ? b.sequence.cum - a.sequence.cum : a.label.name < b.label.name ? -1 : 1,
  );
}

/** What is found by name, or suggested: the most first. */
function listed(suggester: Suggester | "", find: string, labelled: readonly Labelled[]): Suggested[] {
  const [shown, calls, sums, which] = [profile.value!, tree.value!, costs.value!, valueIndex.value];
  const pattern = compilePattern(find);
  if (find !== "") {
    if (typeof pattern !== "function") return [];
    const methods = [...shown.names.keys()].filter(
      (method) => sums.total[method]! > 0 && pattern(shown.names[method]!),
    );
    return methods
      .sort((a, b) => sums.total[b]! - sums.total[a]!)
      .slice(0, LISTED)
      .map((method) => ({ sequence: sequenceOf(calls, which, [method])!, amount: sums.total[method]! }));
  }
  const by = suggester === "" ? defaultSuggester() : suggester;
  if (by !== "Auto")
    return suggestedSequences(
      calls,
      which,
      sums,
      by,
      labelled.map((one) => one.sequence),
      LISTED,
    );
  return withoutOverlap(
    calls,
    which,
    autoPaths().flatMap((path) => sequenceOf(calls, which, path) ?? []),
  );
}

const defaultSuggester = (): Suggester => (autoPaths().length > 0 ? "Auto" : "HighCum");

/** What the search without an analyst found. */
function autoPaths(): Path[] {
  const shown = profile.value;
  const result = page.value?.results.find(
    (one) => one.schema === "vitalfew.bottlenecks-claims/1" && one["profile"] === shown?.name,
  );
  return shown
    ? (result?.claims?.list ?? []).map((claim) => callsOf(shown, claim)).filter((path) => path !== null)
    : [];
}
