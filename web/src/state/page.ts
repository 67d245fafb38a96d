/** The data, and what is chosen of them. */
import { computed, signal } from "@preact/signals";
import { type Page, type Range, readPage, treeOfThreads } from "../model/data";
import { procedureCosts } from "../model/procedures";
import { inTimeOrder, withoutMethods, withoutRecursion } from "../model/transforms";
import { route } from "./route";

export const page = signal<Page | null>(null);
export const failure = signal("");

const number = (name: string, fallback: number, count: number) => {
  const value = Number(route.value.params[name] ?? fallback);
  return Number.isInteger(value) && value >= 0 && value < count ? value : fallback;
};

export const profileIndex = computed(() => number("profile", 0, page.value?.profiles.length ?? 0));
export const profile = computed(() => page.value?.profiles[profileIndex.value] ?? null);
export const valueIndex = computed(() =>
  number("value", profile.value?.defaultValue ?? 0, profile.value?.values.length ?? 0),
);
export const value = computed(() => profile.value?.values[valueIndex.value] ?? { name: "", unit: "" });
export const thread = computed(() => {
  const name = route.value.params["thread"];
  return profile.value?.threads.find((method) => profile.value!.names[method] === name) ?? null;
});
/** The chosen part of the time axis; null: all of it. */
export const range = computed((): Range | null => {
  const slices = profile.value?.timeline?.slices ?? 0;
  const [from = NaN, to = NaN] = (route.value.params["range"] ?? "").split("-").map(Number);
  return Number.isInteger(from) && Number.isInteger(to) && from >= 0 && from < to && to <= slices ? [from, to] : null;
});
export const tree = computed(() => (profile.value ? treeOfThreads(profile.value, thread.value, range.value) : null));
/**
 * The tree as views show it: recursion collapsed, inlined calls left out, in the order of time, if
 * that is wanted.
 */
export const shownTree = computed(() => {
  const shown = profile.value;
  if (!tree.value || !shown) return null;
  const { recursion, inline, arrange } = route.value.params;
  let made =
    arrange === "time" && route.value.view === "flame" && shown.timeline
      ? inTimeOrder(shown, thread.value, range.value)
      : tree.value;
  if (inline === "hide") made = withoutMethods(made, shown.names.length, new Set(shown.inlined));
  return recursion === "once" ? withoutRecursion(made, shown.names.length) : made;
});
export const costs = computed(() =>
  tree.value && profile.value ? procedureCosts(tree.value, valueIndex.value, profile.value.names.length) : null,
);
export const whole = computed(() => tree.value?.total[valueIndex.value]?.[0] ?? 0);

/** Reads what stands in the page, or asks the server that sent it. */
export async function loadData(): Promise<void> {
  try {
    const inside = document.getElementById("vitalfew-data")?.textContent?.trim() ?? "";
    page.value = readPage(inside === "" ? await fetchData() : await unpack(inside));
    if (page.value.live) setInterval(() => void refresh(), 3000);
  } catch (error) {
    failure.value = error instanceof Error ? error.message : String(error);
  }
}

let tag = "";

async function fetchData(): Promise<string> {
  const answer = await fetch("data.json");
  if (!answer.ok) throw new Error(`The server has no data: ${await answer.text()}`);
  tag = answer.headers.get("etag") ?? "";
  return answer.text();
}

/**
 * Asks for newer data of a live recording. That the server has ended is no failure: what is shown
 * stays.
 */
async function refresh(): Promise<void> {
  try {
    const answer = await fetch("data.json", { headers: { "If-None-Match": tag } });
    if (answer.status !== 200) return;
    tag = answer.headers.get("etag") ?? "";
    page.value = readPage(await answer.text());
  } catch {
    // It is asked again.
  }
}

async function unpack(base64: string): Promise<string> {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
