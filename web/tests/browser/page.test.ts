import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { VIEWS } from "../../src/app";
import {
  ROOT,
  VITALFEW,
  colours,
  folder,
  launch,
  open,
  pageOf,
  recorded,
  recordedThreads,
  violations,
  vitalfew,
  write,
} from "./vitalfew";

/** A new view is held to the same rules by being one. */
const NAMES = VIEWS.map(([name]) => name);
const HOSTILE = [
  "<script>document.title='run'</script>",
  "\u202eevil\u202c",
  "\u001b[31mred",
  "x".repeat(100_000),
  "'\"><img src=x onerror=alert(1)>",
  "__proto__",
];

let browser: Browser;
let file = "";
let hostile = "";
let timed = "";
let waits = false;

beforeAll(async () => {
  browser = await launch();
  const other = write("other.folded", "main;recurse;hot_leaf 70\nmain;cold 30\n");
  vitalfew(
    "html",
    "all.html",
    recorded(),
    other,
    join(ROOT, "crates/cli/tests/causal/search.json"),
    join(ROOT, "crates/cli/tests/interference/lock.trace"),
  );
  file = `file://${join(folder, "all.html")}`;
  const threads = recordedThreads();
  waits = threads.waits;
  vitalfew("html", "timed.html", threads.path);
  timed = `file://${join(folder, "timed.html")}`;
  vitalfew(
    "html",
    "hostile.html",
    write("hostile.folded", HOSTILE.map((name, at) => `main;${name} ${100 + at}`).join("\n")),
  );
  hostile = `file://${join(folder, "hostile.html")}`;
});
afterAll(() => browser.close());

describe.each(["light", "dark"] as const)("one file, %s", (scheme) => {
  it.each(NAMES)("shows %s, for everybody, and asks nobody", async (view) => {
    const { page, complaints } = await open(browser, `${file}#/${view}`, scheme);
    expect(await page.locator("main").innerText()).not.toBe("");
    if (["flame", "sandwich", "compare"].includes(view)) expect(await colours(page)).toBeGreaterThan(3);
    // Of this recording no times were kept.
    expect(await page.locator("[data-testid=empty]").count()).toBe(view === "timeline" ? 1 : 0);
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.close();
  });
});

it("leads from a finding to the source line by the keyboard alone", async () => {
  const { page } = await open(browser, file);
  const tabTo = async (wanted: RegExp) => {
    for (let tries = 0; tries < 80; tries++) {
      await page.keyboard.press("Tab");
      const text = await page.evaluate(() => (document.activeElement as HTMLElement | null)?.innerText ?? "");
      if (wanted.test(text)) return text;
    }
    throw new Error(`no Tab leads to ${String(wanted)}`);
  };
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { state: "detached" });
  // Not each finding has a place in a profile.
  while ((await tabTo(/^Evidence$|^Callers and callees$/)) === "Evidence") await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".sandwich");
  await page.keyboard.press("3");
  await tabTo(/hot\.c:\d+/);
  await page.keyboard.press("Enter");
  await page.waitForSelector("[aria-label=Source] .current");
  expect(await page.locator("[aria-label=Source] .current").innerText()).toContain("sink");
  await page.keyboard.press("/");
  await page.waitForSelector(".finder input:focus");
  await page.keyboard.type("hot_leaf");
  await page.waitForSelector("[role=option][aria-selected=true] >> text=hot_leaf");
  expect(await violations(page)).toEqual([]);
  // What is found first may be a finding that names it: the procedure follows.
  for (
    let tries = 0;
    tries < 20 && (await page.locator("[aria-selected=true] >> text=Procedure").count()) === 0;
    tries++
  )
    await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForSelector("h1:has-text('hot_leaf')");
  await page.close();
});

