/** What each method was asked, and of what was not asked why not or what to type. */
import { commandOf } from "./claims";
import type { Page, Result } from "./data";

export interface AskedMethod {
  readonly question: string;
  readonly state: "asked" | "no answer" | "not asked";
  /** What it had to go on; empty if it was not asked, or that is not known. */
  readonly had: string;
  /** Why there is no answer; empty if there is one, or that is not known. */
  readonly why: string;
  /** What asks it, where no reason is known. */
  readonly type: string;
}

export interface AskedGroup {
  /** The command that was run; empty: all that is in the page. */
  readonly about: string;
  readonly methods: readonly AskedMethod[];
}

/** The methods by the names that `run` gives them. */
const QUESTIONS: readonly {
  readonly method: string;
  readonly question: string;
  readonly schemas: readonly string[];
  readonly type: string;
}[] = [
  {
    method: "sampling",
    question: "Where is the time, or another cost?",
    schemas: ["vitalfew.bottlenecks-claims/1", "vitalfew.run/2"],
    type: "vitalfew record -g -- COMMAND",
  },
  {
    method: "interference",
    question: "What do threads lose to each other?",
    schemas: ["vitalfew.interference/2"],
    type: "vitalfew interference run -- COMMAND",
  },
  {
    method: "experiments",
    question: "What would making code faster be worth?",
    schemas: ["vitalfew.causal/1"],
    type: "vitalfew causal run -- COMMAND",
  },
  {
    method: "instructions",
    question: "Which instructions stall, and why?",
    schemas: ["vitalfew.annotate/1"],
    type: "vitalfew annotate",
  },
];

interface RawAsked {
  readonly method?: unknown;
  readonly had?: unknown;
  readonly why_not?: unknown;
}

const text = (value: unknown) => (typeof value === "string" ? value : "");

/** The questions of each `run`; without one, the questions by which results are there. */
export function askedGroups(page: Pick<Page, "results" | "profiles">): AskedGroup[] {
  const runs = page.results.filter((one) => Array.isArray(one["asked"]));
  if (runs.length > 0)
    return runs.map((run) => ({
      about: commandOf(run),
      methods: (run["asked"] as readonly RawAsked[]).map((one) =>
        askedOfRun(
          one,
          page.results.filter((other) => commandOf(other) === commandOf(run)),
        ),
      ),
    }));
  return [{ about: "", methods: QUESTIONS.map((one) => askedOfResults(one, page)) }];
}

function askedOfRun(one: RawAsked, results: readonly Result[]): AskedMethod {
  const known = QUESTIONS.find(({ method }) => method === one.method);
  const [had, why] = [text(one.had), text(one.why_not)];
  const question = known?.question ?? text(one.method);
  if (had !== "") return { question, state: why === "" ? "asked" : "no answer", had, why, type: "" };
  // What `run` did not ask may have been asked alone.
  const elsewhere = known?.method !== "sampling" && results.some(({ schema }) => known?.schemas.includes(schema));
  return elsewhere
    ? { question, state: "asked", had: "a result of its own in this page", why: "", type: "" }
    : { question, state: "not asked", had: "", why, type: why === "" ? (known?.type ?? "") : "" };
}

function askedOfResults(one: (typeof QUESTIONS)[number], page: Pick<Page, "results" | "profiles">): AskedMethod {
  const there = page.results.filter(({ schema }) => one.schemas.includes(schema));
  const code =
    one.method === "instructions" && page.profiles.some((profile) => (profile.code?.procedures.length ?? 0) > 0);
  if (there.length === 0 && !code)
    return { question: one.question, state: "not asked", had: "", why: "", type: one.type };
  const silent = there.length > 0 && there.every((result) => (result.claims?.list ?? []).length === 0);
  return {
    question: one.question,
    state: silent && !code ? "no answer" : "asked",
    had: hadOf(there, code),
    why: silent && !code ? "nothing stands out from chance" : "",
    type: "",
  };
}

function hadOf(there: readonly Result[], code: boolean): string {
  const experiments = there.reduce(
    (sum, one) => sum + (typeof one["experiments"] === "number" ? one["experiments"] : 0),
    0,
  );
  if (experiments > 0) return `${experiments.toLocaleString("en-US")} experiments`;
  if (code) return "the code of the hottest procedures (Source)";
  return there.length === 1 ? "one result" : `${there.length} results`;
}
