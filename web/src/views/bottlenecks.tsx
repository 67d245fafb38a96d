/** The search over call sequences, by clicking: start with one, make it longer, keep it, and see what all kept ones cover. */
import { useMemo } from "preact/hooks";
import { amount, percent, shortened } from "../model/format";
import { costOfNodes, endsOfSequence, extensionsOf, overlapOf } from "../model/search";
import { ProfileEmpty } from "../parts/profile-empty";
import { costs, page, profile, tree, value, valueIndex, whole } from "../state/page";
import { change, route } from "../state/route";

/** Paths in the URL: numbers of methods, as they are in these data. */
export const formatPath = (path: readonly number[]) => path.join(".");
export function parsePath(text: string, methods: number): number[] {
  if (text === "") return [];
  const path = text.split(".").map(Number);
  return path.every((method) => Number.isInteger(method) && method >= 0 && method < methods) ? path : [];
}

export function Bottlenecks() {
  const shown = profile.value;
  const whole_ = tree.value;
  const sums = costs.value;
  const { path = "", kept = "" } = route.value.params;
  const current = useMemo(() => parsePath(path, shown?.names.length ?? 0), [path, shown]);
  const keptPaths = useMemo(() => kept.split("_").map((one) => parsePath(one, shown?.names.length ?? 0)).filter((one) => one.length > 0), [kept, shown]);
  const suggestions = useMemo(() => suggested(), [shown, page.value]);
  const overlap = useMemo(() => (whole_ ? overlapOf(whole_, valueIndex.value, keptPaths) : []), [whole_, keptPaths, valueIndex.value]);
  if (!shown || !whole_ || !sums || whole.value === 0) return <ProfileEmpty />;
  const ends = endsOfSequence(whole_, current);
  const cost = costOfNodes(whole_, valueIndex.value, ends);
  const to = (next: readonly number[]) => change({ path: formatPath(next) });
  const keep = () => change({ kept: [...keptPaths, current].map(formatPath).join("_") });
  const drop = (at: number) => change({ kept: keptPaths.filter((_, index) => index !== at).map(formatPath).join("_") });
  const show = (one: readonly number[]) => one.map((method) => shortened(shown.names[method]!, 50)).join(" › ");
  const extensions = (where: "above" | "below") => (
    <div>
      <h3>{where === "above" ? "Called by" : "Calls"}</h3>
      <ul class="choices">{extensionsOf(whole_, valueIndex.value, current, where).filter((one) => one.cost > 0.005 * cost).slice(0, 12).map((one) => (
        <li key={one.method}><button type="button" onClick={() => to(where === "above" ? [one.method, ...current] : [...current, one.method])}><b>{percent(one.cost / whole.value)}</b> {shortened(shown.names[one.method]!, 80)}</button></li>
      ))}</ul>
    </div>
  );
  return (
    <div class="bottlenecks">
      <h1>Bottlenecks</h1>
      <p class="quiet">A call sequence is methods that call each other, anywhere in a stack. What two sequences share counts once.</p>
      <div class="shares" role="img" aria-label={`Kept sequences cover ${percent(overlap.reduce((sum, one) => sum + one.added, 0) / whole.value)}`}>
        {overlap.map((one, at) => <span key={at} class={`share s${at % 6}`} style={{ width: `${(100 * one.added) / whole.value}%` }}>{at + 1}</span>)}
        <span class="share else" style={{ flex: 1 }}>{keptPaths.length === 0 ? "nothing kept yet" : "not covered"}</span>
      </div>
      {keptPaths.length > 0 && <ol>{keptPaths.map((one, at) => <li key={at}><button type="button" class="plain" onClick={() => to(one)}>{show(one)}</button> {percent(overlap[at]!.cost / whole.value)}, adds {percent(overlap[at]!.added / whole.value)} <button type="button" aria-label={`Drop ${at + 1}`} onClick={() => drop(at)}>×</button></li>)}</ol>}
      {current.length > 0 && (
        <section class="card">
          <h2>{show(current)}</h2>
          <p data-testid="sequence-cost">{percent(cost / whole.value)}, {amount(cost, value.value.unit)}, in {ends.length.toLocaleString("en-US")} contexts</p>
          <p class="bar"><button type="button" onClick={keep}>Keep</button>{current.length > 1 && <><button type="button" onClick={() => to(current.slice(1))}>Without {shortened(shown.names[current[0]!]!, 30)}</button><button type="button" onClick={() => to(current.slice(0, -1))}>Without {shortened(shown.names[current.at(-1)!]!, 30)}</button></>}</p>
          <div class="two">{extensions("above")}{extensions("below")}</div>
        </section>
      )}
      <h2>Suggested</h2>
      <ul class="choices">{suggestions.map((one) => <li key={formatPath(one.path)}><button type="button" onClick={() => to(one.path)}><b>{percent(one.part)}</b> {show(one.path.slice(-4))}</button></li>)}</ul>
      <h2>By self cost</h2>
      <ul class="choices">{shown.names.map((_, method) => method).sort((a, b) => sums.own[b]! - sums.own[a]!).slice(0, 8).map((method) => <li key={method}><button type="button" onClick={() => to([method])}><b>{percent(sums.own[method]! / whole.value)}</b> {shortened(shown.names[method]!, 80)}</button></li>)}</ul>
    </div>
  );
}

/** What the search without an analyst found. */
function suggested(): { path: number[]; part: number }[] {
  const shown = profile.value;
  const result = page.value?.results.find((one) => one.schema === "vitalfew.bottlenecks-claims/1" && one["profile"] === shown?.name);
  if (!shown || !result) return [];
  const number = new Map(shown.names.map((name, method) => [name, method]));
  return (result.claims?.list ?? []).flatMap((claim) => {
    const path = (claim.place.what.path ?? []).map((name) => number.get(name) ?? -1);
    return path.includes(-1) ? [] : [{ path, part: claim.amount.value }];
  });
}
