/** The flame graph of a profile. */
import { useMemo } from "preact/hooks";
import { Flame } from "../charts/flame";
import { imageColour } from "../charts/colours";
import { amount, grouped, percent, shortened } from "../model/format";
import { compilePattern, coverageOf, markMethods } from "../model/search";
import { byCallee, calleesOf, callersOf } from "../model/transforms";
import { profile, shownTree, value, valueIndex } from "../state/page";
import { change, go, route } from "../state/route";
import { ProfileEmpty } from "../parts/profile-empty";

export function FlameView() {
  const shown = profile.value;
  const base = shownTree.value;
  const { q = "", shape = "callers", order = "down", focus = "", recursion = "", zoom = "0" } = route.value.params;
  const tree = useMemo(() => {
    if (!shown || !base) return null;
    const method = focus === "" ? -1 : shown.names.indexOf(focus.slice(1));
    if (method >= 0) return focus.startsWith("<") ? callersOf(base, shown.names.length, method) : calleesOf(base, shown.names.length, method);
    return shape === "callees" ? byCallee(base, shown.names.length) : base;
  }, [shown, base, shape, focus]);
  const pattern = useMemo(() => compilePattern(q), [q]);
  const marked = useMemo(() => (shown && typeof pattern === "function" ? markMethods(shown.names, pattern) : null), [shown, pattern]);
  if (!shown || !tree || (tree.total[valueIndex.value]?.[0] ?? 0) === 0) return <ProfileEmpty />;
  const which = valueIndex.value;
  const whole = tree.total[which]![0]!;
  const found = marked ? coverageOf(tree, which, marked) : null;
  return (
    <div>
      <h1>Flame graph</h1>
      <div class="bar controls">
        <label>Search <input type="search" id="flame-search" value={q} placeholder="name or /regex/" onInput={(event) => change({ q: event.currentTarget.value }, true)} /></label>
        <output data-testid="search-total">{typeof pattern === "string" ? pattern : found ? `${percent(found.cost / whole)} in ${grouped(found.nodes)} contexts, overlap counted once` : ""}</output>
        <label>Stacks <select value={shape} onChange={(event) => change({ shape: event.currentTarget.value, zoom: "" })}><option value="callers">from their callers</option><option value="callees">merged by callee</option></select></label>
        <label>Root <select value={order} onChange={(event) => change({ order: event.currentTarget.value })}><option value="down">above (icicle)</option><option value="up">below (flame)</option></select></label>
        <label><input type="checkbox" checked={recursion === "once"} onChange={(event) => change({ recursion: event.currentTarget.checked ? "once" : "", zoom: "" })} /> Collapse recursion</label>
        {focus !== "" && <button type="button" onClick={() => change({ focus: "", zoom: "" })}>Only {focus.startsWith("<") ? "callers" : "callees"} of {shortened(focus.slice(1), 40)} ×</button>}
      </div>
      <Flame tree={tree} values={[which]} names={shown.names} unit={value.value.unit} upward={order === "up"} zoom={Number(zoom) || 0} onZoom={(node) => change({ zoom: node === 0 ? "" : String(node) })}
        colour={(method, _, night) => imageColour(shown.module[method]!, shown.names[method]!, night)} marked={marked} label={`Flame graph of ${shown.name}`}
        onMethod={(method) => go("sandwich", { method: shown.names[method]! })}
        details={(node) => node === 0 ? [amount(whole, value.value.unit)] : [shown.modules[shown.module[tree.method[node]!]!]!, `${amount(tree.total[which]![node]!, value.value.unit)}, ${percent(tree.total[which]![node]! / whole)}`, `self ${amount(tree.own[which]![node]!, value.value.unit)}`]} />
      <p class="quiet">Width is {value.value.name}; the heaviest stands first. Colour is the image. {shown.leftOut && `${grouped(shown.leftOut.nodes)} contexts with less than ${percent(shown.leftOut.share)} each are not in this file: they count as their callers'.`}</p>
    </div>
  );
}
