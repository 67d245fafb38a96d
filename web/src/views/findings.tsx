/** The front: what to do, by what it is worth. */
import { useMemo } from "preact/hooks";
import { askedGroups } from "../model/asked";
import { type ClaimGroup, VITAL_FEW, commandOf, groupedClaims, isBeside, withoutRepeats } from "../model/claims";
import { paramsOfLine, procedureNamed } from "../model/code";
import type { Claim } from "../model/data";
import { evidenceParts, evidenceTexts, runGain, words } from "../model/evidence";
import { amount, commandLine, percent, printable, shortened, withInterval } from "../model/format";
import { lastPart, moduleOf } from "../model/identity";
import { formatSteps, stepNames } from "../model/labels";
import { type ClaimPlace, callNames, placeOfClaim, profilesOf } from "../model/subject";
import { Command } from "../parts/command";
import { Empty } from "../parts/empty";
import { Spark } from "../charts/curve";
import { type BarRow, saveBars } from "../charts/bars";
import { Axis, IntervalBar } from "../charts/interval";
import { SaveMenu } from "../parts/menu";
import { page } from "../state/page";
import type { Fragment } from "./causal";
import { change, linkTo, route } from "../state/route";

export function Findings() {
  const profiles = page.value?.profiles ?? [];
  const groups = groupedClaims(page.value?.results ?? [], profiles);
  const [first, repeats] = withoutRepeats(groups, profiles);
  return (
    <div class="findings">
      <h1>Findings</h1>
      {groups.length === 0 && (
        <Empty
          title={null}
          why="Nothing here claims anything: no method found a cost, a gain or a loss that matters."
          type={[
            "vitalfew record -g -- COMMAND",
            "vitalfew causal run -- COMMAND",
            "vitalfew interference run -- COMMAND",
          ]}
        />
      )}
      {first.map((group) => (
        <Group key={group.key} group={group} />
      ))}
      {repeats.length > 0 && (
        <details class="repeats" open={repeats.some((group) => route.value.params["all"] === group.key)}>
          <summary>
            What each method says by itself: {repeats.map((group) => group.question.toLowerCase()).join(", ")}
          </summary>
          {repeats.map((group) => (
            <Group key={group.key} group={group} />
          ))}
        </details>
      )}
      <Asked />
    </div>
  );
}

function Group({ group }: { readonly group: ClaimGroup }) {
  const all = route.value.params["all"] === group.key;
  const shown = all ? group.claims : group.claims.slice(0, VITAL_FEW);
  // Parts of a whole stand below the bar of the whole, on its scale.
  const most = group.exclusive
    ? 1
    : Math.max(0.01, ...shown.map((claim) => Math.abs(claim.amount.interval?.[1] ?? claim.amount.value)));
  const parts = shown.filter((claim) => !isBeside(claim));
  const rest = group.exclusive ? 1 - parts.reduce((sum, claim) => sum + claim.amount.value, 0) : null;
  return (
    <section class="card" aria-label={`${group.question}: ${group.about}, ${group.key}`}>
      <div class="bar">
        <h2>{group.question}</h2>
        <SaveMenu
          save={(how) =>
            saveBars(
              `${group.question} (${group.axis})${group.about && `: ${printable(group.about)}`}`,
              shown.map((claim) => barOf(claim, group, most)),
              how,
            )
          }
        />
      </div>
      <p class="quiet">
        {group.axis}
        {group.about && ` · ${shortened(group.about, 80)}`}
      </p>
      {group.exclusive && (
        <Shares claims={shown.map((claim) => (isBeside(claim) ? null : claim))} rest={Math.max(0, rest ?? 0)} />
      )}
      <ol class="claims">
        {shown.map((claim, at) => (
          <Row key={at} claim={claim} group={group} most={most} number={at + 1} />
        ))}
        {rest !== null && (
          <li class="rest">
            <span>Everything else</span>
            <span class="worth">{percent(Math.max(0, rest))}</span>
            {group.method === "cost" && <Waiting about={group.about} />}
          </li>
        )}
      </ol>
      <Axis most={most} show={group.show} />
      {!all && group.claims.length > VITAL_FEW && (
        <button type="button" onClick={() => change({ all: group.key })}>
          {group.claims.length - VITAL_FEW} more
        </button>
      )}
    </section>
  );
}

