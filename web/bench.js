// Measures the page and speedscope: node bench.js PAGE.html FILE.folded SPEEDSCOPE; benches/page.py
// calls it.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [own, folded, speedscope] = process.argv.slice(2);
const RUNS = Number(process.env.BENCH_RUNS ?? 5);
const TURNS = 40;
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

/** speedscope's own way to open a file: a script beside the page that hands it over. */
function peerPage() {
  const script = join(folded, "../speedscope-file.js");
  writeFileSync(
    script,
    `speedscope.loadFileFromBase64("large.folded", ${JSON.stringify(readFileSync(folded).toString("base64"))})`,
  );
  const page = readdirSync(join(speedscope, "dist/release")).find((name) => name === "index.html");
  return `file://${join(speedscope, "dist/release", page)}#localProfilePath=${script}`;
}

const SUBJECTS = {
  vitalfew: {
    address: `file://${own}#/flame`,
    ready: () => Boolean(document.querySelector("canvas")?.dataset.milliseconds),
    search: async (page) => page.fill("#flame-search", "function_17"),
    found: () => /overlap/.test(document.querySelector("[data-testid=search-total]")?.textContent ?? ""),
  },
  speedscope: {
    address: peerPage(),
    // Its menu has the profile's name once it is loaded; a box in the minimap is drawn in the same
    // task.
    ready: () => document.title.includes("large") && document.querySelector("canvas") !== null,
    search: async (page) => {
      await page.keyboard.press("Control+f");
      await page.fill("input:not([type=file])", "function_17");
    },
    found: () => true,
  },
};

/** What the main thread did so far, in milliseconds. */
async function busy(client) {
  const { metrics } = await client.send("Performance.getMetrics");
  return 1000 * metrics.find((one) => one.name === "TaskDuration").value;
}

const twoFrames = (page) =>
  page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));

/** Waits until the main thread has had nothing to do for half a second. */
async function settled(page, client) {
  for (let before = -1; ;) {
    const now = await busy(client);
    if (now - before < 20) return;
    before = now;
    await page.waitForTimeout(500);
  }
}

async function memory(browser, client) {
  await client.send("HeapProfiler.collectGarbage");
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const sizes = processInfo
    .filter((one) => one.type === "renderer")
    .map((one) => Number(readFileSync(`/proc/${one.id}/smaps_rollup`, "utf8").match(/^Pss:\s+(\d+)/m)[1]) / 1000);
  return Math.max(...sizes);
}

async function measure(subject) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, bypassCSP: true });
  page.setDefaultTimeout(60_000);
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable");
  await page.goto(subject.address);
  const start = await (
    await page.waitForFunction(
      `(${subject.ready})() && new Promise((resolve) => requestAnimationFrame(() => resolve(performance.now())))`,
    )
  ).jsonValue();
  await settled(page, client);
  await page.mouse.move(640, 520);
  const frames = async (turn) => {
    const costs = [];
    for (let at = 0; at < TURNS; at++) {
      const before = await busy(client);
      await turn(at);
      await twoFrames(page);
      costs.push((await busy(client)) - before);
    }
    return costs;
  };
  await page.keyboard.down("Control");
  const zoom = await frames((at) => page.mouse.wheel(0, at < TURNS * 0.6 ? -60 : 60));
  await page.keyboard.up("Control");
  const pan = await frames((at) => page.mouse.wheel(at % 20 < 10 ? 40 : -40, 0));
  await settled(page, client);
  const used = await memory(browser, client);
  const before = await busy(client);
  await subject.search(page);
  await page.waitForFunction(subject.found);
  await twoFrames(page);
  const search = (await busy(client)) - before;
  await browser.close();
  return { start, zoom: median(zoom), pan: median(pan), search, memory: used };
}

const GOALS = { start: [2000, "ms"], zoom: [16, "ms"], pan: [16, "ms"], search: [100, "ms"], memory: [400, "MB"] };
const TITLES = {
  start: "interactive after",
  zoom: "a frame while zooming",
  pan: "a frame while moving",
  search: "search over all",
  memory: "memory of the process",
};
const found = {};
for (let run = 0; run < RUNS; run++) {
  for (const [name, subject] of Object.entries(SUBJECTS)) {
    (found[name] ??= []).push(await measure(subject));
  }
}
console.log("| | vitalfew | speedscope | goal | |\n| --- | --- | --- | --- | --- |");
for (const [key, [goal, unit]] of Object.entries(GOALS)) {
  const [ours, theirs] = ["vitalfew", "speedscope"].map((name) => median(found[name].map((one) => one[key])));
  const digits = ours < 100 ? 1 : 0;
  console.log(
    `| ${TITLES[key]} | ${ours.toFixed(digits)} ${unit} | ${theirs.toFixed(digits)} ${unit} | ≤ ${goal} ${unit} | ${ours <= goal ? "met" : "missed"}; ${(ours / theirs).toFixed(2)} times speedscope's |`,
  );
}
console.log(`\nMedians of ${RUNS} runs; a frame is the median of ${TURNS} turns of the wheel.`);
