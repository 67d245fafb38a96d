/** Two profiles as one signed flame graph. */
import { useMemo } from "preact/hooks";
import { changeColour } from "../charts/colours";
import { Flame } from "../charts/flame";
import { treeOfThreads } from "../model/data";
import { comparisonBetween, comparisonsOf } from "../model/differences";
import { amount, percent, shortPaths, shortened } from "../model/format";
import { commonMethods } from "../model/identity";
import { united } from "../model/transforms";
import { Differences } from "../parts/differences";
import { Empty } from "../parts/empty";
import { page, profileIndex } from "../state/page";
import { change, route } from "../state/route";

export function Compare() {
  const profiles = page.value!.profiles;
  const against = Number(route.value.params["against"] ?? (profileIndex.value === 0 ? 1 : 0));
  const scaled = route.value.params["scale"] !== "none";
  const a = profiles[profileIndex.value];
  const b = profiles[against];
  const made = useMemo(() => {
    if (!a || !b) return null;
    const name = a.values[a.defaultValue]!.name;
    const values = [a.defaultValue, Math.max(0, b.values.findIndex((one) => one.name === name))] as const;
    const trees = [treeOfThreads(a, null), treeOfThreads(b, null)] as const;
    const totals = trees.map((tree, side) => tree.total[values[side]!]![0]!) as [number, number];
    const { names, numbers } = commonMethods(a, b);
    const factor = scaled && totals[1] > 0 ? totals[0] / totals[1] : 1;
    const sides = [{ tree: trees[0], value: values[0], number: (method: number) => numbers[0][method]!, scale: 1 }, { tree: trees[1], value: values[1], number: (method: number) => numbers[1][method]!, scale: factor }];
    return { tree: united(sides, names.length), names, totals, unit: a.values[a.defaultValue]!.unit };
  }, [a, b, scaled]);
  const comparisons = comparisonsOf(page.value!.results);
  // Results of `diff --json` stand for themselves.
  const alone = comparisons.filter(({ sets }) => sets.length === 0);
  if (!a || !b || !made) return alone.length > 0 ? <div><h1>Compare</h1>{alone.map((one, at) => <Differences key={at} comparison={one} />)}</div> : <Empty why="To compare, the page needs two profiles." type={["vitalfew html page.html before.vf after.vf", "vitalfew diff before.vf after.vf"]} />;
  const tested = comparisonBetween(comparisons, a.name, b.name);
  const [left, right] = made.tree.total as [Float64Array, Float64Array];
  const size = (node: number) => left[node]! + right[node]! || 1;
  const whole = made.totals[0] || 1;
  const names = shortPaths(profiles.map((one) => one.name));
  return (
    <div>
      <h1>Compare</h1>
      <div class="bar controls">
        <span>A: {shortened(names[profileIndex.value]!, 60)}</span>
        <label>B <select value={String(against)} onChange={(event) => change({ against: event.currentTarget.value, zoom: "" })}>{profiles.map((one, at) => at !== profileIndex.value && <option key={at} value={String(at)} title={shortened(one.name, 300)}>{shortened(names[at]!, 60)}</option>)}</select></label>
        <label><input type="checkbox" checked={scaled} onChange={(event) => change({ scale: event.currentTarget.checked ? "" : "none" })} /> As parts of each whole</label>
      </div>
      <Flame tree={made.tree} values={[0, 1]} names={made.names} unit={made.unit} upward={false} zoom={Number(route.value.params["zoom"]) || 0} onZoom={(node) => change({ zoom: node === 0 ? "" : String(node) })} marked={null} label={`What ${b.name} has more or less than ${a.name}`}
        colour={(_, node, night) => changeColour(Math.sign(right[node]! - left[node]!) * Math.sqrt(Math.abs(right[node]! - left[node]!) / size(node)), night)}
        details={(node) => [`A ${amount(left[node]!, made.unit)}, B ${amount(right[node]!, made.unit)}${scaled ? " (as if B's whole were A's)" : ""}`, `${right[node]! >= left[node]! ? "more" : "less"} in B: ${percent(Math.abs(right[node]! - left[node]!) / whole)} of A`]} />
      <p class="quiet">Width is A and B together; orange is more in B, blue is less, grey is the same. Which differences are more than chance says the table.</p>
      {tested ? <Differences comparison={tested} /> : <p class="quiet">No test of these two: differences are tested between the first four recordings of vitalfew that the page was made of.</p>}
      {alone.map((one, at) => <Differences key={at} comparison={one} />)}
    </div>
  );
}