function Row({
  claim,
  group,
  most,
  number,
}: {
  readonly claim: Claim;
  readonly group: ClaimGroup;
  readonly most: number;
  readonly number: number;
}) {
  const { path } = claim.place.what;
  const shared = claim.evidence.find((one) => one["kind"] === "call_cost");
  const factor = group.exclusive && shared ? Number(shared["cost"]) / (Number(shared["new"]) || 1) : 1;
  return (
    <li class="claim">
      <p class="sentence">
        <span class="number" aria-hidden="true">
          {number}
        </span>{" "}
        {shortened(claim.sentence, 240)}
      </p>
      <Worth claim={claim} show={group.show} />
      <IntervalBar
        value={claim.amount.value}
        interval={claim.amount.interval}
        withShared={factor > 1.001 ? claim.amount.value * factor : undefined}
        most={most}
      />
      {path && path.length > 1 && (
        <p class="path">
          {path
            .slice(-6)
            .map((step) => shortened(step, 60))
            .join(" › ")}
          {claim.place.image && ` (${shortened(lastPart(claim.place.image), 40)})`}
        </p>
      )}
      <Picture claim={claim} group={group} />
      <ul class="evidence">
        {evidenceTexts(claim).map((text, at) => (
          <li key={at}>{text}</li>
        ))}
      </ul>
      {claim.doubts.length > 0 && (
        <p class="doubt">
          Doubt:{" "}
          {claim.doubts
            .map((doubt) => words(String(doubt["kind"] === "score" ? doubt["doubt"] : doubt["kind"])))
            .join(", ")}
        </p>
      )}
      <Links claim={claim} group={group} />
      {claim.next.length > 0 && <Command text={commandLine(claim.next)} />}
    </li>
  );
}

/** Where a finding leads to: each link says the program that it is about. */
function Links({ claim, group }: { readonly claim: Claim; readonly group: ClaimGroup }) {
  const { profiles } = page.value!;
  const place = useMemo(() => placeOfClaim(profiles, group, claim), [profiles, group.about, claim]);
  const view = linkToMethod(group, claim, place);
  if (!place)
    return (
      view && (
        <p class="links">
          <a href={view}>{group.viewName}</a>
        </p>
      )
    );
  const shown = profiles[place.profile]!;
  const profile = String(place.profile);
  const innermost = place.calls.at(-1)!;
  const method = { profile, method: shown.names[innermost]!, image: moduleOf(shown, innermost) };
  return (
    <p class="links">
      {place.line >= 0 && (
        <>
          <a href={linkTo("source", { profile, ...paramsOfLine(shown.lines!, place.line) })}>Source line</a>{" "}
        </>
      )}
      <a href={linkTo("flame", method)}>Flame graph</a> <a href={linkTo("sandwich", method)}>Callers and callees</a>
      {view && (
        <>
          {" "}
          <a href={view}>{group.viewName}</a>
        </>
      )}
    </p>
  );
}

/**
 * The view of the method that a finding is of, with its program chosen; null if the page does not
 * have that.
 */
function linkToMethod(group: ClaimGroup, claim: Claim, place: ClaimPlace | null): string | null {
  const { profiles } = page.value!;
  const own = place?.profile ?? profilesOf(profiles, group)[0];
  const profile = own === undefined ? {} : { profile: String(own) };
  switch (group.view) {
    case "causal":
      return linkTo("causal", { of: group.about });
    case "interference":
      return linkTo("interference", { of: group.about, block: callNames(claim).at(-1) ?? "" });
    case "compare": {
      const [a = -1, b = -1] = group.sets.map((name) => profiles.findIndex((one) => one.name === name));
      return linkTo("compare", a < 0 || b < 0 ? {} : { profile: String(a), against: String(b) });
    }
    case "source": {
      const { procedure = "" } = claim.place.what;
      const image = lastPart(claim.place.image ?? "");
      const at = [own ?? 0, ...profiles.keys()].find(
        (one) => procedureNamed(profiles[one]?.code?.procedures ?? [], procedure, image) >= 0,
      );
      return at === undefined ? null : linkTo("source", { profile: String(at), procedure, image });
    }
    default: {
      if (own === undefined) return null;
      const steps = place && stepNames(profiles[own]!);
      return linkTo(group.view, {
        ...profile,
        ...(place && steps ? { path: formatSteps(place.calls.map((method) => steps[method]!)) } : {}),
      });
    }
  }
}

/** A finding as a bar of a saved picture. */
function barOf(claim: Claim, group: ClaimGroup, most: number): BarRow {
  const { value, interval } = claim.amount;
  const gain = runGain(claim);
  return {
    text: printable(claim.sentence),
    worth: gain
      ? `run ${percent(gain.interval[0])} to ${percent(gain.interval[1])} shorter`
      : withInterval(value, interval, group.show),
    value: value / most,
    interval: interval && [interval[0] / most, interval[1] / most],
  };
}

/**
 * What a change gains comes first where it is known; the finding's own number, which the bar below
 * draws, beside it.
 */