it("keeps what is shown in the address, through reload and back", async () => {
  const { page } = await open(browser, `${file}#/flame`);
  await page.fill("#flame-search", "recurse");
  await page.selectOption("select >> nth=1", "callees");
  const total = await page.getByTestId("search-total").innerText();
  expect(total).toMatch(/^9\d\.\d|^100/);
  const address = page.url();
  await page.reload();
  await page.waitForSelector("#flame-search");
  expect(await page.inputValue("#flame-search")).toBe("recurse");
  expect(await page.getByTestId("search-total").innerText()).toBe(total);
  await page.click("nav >> text=Procedures");
  await page.waitForSelector("h1:has-text('Procedures')");
  await page.goBack();
  expect(page.url()).toBe(address);
  await page.waitForSelector("#flame-search");
  await page.close();
});

it("moves in a flame graph by keys, zooms, and saves it", async () => {
  const { page } = await open(browser, `${file}#/flame`);
  await page.focus("canvas");
  const down = async () => {
    await page.keyboard.press("ArrowDown");
    return page.getByTestId("flame-details").innerText();
  };
  const first = await down();
  expect(await down()).not.toBe(first);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("zoom="));
  await page.keyboard.press("Escape");
  await page.click("summary:has-text('Save')");
  const download = page.waitForEvent("download");
  await page.click("text=As SVG");
  const svg = readFileSync(await (await download).path(), "utf8");
  expect(svg).toContain("hot_leaf");
  await page.close();
});

it("shows hostile names as text", async () => {
  for (const view of NAMES) {
    const { page, complaints } = await open(browser, `${hostile}#/${view}`);
    expect(await page.title()).toBe("vitalfew");
    expect(await page.locator("main img").count()).toBe(0);
    expect(complaints).toEqual([]);
    expect((await page.content()).includes("\u202e")).toBe(false);
    if (view === "procedures") expect(await page.locator("main").innerText()).toContain("<script>");
    await page.close();
  }
});

it("compares a recording with itself as one tree", async () => {
  vitalfew("html", "same.html", "hot.vf", "hot.vf");
  const same = `file://${join(folder, "same.html")}`;
  const { page } = await open(browser, `${same}#/flame`);
  const below = await page.locator(".twin summary").innerText();
  await page.goto(`${same}#/compare`);
  await page.waitForSelector("h1:has-text('Compare')");
  expect(await page.locator(".twin summary").innerText()).toBe(below);
  await page.close();
});

