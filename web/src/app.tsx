/** The frame around the views: choices that hold in all of them, keys, help. */
import { useEffect, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { shortPaths, shortened } from "./model/format";
import { rangeText } from "./model/timeline";
import { Finder } from "./parts/finder";
import { Help } from "./parts/help";
import { dark, switchTheme } from "./parts/theme";
import { failure, page, profile, profileIndex, range, thread, valueIndex } from "./state/page";
import { change, go, linkTo, route } from "./state/route";
import { Bottlenecks } from "./views/bottlenecks";
import { Causal } from "./views/causal";
import { Compare } from "./views/compare";
import { Findings } from "./views/findings";
import { FlameView } from "./views/flame";
import { Interference } from "./views/interference";
import { Machine } from "./views/machine";
import { Procedures } from "./views/procedures";
import { Sandwich } from "./views/sandwich";
import { Source } from "./views/source";
import { Timeline } from "./views/timeline";

/** The views, in the order of their tabs and keys. A new one is a row here. */
export const VIEWS: readonly (readonly [string, string, ComponentType])[] = [
  ["findings", "Findings", Findings],
  ["flame", "Flame graph", FlameView],
  ["timeline", "Timeline", Timeline],
  ["sandwich", "Sandwich", Sandwich],
  ["procedures", "Procedures", Procedures],
  ["source", "Source", Source],
  ["bottlenecks", "Bottlenecks", Bottlenecks],
  ["compare", "Compare", Compare],
  ["causal", "Causal", Causal],
  ["interference", "Interference", Interference],
  ["machine", "Machine", Machine],
];

export function App() {
  const [help, setHelp] = useState(false);
  const [finder, setFinder] = useState(false);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const view = VIEWS[Number(event.key) - 1];
      if (event.key === "?") setHelp(true);
      else if (event.key === "t") switchTheme();
      else if (event.key === "/") setFinder(true);
      else if (view && /^[1-9]$/.test(event.key)) go(view[0]);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  // Another view begins at its head, not where the last one was left.
  useEffect(() => scrollTo(0, 0), [route.value.view]);
  if (failure.value !== "")
    return (
      <main>
        <h1>vitalfew</h1>
        <p role="alert">{failure.value}</p>
      </main>
    );
  if (!page.value)
    return (
      <main>
        <p>Reading the data…</p>
      </main>
    );
  const [, , View] = VIEWS.find(([name]) => name === route.value.view) ?? VIEWS[0]!;
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        To the content
      </a>
      <header>
        <a class="name" href={linkTo("findings")}>
          vitalfew
        </a>
        <nav aria-label="Views">
          {VIEWS.map(([name, title]) => (
            <a key={name} href={linkTo(name)} aria-current={route.value.view === name ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <div class="tools">
          <button
            type="button"
            onClick={() => setFinder(true)}
            aria-label="Search over everything"
            title="Search over everything (/)"
          >
            Search
          </button>
          <button type="button" onClick={switchTheme} aria-pressed={dark.value} title="Light or dark (t)">
            {dark.value ? "Light" : "Dark"}
          </button>
          <button type="button" onClick={() => setHelp(true)} aria-label="Keys" title="Keys (?)">
            ?
          </button>
        </div>
      </header>
      <Choices />
      <main id="main" tabIndex={-1}>
        <View />
      </main>
      {finder && <Finder views={TITLES} onClose={() => setFinder(false)} />}
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

const TITLES = VIEWS.map(([name, title]) => [name, title] as const);

/** Views in which a value or a thread changes nothing. */
const OF_ALL = ["findings", "compare", "causal", "machine"];

/** What is chosen within a profile: in another one it would be of another program. */
const OF_ONE = Object.fromEntries(
  [
    "value",
    "thread",
    "range",
    "zoom",
    "view",
    "method",
    "image",
    "focus",
    "callers",
    "callees",
    "line",
    "procedure",
    "at",
    "path",
  ].map((name) => [name, ""]),
);

/** What of which profile is shown. */
function Choices() {
  const shown = profile.value;
  if (!shown) return null;
  const profiles = page.value!.profiles;
  const narrows = !OF_ALL.includes(route.value.view);
  return (
    <section class="bar choices-bar" aria-label="What is shown">
      {profiles.length > 1 ? (
        <label>
          Profile{" "}
          <select
            value={String(profileIndex.value)}
            onChange={(event) => change({ profile: event.currentTarget.value, ...OF_ONE })}
          >
            {shortPaths(profiles.map((one) => one.name)).map((name, at) => (
              <option key={at} value={String(at)} title={shortened(profiles[at]!.name, 300)}>
                {shortened(name, 60)}
              </option>
            ))}
          </select>
        </label>
      ) : (
        <span class="file">{shortened(shown.name, 80)}</span>
      )}
      {narrows && shown.values.length > 1 && (
        <label>
          Value{" "}
          <select value={String(valueIndex.value)} onChange={(event) => change({ value: event.currentTarget.value })}>
            {shown.values.map((one, at) => (
              <option key={at} value={String(at)}>
                {one.name}
              </option>
            ))}
          </select>
        </label>
      )}
      {narrows && shown.threads.length > 1 && (
        <label>
          Thread{" "}
          <select
            value={thread.value === null ? "" : shown.names[thread.value]!}
            onChange={(event) => change({ thread: event.currentTarget.value, zoom: "" })}
          >
            <option value="">all {shown.threads.length}</option>
            {shown.threads.map((method) => (
              <option key={method} value={shown.names[method]!}>
                {shortened(shown.names[method]!, 50)}
              </option>
            ))}
          </select>
        </label>
      )}
      {narrows && range.value && shown.timeline && (
        <button
          type="button"
          class="chip"
          onClick={() => change({ range: "", zoom: "" })}
          aria-label="Show all of the time"
        >
          {rangeText(shown.timeline, range.value)} ×
        </button>
      )}
    </section>
  );
}