function Worth({ claim, show }: { readonly claim: Claim; readonly show: (value: number) => string }) {
  const number = withInterval(claim.amount.value, claim.amount.interval, show);
  const gain = runGain(claim);
  if (!gain)
    return (
      <p class="worth">
        {number}
        {claim.amount.certainty === "upper_bound" && " at most"}
      </p>
    );
  const [low, high] = gain.interval;
  return (
    <p class="worth">
      run {percent(low)} to {percent(high)} shorter
      <span class="quiet">
        bar: its part of what all threads work, {number}
        {gain.assumes !== "" && (
          <>
            <br />
            {gain.assumes}
          </>
        )}
      </span>
    </p>
  );
}

/** The evidence as a small picture; the text below says the same. */
function Picture({ claim, group }: { readonly claim: Claim; readonly group: ClaimGroup }) {
  if (group.method === "causal") {
    const name = claim.place.what.line ?? claim.place.what.name;
    const results = page.value!.results.filter(
      (one) => one.schema === "vitalfew.causal/1" && one.claims && commandOf(one) === group.about,
    );
    const fragments = results.flatMap((one) => one["findings"] as readonly Fragment[]);
    const effect = fragments.find((one) => one.name === name)?.effects.find((one) => one.curve.length > 1);
    return effect ? <Spark effect={effect} /> : null;
  }
  const parts = evidenceParts(claim);
  if (parts.length === 0) return null;
  return (
    <div class="parts" aria-hidden="true">
      {parts.map(({ name, part }, at) => (
        <span
          key={at}
          class={name === "" ? "share else" : `share p${at % 3}`}
          style={{ width: `${100 * part}%` }}
          title={name}
        >
          {part > 0.1 ? shortened(name, Math.max(4, Math.floor(part * 90))) : ""}
        </span>
      ))}
    </div>
  );
}

/**
 * All of it as one bar: parts do not overlap, so that they cannot add up to more than the whole.
 */
function Shares({ claims, rest }: { readonly claims: readonly (Claim | null)[]; readonly rest: number }) {
  return (
    <div
      class="shares"
      role="img"
      aria-label={`Of the whole: ${claims.flatMap((claim, at) => (claim === null ? [] : `finding ${at + 1} ${percent(claim.amount.value)}`)).join(", ")}, everything else ${percent(rest)}`}
    >
      {claims.map(
        (claim, at) =>
          claim !== null && (
            <span key={at} class={`share s${at % 6}`} style={{ width: `${100 * claim.amount.value}%` }}>
              {claim.amount.value > 0.03 ? at + 1 : ""}
            </span>
          ),
      )}
      <span class="share else" style={{ width: `${100 * rest}%` }}>
        {rest > 0.12 ? "everything else" : ""}
      </span>
    </div>
  );
}

/** Waits of the recording that the costs are of: they are no part of it. */
function Waiting({ about }: { readonly about: string }) {
  const times = page.value!.profiles.find((one) => one.name === about)?.facts?.task_times;
  if (!times || times.blocked_ns === undefined) return null;
  const all = times.cpu_ns + (times.waiting_ns ?? 0) + times.blocked_ns;
  return (
    <span class="quiet">
      beside it threads waited for {percent((times.blocked_ns + (times.waiting_ns ?? 0)) / (all || 1))} of their time (
      {amount(times.blocked_ns, "nanoseconds")} blocked, {amount(times.waiting_ns ?? 0, "nanoseconds")} for a CPU)
    </span>
  );
}

/** What each method was asked, and of what was not asked why not, or what to type. */
function Asked() {
  return (
    <section class="card asked" aria-label="What was asked">
      <h2>What was asked</h2>
      {askedGroups(page.value!).map((group, at) => (
        <div
          key={at}
          class="table"
          tabIndex={0}
          role="region"
          aria-label={`Questions, ${group.about || "of this page"}, ${at + 1}`}
        >
          <table>
            {group.about && <caption>{shortened(group.about, 90)}</caption>}
            <thead>
              <tr>
                <th scope="col">Question</th>
                <th scope="col">Asked</th>
                <th scope="col">With what, or why not</th>
              </tr>
            </thead>
            <tbody>
              {group.methods.map((one) => (
                <tr key={one.question}>
                  <th scope="row">{shortened(one.question, 80)}</th>
                  <td class={`state ${one.state === "asked" ? "" : "doubt"}`}>{STATES[one.state]}</td>
                  <td class="reason">
                    {[one.had, one.why]
                      .filter((part) => part !== "")
                      .map((part) => shortened(part, 300))
                      .join("; no answer: ")}
                    {one.type && <Command text={one.type} />}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ))}
    </section>
  );
}

const STATES = { asked: "✓ asked", "no answer": "○ asked, no answer", "not asked": "– not asked" } as const;
