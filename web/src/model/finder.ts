/** Search over everything that the page has. No DOM. */
import { paramsOfLine } from "./code";
import type { Page, Profile } from "./data";
import { lastPart, moduleOf } from "./identity";

export interface Hit {
  readonly kind: "View" | "Finding" | "Procedure" | "Line" | "Thread" | "Code";
  readonly text: string;
  readonly view: string;
  readonly params: Readonly<Record<string, string>>;
}

/** Maximum number of hits of a kind that are shown. */
const EACH = 8;

/**
 * What has the text in its name, the kinds one after the other; names that begin with it first,
 * then the dearest.
 */
export function findAll(
  page: Page,
  shown: Profile | null,
  total: Float64Array | null,
  views: readonly (readonly [string, string])[],
  text: string,
): Hit[] {
  const small = text.trim().toLowerCase();
  if (small === "") return views.map(([view, title]) => ({ kind: "View", text: title, view, params: {} }));
  const rank = (name: string) => (name.toLowerCase().startsWith(small) ? 0 : 1);
  const has = (name: string) => name.toLowerCase().includes(small);
  const hits: Hit[] = views
    .filter(([, title]) => has(title))
    .map(([view, title]) => ({ kind: "View", text: title, view, params: {} }));
  const sentences = page.results
    .flatMap((result) => result.claims?.list ?? [])
    .map((claim) => claim.sentence)
    .filter(has);
  hits.push(
    ...[...new Set(sentences)]
      .slice(0, EACH)
      .map((sentence): Hit => ({ kind: "Finding", text: sentence, view: "findings", params: {} })),
  );
  if (!shown) return hits;
  const methods = shown.names
    .map((_, method) => method)
    .filter(
      (method) =>
        has(shown.names[method]!) &&
        (total?.[method] ?? 1) !== 0 &&
        shown.slice[method]! < 0 &&
        !shown.threads.includes(method),
    );
  methods.sort((a, b) => rank(shown.names[a]!) - rank(shown.names[b]!) || (total?.[b] ?? 0) - (total?.[a] ?? 0));
  hits.push(
    ...methods.slice(0, EACH).map((method): Hit => ({
      kind: "Procedure",
      text: shown.names[method]!,
      view: "sandwich",
      params: { method: shown.names[method]!, image: moduleOf(shown, method) },
    })),
  );
  hits.push(
    ...(shown.code?.procedures ?? [])
      .filter((one) => has(one.name))
      .slice(0, EACH)
      .map((one): Hit => ({
        kind: "Code",
        text: one.name,
        view: "source",
        params: { procedure: one.name, image: lastPart(one.image) },
      })),
  );
  const lines = (shown.lines?.line ?? []).map((line, index) => ({
    index,
    text: `${shown.lines!.files[shown.lines!.file[index]!]!.split("/").at(-1)!}:${line} ${shown.lines!.function[index]!}`,
  }));
  hits.push(
    ...lines
      .filter((one) => has(one.text))
      .slice(0, EACH)
      .map((one): Hit => ({
        kind: "Line",
        text: one.text,
        view: "source",
        params: paramsOfLine(shown.lines!, one.index),
      })),
  );
  hits.push(
    ...shown.threads
      .filter((method) => has(shown.names[method]!))
      .slice(0, EACH)
      .map((method): Hit => ({
        kind: "Thread",
        text: shown.names[method]!,
        view: "flame",
        params: { thread: shown.names[method]! },
      })),
  );
  return hits;
}
