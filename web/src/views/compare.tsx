/** Two profiles, or two sets of them, as one signed flame graph. */
import { useMemo } from "preact/hooks";
import { changeColour } from "../charts/colours";
import { Flame } from "../charts/flame";
import { type Profile, type Range, treeOfThreads } from "../model/data";
import { comparisonBetween, comparisonsOf } from "../model/differences";
import { amount, percent, shortPaths, shortened } from "../model/format";
import { commonMethods } from "../model/identity";
import { procedureCosts } from "../model/procedures";
import { type SetRun, type Sides, comparisonOfRuns, formatSides, parseSides } from "../model/sets";
import { type TreePart, united } from "../model/transforms";
import { Differences } from "../parts/differences";
import { Empty } from "../parts/empty";
import { page, profileIndex, range } from "../state/page";
import { change, route } from "../state/route";

/** The value of `against` that compares a part of the time with the rest of it. */
const REST = "rest";

/** A part of a side: a profile, or slices of its time. */
interface Member {
  readonly profile: Profile;
  readonly range: Range | null;
}

export function Compare() {
  const profiles = page.value!.profiles;
  const { against: asked = "", scale, sides: sidesText = "" } = route.value.params;
  const scaled = scale !== "none";
  const chosen = range.value;
  const rest = chosen !== null && (asked === REST || profiles.length === 1);
  const against = rest
    ? profileIndex.value
    : Number(asked === "" || asked === REST ? (profileIndex.value === 0 ? 1 : 0) : asked);
  const sets = useMemo(() => parseSides(sidesText, profiles.length), [sidesText, profiles.length]);
  const sides = useMemo(
    () => sets ?? ([[profileIndex.value], [against]] as const),
    [sets, profileIndex.value, against],
  );
  const made = useMemo(() => {
    if (sides.some((side) => side.length === 0 || side.some((at) => !profiles[at]))) return null;
    return rest
      ? sidesTogether([[{ profile: profiles[against]!, range: chosen }], restOf(profiles[against]!, chosen)], scaled)
      : sidesTogether(
          sides.map((side) => side.map((at) => ({ profile: profiles[at]!, range: null }))),
          scaled,
        );
  }, [profiles, sides, scaled, rest, chosen?.join()]);
  const comparisons = comparisonsOf(page.value!.results);
  // Results of `diff --json` stand for themselves.
  const alone = comparisons.filter(({ sets }) => sets.length === 0);
  const names = shortPaths(profiles.map((one) => one.name));
  if (!made && sets && profiles.length > 1)
    return (
      <div>
        <h1>Compare</h1>
        <Sets names={names} sides={sides} open />
        <p role="status">Each side needs a recording.</p>
      </div>
    );
  if (!made)
    return alone.length > 0 ? (
      <div>
        <h1>Compare</h1>
        {alone.map((one, at) => (
          <Differences key={at} comparison={one} />
        ))}
      </div>
    ) : (
      <Empty
        why="To compare, the page needs two profiles, or a part of the time of one that has a time axis."
        type={["vitalfew html page.html before.vf after.vf", "vitalfew diff before.vf after.vf"]}
      />
    );
  const [left, right] = made.tree.total as [Float64Array, Float64Array];
  const size = (node: number) => left[node]! + right[node]! || 1;
  const whole = made.tree.total[0]![0]! || 1;
  const tested = rest
    ? null
    : sides.flat().length === 2
      ? comparisonBetween(comparisons, profiles[sides[0][0]!]!.name, profiles[sides[1][0]!]!.name)
      : comparisonOfRuns(made.runs, made.names, { event: made.event, unit: made.unit, shares: scaled });
  const means = sides.flat().length > 2 ? " in the mean" : "";
  return (
    <div>
      <h1>Compare</h1>
      <div class="bar controls">
        {!sets && (
          <span>
            A: {shortened(names[profileIndex.value]!, 60)}
            {rest && ", the selected time"}
          </span>
        )}
        {!sets && (
          <label>
            B{" "}
            <select
              value={rest ? REST : String(against)}
              onChange={(event) => change({ against: event.currentTarget.value, zoom: "" })}
            >
              {chosen && <option value={REST}>the rest of the time</option>}
              {profiles.map(
                (one, at) =>
                  at !== profileIndex.value && (
                    <option key={at} value={String(at)} title={shortened(one.name, 300)}>
                      {shortened(names[at]!, 60)}
                    </option>
                  ),
              )}
            </select>
          </label>
        )}
        <label>
          <input
            type="checkbox"
            checked={scaled}
            onChange={(event) => change({ scale: event.currentTarget.checked ? "" : "none" })}
          />{" "}
          As parts of each whole
        </label>
      </div>
      {profiles.length > 2 && <Sets names={names} sides={rest ? null : sides} open={sets !== null} />}
      <Flame
        tree={made.tree}
        values={[0, 1]}
        names={made.names}
        unit={made.unit}
        upward={false}
        zoom={Number(route.value.params["zoom"]) || 0}
        onZoom={(node) => change({ zoom: node === 0 ? "" : String(node) })}
        marked={null}
        label={
          sets
            ? "What set B has more or less than set A"
            : `What ${rest ? "the rest of the time" : profiles[against]!.name} has more or less than ${profiles[profileIndex.value]!.name}`
        }
        colour={(_, node, night) =>
          changeColour(
            Math.sign(right[node]! - left[node]!) * Math.sqrt(Math.abs(right[node]! - left[node]!) / size(node)),
            night,
          )
        }
        details={(node) => [
          `A ${amount(left[node]!, made.unit)}, B ${amount(right[node]!, made.unit)}${means}${scaled ? " (as if B's whole were A's)" : ""}`,
          `${right[node]! >= left[node]! ? "more" : "less"} in B: ${percent(Math.abs(right[node]! - left[node]!) / whole)} of A`,
        ]}
      />
      <p class="quiet">
        Width is A and B together{means}; orange is more in B, blue is less, grey is the same. Which differences are
        more than chance says the table.
      </p>
      {tested ? (
        <Differences comparison={tested} />
      ) : (
        <p class="quiet">
          No test of these two:{" "}
          {rest
            ? "what follows in time is not independent"
            : "differences are tested between the first four recordings of vitalfew that the page was made of"}
          .
        </p>
      )}
      {alone.map((one, at) => (
        <Differences key={at} comparison={one} />
      ))}
    </div>
  );
}

