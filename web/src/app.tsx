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
import { Source, hasCode } from "./views/source";
import { Timeline } from "./views/timeline";

const always = () => true;
const hasProfile = () => profile.value !== null;
const hasResult = (schema: string) => page.value!.results.some((one) => one.schema === schema);

/**
 * The views: address, title, tab, and whether this page and profile have anything for it. A new one
 * is a row here.
 */
export const VIEWS: readonly (readonly [string, string, string, ComponentType, () => boolean])[] = [
  ["findings", "Findings", "Findings", Findings, always],
  ["flame", "Flame graph", "Calls", FlameView, hasProfile],
  ["procedures", "Procedures", "Calls", Procedures, hasProfile],
  ["sandwich", "Sandwich", "Calls", Sandwich, hasProfile],
  ["bottlenecks", "Bottlenecks", "Calls", Bottlenecks, hasProfile],
  ["source", "Source", "Source", Source, () => hasCode(profile.value)],
  ["timeline", "Timeline", "Threads", Timeline, () => !!profile.value?.timeline],
  [
    "interference",
    "Interference",
    "Threads",
    Interference,
    () => hasResult("vitalfew.interference/2") || !!profile.value?.wakes,
  ],
  [
    "compare",
    "Compare",
    "Compare",
    Compare,
    () => page.value!.profiles.length > 1 || range.value !== null || hasResult("vitalfew.diff/1"),
  ],
  ["causal", "Causal", "More", Causal, () => hasResult("vitalfew.causal/1")],
  ["machine", "Machine", "More", Machine, always],
];

/** The views of each tab that is shown. An address leads to its view, whatever that has. */
export function shownTabs() {
  const shown = VIEWS.filter(([name, , , , isThere]) => name === route.value.view || isThere());
  return [...new Set(shown.map(([, , tab]) => tab))].map((tab) => shown.filter((view) => view[2] === tab));
}

export function App() {
  const [help, setHelp] = useState(false);
  const [finder, setFinder] = useState(false);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") setHelp(true);
      else if (event.key === "t") switchTheme();
      else if (event.key === "/") setFinder(true);
      else if (/^[1-6]$/.test(event.key) && page.value) {
        const tab = shownTabs()[Number(event.key) - 1];
        if (tab) go(tab[0]![0]);
      } else return;
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
  const [current, , , View] = VIEWS.find(([name]) => name === route.value.view) ?? VIEWS[0]!;
  const tabs = shownTabs();
  const siblings = tabs.find((views) => views.some(([name]) => name === current))!;
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
          {tabs.map((views) => (
            <ViewLink
              key={views[0]![2]}
              name={views[0]![0]}
              title={views.length > 1 ? views[0]![2] : views[0]![1]}
              isCurrent={views === siblings}
            />
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
      {siblings.length > 1 && (
        <nav class="siblings" aria-label={`Views of ${siblings[0]![2]}`}>
          {siblings.map(([name, title]) => (
            <ViewLink key={name} name={name} title={title} isCurrent={name === current} />
          ))}
        </nav>
      )}
      <Choices />
      <main id="main" tabIndex={-1}>
        <View />
      </main>
      {finder && <Finder views={tabs.flat().map(([name, title]) => [name, title])} onClose={() => setFinder(false)} />}
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

interface ViewLinkProps {
  readonly name: string;
  readonly title: string;
  readonly isCurrent: boolean;
}

function ViewLink({ name, title, isCurrent }: ViewLinkProps) {
  return (
    <a href={linkTo(name)} aria-current={isCurrent ? "page" : undefined}>
      {title}
    </a>
  );
}

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
