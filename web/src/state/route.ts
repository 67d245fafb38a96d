/**
 * What is shown, in the URL: `#/view?name=value`. The back button goes through it, and a reload
 * keeps it.
 */
import { signal } from "@preact/signals";

export interface Route {
  readonly view: string;
  readonly params: Readonly<Record<string, string>>;
}

/** Reads the part of a URL behind `#`. */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  return { view: path || "findings", params: Object.fromEntries(new URLSearchParams(query)) };
}

/** The same as text; parameters without a value are left out, the others are in a fixed order. */
export function formatRoute(route: Route): string {
  const params = Object.entries(route.params).filter(([, value]) => value !== "");
  const query = new URLSearchParams(params.sort(([a], [b]) => (a < b ? -1 : 1))).toString();
  return `#/${route.view}${query === "" ? "" : `?${query}`}`;
}

export const route = signal<Route>(parseRoute(typeof location === "undefined" ? "" : location.hash));

/** Parameters that hold in every view. */
const COMMON = ["profile", "value", "thread", "range"];

/**
 * Another view with parameters of its own; those that hold in every view are kept, but in another
 * profile.
 */
function routeTo(view: string, params: Readonly<Record<string, string>>): Route {
  const now = route.value.params;
  const isOther = params["profile"] !== undefined && params["profile"] !== (now["profile"] ?? "0");
  const kept = isOther ? [] : COMMON.filter((name) => name in now).map((name) => [name, now[name]!]);
  return { view, params: { ...Object.fromEntries(kept), ...params } };
}

/** Goes to a view. */
export function go(view: string, params: Readonly<Record<string, string>> = {}): void {
  show(routeTo(view, params), false);
}

/**
 * Changes parameters of this view; `replace` for what changes with each key, so that the back
 * button does not go through it.
 */
export function change(params: Readonly<Record<string, string>>, replace = false): void {
  show({ view: route.value.view, params: { ...route.value.params, ...params } }, replace);
}

function show(next: Route, replace: boolean): void {
  const hash = formatRoute(next);
  if (hash === formatRoute(route.value)) return;
  route.value = parseRoute(hash);
  history[replace ? "replaceState" : "pushState"](null, "", hash);
}

/** The address of a view, for links. */
export function linkTo(view: string, params: Readonly<Record<string, string>> = {}): string {
  return formatRoute(routeTo(view, params));
}

/** Follows the browser's own navigation. */
export function followHistory(): void {
  const read = () => (route.value = parseRoute(location.hash));
  addEventListener("popstate", read);
  addEventListener("hashchange", read);
}