it("says which differences are more than chance, by sign and interval", async () => {
  const before = readFileSync(join(folder, "hot.c"), "utf8");
  const loop = (turns: number) => before.replace("sink++;", `for (int i = 0; i < ${turns}; i++) sink ^= i;`);
  // Another version of one program.
  for (const [name, turns] of [
    ["less", 5_000],
    ["more", 50_000],
  ] as const) {
    execFileSync("cc", [
      "-g",
      "-O1",
      "-fno-optimize-sibling-calls",
      "-o",
      join(folder, "grown"),
      write(`${name}.c`, loop(turns)),
    ]);
    vitalfew("record", "-g", "-q", "-o", `${name}.vf`, "--", "./grown");
  }
  vitalfew("html", "grown.html", "less.vf", "more.vf");
  const { page, complaints } = await open(browser, `file://${join(folder, "grown.html")}#/compare`);
  const table = page.getByTestId("differences");
  expect(await table.locator("tbody tr", { hasText: "recurse" }).innerText()).toMatch(/◆ more.*\+.*\[\+/s);
  expect(await table.innerText()).toMatch(/differs? by more than chance/);
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await page.close();
});

it("compares sets of recordings, and a part of the time with the rest of it", async () => {
  const runs = Array.from({ length: 10 }, (_, at) =>
    write(`run${at}.folded`, `main;work;steady ${500 + 3 * at}\nmain;work;grown ${at < 5 ? 100 + at : 300 + at}\n`),
  );
  vitalfew("html", "sets.html", ...runs);
  const { page, complaints } = await open(browser, `file://${join(folder, "sets.html")}#/compare?scale=none`);
  await page.click("summary:has-text('Compare sets')");
  for (let at = 0; at < 10; at++)
    await page
      .locator(".sets select")
      .nth(at)
      .selectOption(at < 5 ? "A" : "B");
  expect(page.url()).toContain("sides=AAAAABBBBB");
  const table = page.getByTestId("differences");
  expect(await table.locator("tbody tr", { hasText: "grown" }).innerText()).toMatch(/◆ more.*\+205.*\[\+20[0-9]/s);
  expect(await table.innerText()).toMatch(/5 recordings.*5 recordings/s);
  expect(await colours(page)).toBeGreaterThan(3);
  expect(await violations(page)).toEqual([]);
  await page.reload();
  await page.waitForSelector("[data-testid=differences]");
  await page.click("text=One with one again");
  expect(page.url()).not.toContain("sides=");
  await page.goto(`${timed}#/compare?range=0-3&against=rest`);
  await page.waitForSelector(".flame canvas");
  expect(await page.locator("main").innerText()).toContain("what follows in time is not independent");
  expect(await page.locator("main").innerText()).toContain("the selected time");
  // The first phase is less in the rest of the time, the second one more.
  expect(await colours(page)).toBeGreaterThan(4);
  expect(complaints.filter((one) => !one.startsWith("request: ") || !one.endsWith("timed.html"))).toEqual([]);
  await page.close();
});

it("says why a view is empty and what to type", async () => {
  for (const view of ["timeline", "source", "compare", "causal", "interference"]) {
    const { page } = await open(browser, `${hostile}#/${view}`);
    expect(await page.getByTestId("empty").innerText()).toContain("vitalfew ");
    await page.close();
  }
});

/** The number that a text begins with. */
const count = (text: string) => Number(text.replaceAll(",", "").match(/\d+/)![0]);

it("shows threads over time, and a selected range filters all views, by keys alone", async () => {
  for (const scheme of ["light", "dark"] as const) {
    const { page, complaints } = await open(browser, `${timed}#/timeline`, scheme);
    expect(await colours(page, ".timeline canvas")).toBeGreaterThan(3);
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.close();
  }
  const { page } = await open(browser, `${timed}#/timeline`);
  // The main thread waits until both threads have ended: one of them wakes it.
  if (waits) expect(await page.getByTestId("threads").innerText()).toMatch(/threads \(\d+\), after/);
  await page.focus("canvas");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Shift+ArrowRight");
  await page.waitForFunction(() => location.hash.includes("range=1-3"));
  const samples = async (range: string) => {
    await page.goto(`${timed}#/flame?range=${range}`);
    await page.waitForSelector(".flame");
    return count((await page.getByTestId("flame-details").innerText()).replace(/^all\s*/, ""));
  };
  const whole = await samples("");
  expect(whole).toBeGreaterThan(0);
  await page.goto(`${timed}#/timeline`);
  await page.waitForSelector(".timeline");
  const all = count(await page.locator(".timeline > p").last().innerText());
  expect((await samples(`0-${Math.floor(all / 2)}`)) + (await samples(`${Math.floor(all / 2)}-${all}`))).toBe(whole);
  expect(await page.locator(".chip").innerText()).toContain("s ×");
  await page.goto(`${timed}#/flame?arrange=time`);
  await page.waitForSelector(".flame");
  expect(await page.locator(".twin tbody th").first().textContent()).toMatch(/^[\d.]+\u00a0(ns|ms|s)$/);
  await page.close();
});

it("shows when frames of another tool's profile were open, and a part of that time filters the flame graph", async () => {
  const events = ["O 0 0", "O 1 1", "C 1 4", "C 0 5", "O 0 8", "O 2 8", "C 2 10", "C 0 10"]
    .map((one) => one.split(" "))
    .map(([type, frame, at]) => ({ type, frame: Number(frame), at: Number(at) }));
  const profile = {
    $schema: "https://www.speedscope.app/file-format-schema.json",
    shared: { frames: ["main", "first", "second"].map((name) => ({ name })) },
    profiles: [{ type: "evented", name: "worker", unit: "seconds", startValue: 0, endValue: 10, events }],
  };
  vitalfew("html", "evented.html", write("evented.json", JSON.stringify(profile)));
  const address = `file://${join(folder, "evented.html")}`;
  const { page, complaints } = await open(browser, `${address}#/timeline`);
  expect(await colours(page, ".timeline canvas")).toBeGreaterThan(2);
  expect(await page.getByTestId("threads").innerText()).toMatch(/worker\s+7\.00\u00a0s/);
  expect(await violations(page)).toEqual([]);
  const slices = count(await page.locator(".timeline > p").last().innerText());
  await page.goto(`${address}#/flame?range=0-${Math.floor(0.6 * slices)}`);
  await page.waitForSelector(".flame");
  expect(await page.getByTestId("flame-details").innerText()).toContain("5.00\u00a0s");
  expect(complaints).toEqual([]);
  await page.close();
});

it("shows source and assembly side by side, with the graph of the blocks", async () => {
  const { page, complaints } = await open(browser, `${file}#/source`);
  const said = spawnSync(VITALFEW, ["annotate", "hot_leaf", "hot.vf", "--json"], { cwd: folder, encoding: "utf8" });
  // On a processor without a model, there is no assembly to show.
  if (/no model/.test(said.stderr)) return page.close();
  await page.waitForSelector(".beside");
  expect(await page.locator("[aria-label=Source] .code").innerText()).toContain("sink += i");
  const instructions = page.locator("[aria-label=Assembly] tbody button");
  expect(await instructions.count()).toBeGreaterThan(4);
  await instructions.nth(2).focus();
  await page.keyboard.press("Enter");
  expect(await page.getByTestId("explanation").innerText()).toContain(await instructions.nth(2).innerText());
  await page.click("text=Control flow");
  const blocks = page.locator(".graph .node");
  expect(await blocks.count()).toBeGreaterThan(1);
  await blocks.first().focus();
  await page.keyboard.press("Enter");
  expect(await page.locator(".graph .node[aria-pressed=true]").count()).toBe(1);
  const download = page.waitForEvent("download");
  await page.click("summary:has-text('Save')");
  await page.click("text=As SVG");
  expect(readFileSync(await (await download).path(), "utf8")).toContain("<svg");
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await page.close();
});

it("says what threads cost each other, in which functions and locks, and who ended waits", async () => {
  const loss = (estimate: number) => ({
    share: 0.4,
    loss: { estimate, low: estimate - 0.05, high: estimate + 0.05 },
    is_claimed: true,
  });
  const traced = (name: string, more: object) => ({
    ...{ name, image: "/app", loss: null, locks: [], cause: null, waits: [] },
    ...{ calls: 2000, period: 1, mean_ns: 100, max_ns: 9000, threads_total: 1 },
    ...{ threads: [{ tid: 7, name: `${name}-thread`, calls: 2000, total_ns: 2e5 }], stacks: [] },
    ...more,
  });
  const ended_by = [{ function: "unlock", ns: 1e8, thread: "app (7)" }];
  const result = {
    schema: "vitalfew.interference/2",
    command: ["./app"],
    ...{ duration_ns: 1e9, threads: 2, thread_time_ns: 1e9 },
    solo: { verdict: "interference" },
    words: {
      verdict: "2 busy threads: each runs at 60 %",
      machine: ["other programs had the CPUs for 30 %"],
      contention: "lost to lock contention: 40 %",
      causes: ["lock contention", "not known"],
      waits: { lock: "a lock" },
    },
    functions: [
      traced("lock", {
        loss: loss(0.3),
        locks: [{ address: 0x7f10, ...loss(0.2) }],
        cause: "lock",
        waits: [{ kind: "lock", ns: 1e8, waits: 9, ended_by }],
      }),
      traced("share", { loss: loss(0.1) }),
    ],
  };
  const { page, complaints } = await open(browser, pageOf("interference.html", [], [result]) + "#/interference");
  const [losses, waiting] = await page.locator("main .table").allInnerTexts();
  expect(losses).toMatch(/lock\s+30.% \(25 to 35\)\s+75.%\s+lock contention\s+2,000/);
  expect(losses).toMatch(/lock, lock 0x7f10\s+20.%/);
  expect(losses).toMatch(/share\s+10.%.*\s+25.%\s+not known/);
  expect(waiting).toMatch(/lock\s+10.%\s+9\s+a lock\s+unlock/);
  expect(await page.locator(".doubt").innerText()).toBe("other programs had the CPUs for 30 %");
  expect(await page.locator("main").innerText()).toContain("2 busy threads: each runs at 60 %");
  expect(await page.locator("main").innerText()).toContain("lost to lock contention: 40 %");
  expect(await page.locator(".graph .node").allTextContents()).toEqual(["lockwaited 100\u00a0ms", "unlock"]);
  expect(await page.getByTestId("block").innerText()).toContain("lock-thread (7)");
  await page.getByRole("button", { name: "share" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("block=share"));
  expect(await page.getByTestId("block").innerText()).toContain("share-thread (7)");
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await page.close();
});

it("draws which threads of a recording waited for which", async () => {
  if (!waits) return;
  const { page } = await open(browser, `${timed}#/interference`);
  await page.waitForSelector(".graph .node");
  expect(await page.locator(".graph").innerHTML()).toContain("threads");
  await page.close();
});

it("works at twice the size in a narrow window, and keeps the look of a flame graph in the address", async () => {
  const { page } = await open(browser, `${file}#/flame?colour=language&order=up`);
  await page.setViewportSize({ width: 400, height: 700 });
  for (const view of NAMES) {
    await page.goto(`${file}#/${view}`);
    await page.waitForSelector("main h1, [data-testid=empty]");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect([view, wide]).toEqual([view, 0]);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`${file}#/flame`);
  await page.focus("canvas");
  // The picture as wide as its window, which is told a moment after it is drawn first.
  const settled = () =>
    page.waitForFunction(
      () => Math.abs(document.querySelector("canvas")!.width - document.querySelector(".canvas")!.clientWidth) < 2,
    );
  await settled();
  await page.keyboard.press("+");
  await page.waitForFunction(() => location.hash.includes("view="));
  const look = () => page.$eval("canvas", (element) => (element as HTMLCanvasElement).toDataURL());
  const before = await look();
  await page.reload();
  await page.waitForSelector("canvas");
  await page.focus("canvas");
  await page.waitForFunction((before) => document.querySelector("canvas")!.toDataURL() === before, before);
  await page.close();
});

it("keeps a zoom that was made before the width of the window was told", async () => {
  const { page } = await open(browser, file);
  await page.evaluate(() => {
    const Told = window.ResizeObserver;
    window.ResizeObserver = class extends Told {
      constructor(tell: ResizeObserverCallback) {
        super((entries, observer) => addEventListener("tell", () => tell(entries, observer), { once: true }));
      }
    };
    location.hash = "#/flame";
  });
  await page.waitForSelector("canvas");
  await page.focus("canvas");
  await page.keyboard.press("+");
  // Drawn in the new width, and drawn again when the address has what is seen.
  const looks = await page.evaluate(async () => {
    const canvas = document.querySelector("canvas")!;
    const wait = () => new Promise((waited) => setTimeout(waited, 20));
    const early = canvas.width;
    dispatchEvent(new Event("tell"));
    while (canvas.width === early) await wait();
    const first = canvas.toDataURL();
    while (!location.hash.includes("view=")) await wait();
    await wait();
    return [first, canvas.toDataURL()];
  });
  expect(looks[1] === looks[0]).toBe(true);
  await page.close();
});

it("is small: 50,000 samples with stacks in less than a megabyte", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  // 4,000 different stacks, as programs have them: few choices near the root, more below.
  const stacks = Array.from({ length: 4_000 }, () =>
    Array.from(
      { length: 12 + random(12) },
      (_, deep) => `module_${deep}::function_${Math.min(random(2 + deep), random(2 + deep))}`,
    ).join(";"),
  );
  vitalfew(
    "html",
    "large.html",
    write("large.folded", Array.from({ length: 50_000 }, () => `${stacks[random(4_000)]} 1`).join("\n")),
  );
  expect(readFileSync(join(folder, "large.html")).length).toBeLessThan(1_000_000);
});
