/** The front: what to do, by what it is worth. */
import { useMemo } from "preact/hooks";
import { askedGroups } from "../model/asked";
import { lineNamed } from "../model/causal";
import { type ClaimGroup, VITAL_FEW, groupedClaims, leastGain, lineOfClaim, withoutRepeats } from "../model/claims";
import { procedureNamed } from "../model/code";
import type { Claim } from "../model/data";
import { commandLine, percent, printable, shortened, withInterval } from "../model/format";
import { lastPart, moduleOf } from "../model/identity";
import { formatSteps, stepNames } from "../model/labels";
import { type ClaimPlace, callNames, placeOfClaim, profilesOf } from "../model/subject";
import { Command } from "../parts/command";
import { Empty } from "../parts/empty";
import { type BarRow, saveBars } from "../charts/bars";
import { Axis, IntervalBar } from "../charts/interval";
import { SaveMenu } from "../parts/menu";
import { SourceLine } from "../parts/source-line";
import { page } from "../state/page";
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
  const most = Math.max(1, ...shown.map(({ amount: { value, interval } }) => Math.abs(interval?.[1] ?? value)));
  return (
    <section class="card" aria-label={`${group.question}: ${group.about}, ${group.key}`}>
      <div class="bar">
        <h2>{group.question}</h2>
        <SaveMenu
          save={(how) =>
            saveBars(
              `${group.question} (${group.axis})${group.about && `: ${printable(group.about)}`}`,
              shown.map((claim) => barOf(claim, most)),
              how,
            )
          }
        />
      </div>
      <p class="quiet">
        {group.axis}
        {group.about && ` · ${shortened(group.about, 80)}`}
      </p>
      {group.header && <p class="quiet">{printable(group.header)}</p>}
      {group.machine && <p class="doubt">{printable(group.machine)}</p>}
      <ol class="claims">
        {shown.map((claim, at) => (
          <Row key={at} claim={claim} group={group} most={most} number={at + 1} />
        ))}
        {group.rest !== null && (
          <li class="claim rest">
            <p>Everything else {percent(group.rest)}</p>
            <IntervalBar value={group.rest} interval={undefined} most={most} />
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

interface RowProps {
  readonly claim: Claim;
  readonly group: ClaimGroup;
  readonly most: number;
  readonly number: number;
}

function Row({ claim, group, most, number }: RowProps) {
  const { profiles } = page.value!;
  const place = useMemo(() => placeOfClaim(profiles, group, claim), [profiles, group.about, claim]);
  const { value, interval } = claim.amount;
  return (
    <li class="claim">
      <p class="sentence">
        <span class="number" aria-hidden="true">
          {number}
        </span>{" "}
        {shortened(claim.sentence, 240)}
      </p>
      <IntervalBar value={value} interval={interval} most={most} />
      {claim.speedup && <p class="speedup">{printable(claim.speedup)}</p>}
      <ClaimLine claim={claim} place={place} />
      <details>
        <summary>Evidence</summary>
        <Path claim={claim} />
        <ul class="evidence">
          {claim.lines.map((line, at) => (
            <li key={at}>{printable(line)}</li>
          ))}
          {claim.doubt_lines.map((line, at) => (
            <li key={at} class="doubt">
              {printable(line)}
            </li>
          ))}
          <li>
            {withInterval(value, interval, group.show)},{" "}
            {claim.rank ?? `ranked by its lower bound: ${group.show(leastGain(claim))}`}
          </li>
        </ul>
        <p class="links">
          {linksOf(claim, group, place).map(([name, address]) => (
            <a key={name} href={address}>
              {name}
            </a>
          ))}
        </p>
        {claim.next.length > 0 && <Command text={commandLine(claim.next)} />}
      </details>
    </li>
  );
}

/** The line of code, with its text where a profile has that. */
function ClaimLine({ claim, place }: { readonly claim: Claim; readonly place: ClaimPlace | null }) {
  const { profiles } = page.value!;
  const said = lineOfClaim(claim);
  if (!place || place.line < 0)
    return claim.sentence.includes(said) ? null : <p class="source-line">{shortened(lastPart(said), 80)}</p>;
  const { files, file, line } = profiles[place.profile]!.lines!;
  const name = `${files[file[place.line]!]!}:${line[place.line]}`;
  return <SourceLine profile={place.profile} row={place.line} text={lineNamed(profiles, [place.profile], name)} />;
}

function Path({ claim: { place } }: { readonly claim: Claim }) {
  const { path = [] } = place.what;
  if (path.length < 2) return null;
  const steps = path.slice(-6).map((step) => shortened(step, 60));
  return (
    <p class="path">
      {steps.join(" › ")}
      {place.image && ` (${shortened(lastPart(place.image), 40)})`}
    </p>
  );
}

/** Names and addresses that a finding leads to: each says the program that it is about. */
function linksOf(claim: Claim, group: ClaimGroup, place: ClaimPlace | null): (readonly [string, string])[] {
  const view = linkToMethod(group, claim, place);
  const links = view === null ? [] : [[group.viewName, view] as const];
  if (!place) return links;
  const shown = page.value!.profiles[place.profile]!;
  const innermost = place.calls.at(-1)!;
  const method = {
    profile: String(place.profile),
    method: shown.names[innermost]!,
    image: moduleOf(shown, innermost),
  };
  return [["Flame graph", linkTo("flame", method)], ["Callers and callees", linkTo("sandwich", method)], ...links];
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
function barOf({ sentence, speedup = "", amount: { value, interval } }: Claim, most: number): BarRow {
  return {
    text: printable(sentence),
    worth: printable(speedup),
    value: value / most,
    interval: interval && [interval[0] / most, interval[1] / most],
  };
}

/** What each method was asked, and of what was not asked why not, or what to type. */
function Asked() {
  return (
    <details class="card asked">
      <summary>What was asked</summary>
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
    </details>
  );
}

const STATES = { asked: "✓ asked", "no answer": "○ asked, no answer", "not asked": "– not asked" } as const;