/** Which profiles stand on which side. */
function Sets({
  names,
  sides,
  open,
}: {
  readonly names: readonly string[];
  readonly sides: Sides | null;
  readonly open: boolean;
}) {
  const now = sides ?? [[], []];
  const put = (at: number, side: string) => {
    const without = now.map((one) => one.filter((other) => other !== at));
    const next: Sides = [
      [...without[0]!, ...(side === "A" ? [at] : [])],
      [...without[1]!, ...(side === "B" ? [at] : [])],
    ];
    change({ sides: formatSides(next, names.length), against: "", zoom: "" });
  };
  return (
    <details class="sets" open={open}>
      <summary>Compare sets of recordings</summary>
      <ul class="choices">
        {names.map((name, at) => (
          <li key={at}>
            <label>
              <select
                value={now[0].includes(at) ? "A" : now[1].includes(at) ? "B" : "-"}
                onChange={(event) => put(at, event.currentTarget.value)}
              >
                <option value="A">A</option>
                <option value="B">B</option>
                <option value="-">neither</option>
              </select>{" "}
              {shortened(name, 80)}
            </label>
          </li>
        ))}
      </ul>
      {open && (
        <button type="button" onClick={() => change({ sides: "", zoom: "" })}>
          One with one again
        </button>
      )}
    </details>
  );
}

/** The time before a range and after it. */
function restOf(profile: Profile, [from, to]: Range): Member[] {
  const parts: readonly Range[] = [
    [0, from],
    [to, profile.timeline!.slices],
  ];
  return parts.filter(([first, end]) => first < end).map((part) => ({ profile, range: part }));
}

/**
 * Both sides as one tree, each as the mean of its recordings; scaled, the second as large as the
 * first.
 */
function sidesTogether(sides: readonly (readonly Member[])[], scaled: boolean) {
  const first = sides[0]![0]!.profile;
  const { name: event, unit } = first.values[first.defaultValue]!;
  const members = sides.flat();
  const { names, numbers } = commonMethods(first, ...members.slice(1).map((one) => one.profile));
  const parts = members.map(({ profile, range }, at): TreePart => ({
    tree: treeOfThreads(profile, null, range),
    scale: 1,
    value:
      profile === first
        ? first.defaultValue
        : Math.max(
            0,
            profile.values.findIndex((one) => one.name === event),
          ),
    number: (method) => numbers[at]![method]!,
  }));
  const totalOf = ({ tree, value }: TreePart) => tree.total[value]![0]!;
  const count = sides[0]!.length;
  const grouped = [parts.slice(0, count), parts.slice(count)] as const;
  // Parts of one recording's time are one recording.
  const recordings = grouped.map((side, at) => (sides[at]!.some((one) => one.range) ? 1 : side.length));
  const means = grouped.map((side, at) => side.reduce((sum, part) => sum + totalOf(part), 0) / recordings[at]!) as [
    number,
    number,
  ];
  const factor = scaled && means[1] > 0 ? means[0] / means[1] : 1;
  const scaledParts = grouped.map((side, at) =>
    side.map((part) => ({ ...part, scale: (at === 0 ? 1 : factor) / recordings[at]! })),
  );
  const runOf = (part: TreePart, at: number): SetRun => {
    const own = new Float64Array(names.length);
    procedureCosts(part.tree, part.value, numbers[at]!.length).own.forEach(
      (cost, method) => (own[part.number(method)]! += cost),
    );
    return { own, whole: totalOf(part) };
  };
  const runs = [grouped[0].map(runOf), grouped[1].map((part, at) => runOf(part, count + at))] as const;
  return { tree: united(scaledParts, names.length), names, unit, event, runs };
}
