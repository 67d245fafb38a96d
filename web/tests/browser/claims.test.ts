/** Findings are said in the words of the result: at a glance, and all of it behind one click. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, open, pageOf, violations } from "./vitalfew";

const command = ["./import", "5000"];

const profile = {
  name: "import.vf",
  format: "recording",
  notes: [],
  values: [{ name: "cpu-clock", unit: "samples", per_second: 1000 }],
  default_value: 0,
  methods: { name: ["main", "find_customer", "save_order"], module: [0, 0, 0], modules: ["import"] },
  tree: { depth: [1, 2, 2], method: [0, 1, 2], cost: [[0, 30, 750, 220]] },
  facts: {
    command,
    host: "h",
    cpus: 2,
    start_unix_ns: 0,
    duration_ns: 1e9,
    collector: "bpf",
    call_graph: "tables",
  },
  lines: {
    files: ["/src/import.c"],
    file: [0],
    line: [52],
    function: ["find_customer"],
    images: ["import"],
    image: [0],
    own: [750],
    total: [750],
    sources: [{ file: 0, first: 51, text: ["for (;;)", "    step(query);"] }],
  },
};

const claim = (name: string, value: number, words: object) => ({
  claim: "takes_time",
  sentence: `${100 * value} % of the time in ${name}: on CPU`,
  lines: [`callees: ${name}_more 32 %`],
  doubt_lines: [],
  place: { image: "/opt/import", what: { kind: "call_path", path: ["main", name] } },
  amount: {
    value,
    interval: [value - 0.02, value + 0.02],
    unit: "fraction",
    relative_to: "working_time",
    certainty: "measured",
  },
  evidence: [
    { kind: "virtual_speedup", of: "working_time", free: value, interval: [value - 0.03, value + 0.03] },
    { kind: "dear_line", line: name === "find_customer" ? "/src/import.c:52" : "/gone/save.c:61", part: 0.9 },
  ],
  doubts: [],
  next: ["vitalfew", "annotate", name],
  ...words,
});

const first = {
  speedup: "2x as fast here: run 37 % shorter   free: 75 % [72, 78]",
  doubt_lines: ["it runs in 20 % of the time only: <b>the amount</b> was scaled"],
};

const run = {
  schema: "vitalfew.run/2",
  target: { command },
  together: 0.97,
  machine: { sentence: "other programs: this run waited 41 % of its time for a CPU that cc1 had" },
  asked: [{ method: "sampling", had: "1000 samples", why_not: null }],
  claims: { list: [claim("find_customer", 0.75, first), claim("save_order", 0.22, {})] },
};

let browser: Browser;
let file = "";

beforeAll(async () => {
  browser = await launch();
  file = pageOf("claims.html", [profile], [run]);
});
afterAll(() => browser.close());

describe.each([390, 1280])("the front of %d pixels", (width) => {
  it("says the sentence, the virtual speedup and the line, and folds all else", async () => {
    const { page, complaints } = await open(browser, file);
    await page.setViewportSize({ width, height: 900 });
    const [finding, other] = [page.locator(".claim").first(), page.locator(".claim").nth(1)];
    const front = (await finding.innerText()).split("\n").filter((line) => line !== "");
    expect(front.map((line) => line.replace(/^1\s+/, "").trim())).toEqual([
      run.claims.list[0]!.sentence,
      first.speedup,
      "import.c:52 step(query);",
      "Evidence",
    ]);
    expect(await other.innerText()).toContain("save.c:61");
    expect(await page.locator("main").innerText()).toContain(run.machine.sentence);
    expect(await page.locator(".rest").innerText()).toContain("Everything else 3.00\u00a0%");
    // All bars are on one scale.
    const bars = await page
      .locator(".claim .interval .value")
      .evaluateAll((all) => all.map((one) => one.getAttribute("width")));
    expect(bars.map(Number).map(Math.round)).toEqual([75, 22, 3]);
    await finding.locator("summary").click();
    const all = await finding.innerText();
    for (const words of ["find_customer_more 32 %", first.doubt_lines[0]!, "lower bound: 72.0\u00a0%", "Flame graph"])
      expect(all).toContain(words);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.close();
  });
});

it("has tabs for what there is to show, and addresses for all views", async () => {
  const { page } = await open(browser, `${file}#/flame`);
  const texts = (label: string) => page.locator(`nav[aria-label='${label}'] a`).allInnerTexts();
  expect(await texts("Views")).toEqual(["Findings", "Calls", "Source", "Machine"]);
  expect(await texts("Views of Calls")).toEqual(["Flame graph", "Procedures", "Sandwich", "Bottlenecks"]);
  await page.keyboard.press("3");
  await page.waitForSelector("h1:has-text('Source')");
  await page.goto(`${file}#/timeline`);
  await page.waitForSelector("[data-testid=empty]");
  expect(await page.locator("nav [aria-current]").allInnerTexts()).toEqual(["Timeline"]);
  await page.close();
});
