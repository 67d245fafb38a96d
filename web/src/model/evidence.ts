/** The evidence of claims as text, for who reads it. */
import type { Claim } from "./data";
import { amount, counted, percent, printable, shortened } from "./format";

type Evidence = Claim["evidence"][number];

export const words = (name: string) => name.replaceAll("_", " ");

/** Who had a CPU that was waited for. */
function takerText(by: unknown): string {
  const taker = (by ?? {}) as Record<string, unknown>;
  switch (taker["who"]) {
    case "other_program":
      return printable(String(taker["name"]));
    case "own_threads":
      return `its own threads, on ${Number(taker["allowed"])} of ${Number(taker["online"])} CPUs,`;
    case "other_machines":
      return "other machines on the same host";
    default:
      return "nobody";
  }
}

/** The memory that a program needed, of what it may have. */
function memoryText(need: unknown): string {
  const memory = (need ?? {}) as Record<string, unknown>;
  const bytes = (key: string) => amount(Number(memory[key]), "bytes");
  const whose =
    memory["limit_of"] === "control_group" ? "its control group may have" : "this machine has, for all programs,";
  return `memory needed: ${bytes("needed_bytes")}, of which ${bytes("swapped_bytes")} were swapped out; ${whose} ${bytes("allowed_bytes")}`;
}

function enderText(by: unknown): string {
  const ender = (by ?? {}) as Record<string, unknown>;
  const thread = printable(String(ender["thread"]));
  const whose = ender["is_own"] ? `its thread ${thread}` : `${thread}, another program`;
  return ender["function"] ? `${shortened(String(ender["function"]), 80)} (${whose})` : whose;
}

/** One sentence part for each piece; what is of one kind and says more together is put together. */
export function evidenceTexts(claim: Pick<Claim, "evidence">): string[] {
  const seen = new Set<unknown>();
  return claim.evidence.flatMap((one) => {
    const kind = one["kind"];
    // The page says it beside the sentence.
    if (kind === "run_gain") return [];
    const together =
      kind === "time_calling"
        ? callingText
        : kind === "allocated_by"
          ? allocatorsText
          : kind === "stall_culprit"
            ? culpritsText
            : undefined;
    if (!together) return [evidenceText(one)];
    if (seen.has(kind)) return [];
    seen.add(kind);
    return [together(claim.evidence.filter((other) => other["kind"] === kind))];
  });
}

const functionParts = (all: readonly Evidence[]) =>
  all.map((one) => `${shortened(String(one["function"]), 80)} ${percent(Number(one["part"]))}`).join(", ");

function callingText(all: readonly Evidence[]): string {
  return `of it in functions that it calls: ${functionParts(all)}`;
}

function allocatorsText(all: readonly Evidence[]): string {
  return `allocations by ${functionParts(all)}`;
}

/** Culprits that are all possible for all of the stall tell no amounts apart. */
function culpritsText(all: readonly Evidence[]): string {
  const name = (one: Evidence) => printable(String(one["culprit"]));
  if (all.length > 1 && all.every((one) => Number(one["least"]) === 0 && one["most"] === all[0]!["most"]))
    return `its cause is one of: ${all.map(name).join(", ")}`;
  return `its causes: ${all.map((one) => `${name(one)} ${one["least"] === one["most"] ? percent(Number(one["most"])) : `${percent(Number(one["least"]))} to ${percent(Number(one["most"]))}`}`).join(", ")}`;
}

export interface RunGain {
  /** How much shorter the run gets, as a part of its duration: from, to. */
  readonly interval: readonly [number, number];
  /** What the two ends assume; empty if nothing. */
  readonly assumes: string;
}

/** What a change at a finding's place gains, if that is known. */
export function runGain(claim: Pick<Claim, "evidence">): RunGain | undefined {
  const one = claim.evidence.find((each) => each["kind"] === "run_gain");
  if (!one) return undefined;
  const [low, high] = one["interval"] as [number, number];
  const less =
    typeof one["spared"] === "number"
      ? [`${percent(low)} if the change spares ${percent(one["spared"])} of this work`]
      : [];
  const more =
    typeof one["with"] === "string" ? [`${percent(high)} if all work of ${printable(one["with"])} goes`] : [];
  return { interval: [low, high], assumes: [...less, ...more].join("; ") };
}

