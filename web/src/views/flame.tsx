/** The flame graph of a profile. */
import { useMemo } from "preact/hooks";
import { changeColour, imageColour } from "../charts/colours";
import { Flame } from "../charts/flame";
import { type Profile, type TimeAxis, treeOfThreads } from "../model/data";
import { amount, grouped, percent, printable, shortened } from "../model/format";
import { methodNamed, moduleOf } from "../model/identity";
import { LANGUAGES, languageOf } from "../model/languages";
import { procedureCosts } from "../model/procedures";
import { compilePattern, coverageOf, markMethod, markMethods } from "../model/search";
import { utcTime } from "../model/timeline";
import { byCallee, calleesOf, callersOf } from "../model/transforms";
import { ProfileEmpty } from "../parts/profile-empty";
import { costs, page, profile, profileIndex, shownTree, value, valueIndex, whole } from "../state/page";
import { change, go, route } from "../state/route";

export function FlameView() {
  const shown = profile.value;
  const base = shownTree.value;
  const {
    q = "",
    shape = "callers",
    order = "down",
    focus = "",
    recursion = "",
    inline = "",
    arrange = "heavy",
    colour = "image",
    zoom = "0",
    view = "",
    method: only,
    image,
  } = route.value.params;
  const tree = useMemo(() => {
    if (!shown || !base) return null;
    const method = focus === "" ? -1 : methodNamed(shown, focus.slice(1), image);
    if (method >= 0)
      return focus.startsWith("<")
        ? callersOf(base, shown.names.length, method)
        : calleesOf(base, shown.names.length, method);
    return shape === "callees" ? byCallee(base, shown.names.length) : base;
  }, [shown, base, shape, focus, image]);
  const pattern = useMemo(() => compilePattern(q), [q]);
  const marked = useMemo(() => {
    if (!shown) return null;
    if (only !== undefined) return markMethod(shown.names.length, methodNamed(shown, only, image));
    return typeof pattern === "function" ? markMethods(shown.names, pattern) : null;
  }, [shown, pattern, only, image]);
  const found = useMemo(
    () => (tree && marked ? coverageOf(tree, valueIndex.value, marked) : null),
    [tree, marked, valueIndex.value],
  );
  const languages = useMemo(
    () =>
      shown && colour === "language"
        ? shown.names.map((name, method) => languageOf(name, shown.modules[shown.module[method]!]!))
        : [],
    [shown, colour],
  );
  const changes = useMemo(() => (colour === "change" ? changesOf() : null), [shown, colour, costs.value]);
  const places = useMemo(
    () =>
      new Map(shown?.lines?.function.map((name, index) => [name, index]).reverse() as [string, number][] | undefined),
    [shown],
  );
  const names = useMemo(() => namesOf(shown, arrange === "time"), [shown, arrange]);
  if (!shown || !tree || (tree.total[valueIndex.value]?.[0] ?? 0) === 0) return <ProfileEmpty />;
  const which = valueIndex.value;
  const all = tree.total[which]![0]!;
  const paint = (method: number, _: number, night: boolean) => {
    if (changes) return changeColour(changes[method]!, night);
    if (colour === "language") return imageColour(LANGUAGES.indexOf(languages[method]!), shown.names[method]!, night);
    return imageColour(shown.module[method]!, shown.names[method]!, night);
  };
  const fileOf = (method: number) => {
    const index = places.get(shown.names[method]!);
    return index === undefined
      ? []
      : [`${printable(shown.lines!.files[shown.lines!.file[index]!]!.split("/").at(-1)!)}:${shown.lines!.line[index]}`];
  };
  return (
    <div>
      <h1>Flame graph</h1>
      <div class="bar controls">
        <label>
          Search{" "}
          <input
            type="search"
            id="flame-search"
            value={q}
            placeholder="name or /regex/"
            onInput={(event) => change({ q: event.currentTarget.value, method: "" }, true)}
          />
        </label>
        {only !== undefined && (
          <button type="button" class="chip" onClick={() => change({ method: "" })} aria-label="Mark nothing">
            {shortened(only, 60)}
            {image && `, ${shortened(image, 40)}`} ×
          </button>
        )}
        <output data-testid="search-total">
          {typeof pattern === "string"
            ? pattern
            : found
              ? `${percent(found.cost / all)} in ${grouped(found.nodes)} contexts, overlap counted once`
              : ""}
        </output>
        <label>
          Stacks{" "}
          <select value={shape} onChange={(event) => change({ shape: event.currentTarget.value, zoom: "", view: "" })}>
            <option value="callers">from their callers</option>
            <option value="callees">merged by callee</option>
          </select>
        </label>
        <label>
          Order{" "}
          <select
            value={arrange}
            onChange={(event) => change({ arrange: event.currentTarget.value, zoom: "", view: "" })}
          >
            <option value="heavy">heaviest first</option>
            <option value="time" disabled={!shown.timeline}>
              by time{shown.timeline ? "" : " (record --timeline)"}
            </option>
          </select>
        </label>
        <label>
          Root{" "}
          <select value={order} onChange={(event) => change({ order: event.currentTarget.value })}>
            <option value="down">above (icicle)</option>
            <option value="up">below (flame)</option>
          </select>
        </label>
        <label>
          Colour{" "}
          <select value={colour} onChange={(event) => change({ colour: event.currentTarget.value })}>
            <option value="image">by image</option>
            <option value="language">by language</option>
            {page.value!.profiles.length > 1 && <option value="change">by change</option>}
          </select>
        </label>
        <label>
          <input
            type="checkbox"
            checked={recursion === "once"}
            onChange={(event) => change({ recursion: event.currentTarget.checked ? "once" : "", zoom: "", view: "" })}
          />{" "}
          Collapse recursion
        </label>
        {shown.inlined.length > 0 && (
          <label>
            <input
              type="checkbox"
              checked={inline !== "hide"}
              onChange={(event) => change({ inline: event.currentTarget.checked ? "" : "hide", zoom: "", view: "" })}
            />{" "}
            Inlined calls
          </label>
        )}
        {focus !== "" && (
          <button type="button" onClick={() => change({ focus: "", zoom: "", view: "" })}>
            Only {focus.startsWith("<") ? "callers" : "callees"} of {shortened(focus.slice(1), 40)} ×
          </button>
        )}
      </div>
      <Flame
        tree={tree}
        values={[which]}
        names={names}
        unit={value.value.unit}
        upward={order === "up"}
        zoom={Number(zoom) || 0}
        onZoom={(node) => change({ zoom: node === 0 ? "" : String(node), view: "" })}
        view={view}
        onView={(next) => change({ view: next }, true)}
        colour={paint}
        marked={marked}
        label={`Flame graph of ${shown.name}`}
        onMethod={(method) => go("sandwich", { method: shown.names[method]!, image: moduleOf(shown, method) })}
        onFocus={(method, where) =>
          change({
            focus: `${where === "callers" ? "<" : ">"}${shown.names[method]!}`,
            image: moduleOf(shown, method),
            method: "",
            zoom: "",
            view: "",
          })
        }
        details={(node) =>
          node === 0
            ? [amount(all, value.value.unit)]
            : [
                shown.modules[shown.module[tree.method[node]!]!]!,
                ...fileOf(tree.method[node]!),
                `${amount(tree.total[which]![node]!, value.value.unit)}, ${percent(tree.total[which]![node]! / all)}`,
                `self ${amount(tree.own[which]![node]!, value.value.unit)}`,
                ...(colour === "language" ? [languages[tree.method[node]!]!] : []),
                ...(changes
                  ? [
                      `${changes[tree.method[node]!]! >= 0 ? "more" : "less"} than in ${shortened(otherProfile()?.name ?? "", 40)}`,
                    ]
                  : []),
              ]
        }
      />
      <p class="quiet">
        Width is {value.value.name};{" "}
        {arrange === "time" ? "slices of time stand in their order" : "the heaviest stands first"}.{" "}
        {colour === "image"
          ? "Colour is the image."
          : colour === "language"
            ? `Colour is the language, guessed from names: ${[...new Set(languages)].join(", ")}.`
            : "Orange costs a larger part of this profile than of the other one, blue a smaller part, grey the same."}{" "}
        {shown.leftOut &&
          `${grouped(shown.leftOut.nodes)} contexts with less than ${percent(shown.leftOut.share)} each are not in this file: they count as their callers'.`}
      </p>
    </div>
  );
}

