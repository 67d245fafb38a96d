/** A procedure between who calls it and what it calls. */
import { useMemo } from "preact/hooks";
import { Flame } from "../charts/flame";
import { imageColour } from "../charts/colours";
import { amount, percent, shortened } from "../model/format";
import { methodNamed } from "../model/identity";
import { calleesOf, callersOf } from "../model/transforms";
import { ProfileEmpty } from "../parts/profile-empty";
import { costs, profile, shownTree, value, valueIndex, whole } from "../state/page";
import { change, linkTo, route } from "../state/route";

export function Sandwich() {
  const shown = profile.value;
  const tree = shownTree.value;
  const sums = costs.value;
  const hottest = useMemo(
    () => (sums ? sums.own.reduce((best, own, method) => (own > sums.own[best]! ? method : best), 0) : 0),
    [sums],
  );
  const { method: name, image } = route.value.params;
  const method = shown && name !== undefined ? methodNamed(shown, name, image) : hottest;
  const halves = useMemo(
    () =>
      shown && tree && method >= 0
        ? ([callersOf(tree, shown.names.length, method), calleesOf(tree, shown.names.length, method)] as const)
        : null,
    [shown, tree, method],
  );
  if (!shown || !tree || !sums || whole.value === 0) return <ProfileEmpty />;
  if (!halves) return <p>No procedure of this profile has this name: {shortened(name ?? "")}</p>;
  const unit = value.value.unit;
  const half = (at: 0 | 1, label: string, zoom: string) => (
    <Flame
      tree={halves[at]}
      values={[valueIndex.value]}
      names={shown.names}
      unit={unit}
      upward={at === 0}
      zoom={Number(route.value.params[zoom]) || 0}
      onZoom={(node) => change({ [zoom]: node === 0 ? "" : String(node) })}
      colour={(one, _, night) => imageColour(shown.module[one]!, shown.names[one]!, night)}
      marked={null}
      label={label}
      onMethod={(one) =>
        change({ method: shown.names[one]!, image: shown.modules[shown.module[one]!]!, callers: "", callees: "" })
      }
      details={(node) =>
        node === 0
          ? []
          : [
              shown.modules[shown.module[halves[at].method[node]!]!]!,
              `${amount(halves[at].total[valueIndex.value]![node]!, unit)}, ${percent(halves[at].total[valueIndex.value]![node]! / whole.value)}`,
            ]
      }
    />
  );
  return (
    <div class="sandwich">
      <h1>{shortened(shown.names[method]!)}</h1>
      <p class="quiet">
        {shown.modules[shown.module[method]!]} · self {amount(sums.own[method]!, unit)} (
        {percent(sums.own[method]! / whole.value)}) · total {amount(sums.total[method]!, unit)} (
        {percent(sums.total[method]! / whole.value)}) · <a href={linkTo("procedures")}>all procedures</a>
      </p>
      <h2>Callers</h2>
      {half(0, "Callers", "callers")}
      <h2>Callees</h2>
      {half(1, "Callees", "callees")}
    </div>
  );
}