function evidenceText(one: Evidence): string {
  const number = (key: string) => Number(one[key]);
  switch (one["kind"]) {
    case "call_cost":
      return counted(number("contexts"), "calling context", "calling contexts");
    case "sample_counts":
      return `${counted(number("before"), "sample", "samples")} before, ${number("after").toLocaleString("en-US")} after${typeof one["q"] === "number" ? `, q ${one["q"] < 0.001 ? "< 0.001" : one["q"].toFixed(3)}` : ""}`;
    case "experiments":
      return `${counted(number("experiments"), "experiment", "experiments")}, ${counted(number("visits"), "visit", "visits")}`;
    case "time_spent":
      return `${words(String(one["on"]))} ${percent(number("part"))}`;
    case "memory_short":
      return memoryText(one["need"]);
    case "sped_up_waits":
      return `its waits in ${printable(String(one["call"]))} were sped up, not its running`;
    case "sample_share":
      return `${percent(number("share"))} of the samples`;
    case "executions":
      return `${counted(number("calls"), "call", "calls")}, ${amount(number("mean_ns"), "nanoseconds")} each, at best ${amount(number("floor_ns"), "nanoseconds")}`;
    case "lost_time":
      return `${percent(number("blocked"))} blocked, ${percent(number("scheduler"))} without a CPU, ${percent(number("running"))} running`;
    case "suspected_cause":
      return `cause: ${words(String(one["cause"]))} (${percent(number("share"))}${one["measured"] === true ? ", seen" : ""})`;
    case "hot_instruction":
      return `slowest at ${printable(String(one["line"] ?? `0x${number("address").toString(16)}`))}: ${percent(number("part"))} of ${printable(String(one["procedure"]))}`;
    case "counted_elsewhere":
      return `another ${percent(number("part"))} is counted in other findings`;
    case "wait_ended":
      return `waits ended by ${enderText(one["by"])}: ${percent(number("part"))}`;
    case "stall_sum":
      return `in all of its instructions: ${printable(String(one["culprit"]))} ${percent(number("least"))} to ${percent(number("most"))}`;
    case "works_alone":
      return `one thread runs it while no other one works: ${percent(number("part"))} of the run at least`;
    case "holds_up":
      return `others wait until it goes on: ${printable(String(one["waiting"]))} most, ${percent(number("part"))} of the working time in all${one["on"] === undefined ? "" : `, ${words(String(one["on"]))}`}`;
    case "on_behalf_of":
      return `${percent(number("part"))} of it on behalf of ${shortened(String(one["function"]), 80)}`;
    case "spared_by":
      return `spared by ${printable(String(one["change"]))}`;
    case "dear_line":
      return `dearest line: ${printable(String(one["line"]))}, ${percent(number("part"))} of its function`;
    case "cpu_taken":
      return `CPU taken by ${takerText(one["by"])}: ${percent(number("part"))}`;
    default:
      return words(String(one["kind"]));
  }
}

export interface EvidencePart {
  readonly name: string;
  readonly part: number;
}

/**
 * Parts that evidence divides a finding into, for a picture: the first kind that there is, and what
 * it leaves as the rest.
 */
export function evidenceParts(claim: Pick<Claim, "evidence">): EvidencePart[] {
  const of = (kind: string) => claim.evidence.filter((one) => one["kind"] === kind);
  const lost = of("lost_time")[0];
  const parts: EvidencePart[] = lost
    ? [
        { name: "blocked", part: Number(lost["blocked"]) },
        { name: "without a CPU", part: Number(lost["scheduler"]) },
        { name: "running", part: Number(lost["running"]) },
      ]
    : [
        ...of("cpu_taken").map((one) => ({ name: takerText(one["by"]), part: Number(one["part"]) })),
        ...of("wait_ended").map((one) => ({ name: enderText(one["by"]), part: Number(one["part"]) })),
        ...of("time_calling").map((one) => ({
          name: shortened(String(one["function"]), 80),
          part: Number(one["part"]),
        })),
        ...of("hot_instruction")
          .slice(0, 1)
          .map((one) => ({ name: printable(String(one["line"] ?? "one instruction")), part: Number(one["part"]) })),
      ];
  const few = parts
    .filter((one) => one.part >= 0.005 && one.part <= 1.0001)
    .sort((a, b) => b.part - a.part)
    .slice(0, 5);
  const rest = 1 - few.reduce((sum, one) => sum + one.part, 0);
  // Kinds that overlap are no parts.
  if (few.length === 0 || rest < -0.005) return [];
  return rest > 0.005 ? [...few, { name: "", part: rest }] : few;
}