const sliceName = (axis: TimeAxis, slice: number) =>
  axis.epochs?.[slice] ? utcTime(axis.epochs[slice].start_unix_ns) : amount(slice * axis.slice_ns, "nanoseconds");

/** Names of methods, of slices when they are. */
function namesOf(shown: Profile | null, timed: boolean): readonly string[] {
  const axis = shown?.timeline;
  if (!shown || !timed || !axis) return shown?.names ?? [];
  return shown.names.map((name, method) => (shown.slice[method]! >= 0 ? sliceName(axis, shown.slice[method]!) : name));
}

function otherProfile() {
  return page.value!.profiles[Number(route.value.params["against"] ?? (profileIndex.value === 0 ? 1 : 0))];
}

/** By method, from -1 to 1: whether its part of this profile is larger than of the other one. */
function changesOf(): Float64Array | null {
  const [shown, other, own] = [profile.value, otherProfile(), costs.value];
  if (!shown || !other || !own) return null;
  const at = Math.max(
    0,
    other.values.findIndex((one) => one.name === value.value.name),
  );
  const tree = treeOfThreads(other, null);
  const theirs = procedureCosts(tree, at, other.names.length);
  const numbers = new Map(other.names.map((name, method) => [name, method]));
  const [mine, total] = [whole.value || 1, tree.total[at]![0] || 1];
  return Float64Array.from(shown.names, (name, method) => {
    const a = own.total[method]! / mine;
    const b = (theirs.total[numbers.get(name) ?? -1] ?? 0) / total;
    return Math.sign(a - b) * Math.sqrt(Math.abs(a - b) / (a + b || 1));
  });
}
