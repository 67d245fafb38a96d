import { readFileSync } from "node:fs";
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT, folder, launch, open, recorded, serve, vitalfew, write } from "./vitalfew";

const VIEWS = ["findings", "flame", "sandwich", "procedures", "bottlenecks", "source", "compare", "causal", "interference", "machine"];
const HOSTILE = ["<script>document.title='run'</script>", "\u202eevil\u202c", "\u001b[31mred", "x".repeat(100_000), "'\"><img src=x onerror=alert(1)>", "__proto__"];

let browser: Browser;
let file = "";
let hostile = "";

beforeAll(async () => {
  browser = await launch();
  const other = write("other.folded", "main;recurse;hot_leaf 70\nmain;cold 30\n");
  vitalfew("html", "all.html", recorded(), other, join(ROOT, "crates/cli/tests/causal/search.json"), join(ROOT, "crates/cli/tests/interference/lock.trace"));
  file = `file://${join(folder, "all.html")}`;
  vitalfew("html", "hostile.html", write("hostile.folded", HOSTILE.map((name, at) => `main;${name} ${100 + at}`).join("\n")));
  hostile = `file://${join(folder, "hostile.html")}`;
});
afterAll(() => browser.close());

/** How many colours a canvas has: an empty one has one. */
const colours = (page: Page) => page.$eval(".flame canvas", (element) => {
  const canvas = element as HTMLCanvasElement;
  const pixels = new Uint32Array(canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
});

/** Violations of rules for what everybody can use, as text. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const result = await (window as unknown as { axe: typeof axe }).axe.run();
    return result.violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 120)} ${node.failureSummary ?? ""}`));
  });
}

describe.each(["light", "dark"] as const)("one file, %s", (scheme) => {
  it.each(VIEWS)("shows %s, for everybody, and asks nobody", async (view) => {
    const { page, complaints } = await open(browser, `${file}#/${view}`, scheme);
    expect(await page.locator("main").innerText()).not.toBe("");
    if (["flame", "sandwich", "compare"].includes(view)) expect(await colours(page)).toBeGreaterThan(3);
    expect(await page.locator("[data-testid=empty]").count()).toBe(0);
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
      if (wanted.test(text)) return;
    }
    throw new Error(`no Tab leads to ${String(wanted)}`);
  };
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { state: "detached" });
  await tabTo(/^Callers and callees$/);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".sandwich");
  await page.keyboard.press("6");
  await tabTo(/hot\.c:\d+/);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".code .current");
  expect(await page.locator(".code .current").innerText()).toContain("sink");
  await page.keyboard.press("/");
  await page.waitForSelector("input[type=search]:focus");
  await page.keyboard.type("hot_leaf");
  await page.waitForFunction(() => document.querySelectorAll("tbody a").length === 1);
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
  for (const view of VIEWS) {
    const { page, complaints } = await open(browser, `${hostile}#/${view}`);
    expect(await page.title()).toBe("vitalfew");
    expect(await page.locator("main img").count()).toBe(0);
    expect(complaints).toEqual([]);
    expect((await page.content()).includes("\u202e")).toBe(false);
    if (view === "procedures") expect(await page.locator("main").innerText()).toContain("<script>");
    await page.close();
  }
});

it("says why a view is empty and what to type", async () => {
  for (const view of ["source", "compare", "causal", "interference"]) {
    const { page } = await open(browser, `${hostile}#/${view}`);
    expect(await page.getByTestId("empty").innerText()).toContain("vitalfew ");
    await page.close();
  }
});

it("is served to who has the token, and follows the file", async () => {
  const path = write("live.folded", "main;one 10\n");
  const server = await serve(path);
  try {
    const { page, complaints } = await open(browser, `${server.url}#/procedures`, "light", server.url);
    await page.waitForSelector("tbody >> text=one");
    write("live.folded", "main;two_is_new 10\nmain;one 20\n");
    await page.waitForSelector("tbody >> text=two_is_new", { timeout: 15_000 });
    expect(complaints).toEqual([]);
    const refused = await page.request.get(server.url.replace(/\/[0-9a-f]{32}\//, `/${"0".repeat(32)}/`));
    expect(refused.status()).toBe(404);
    await page.close();
  } finally {
    server.stop();
  }
});

it("is small: 50,000 samples with stacks in less than a megabyte", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  // 4,000 different stacks, as programs have them: few choices near the root, more below.
  const stacks = Array.from({ length: 4_000 }, () => Array.from({ length: 12 + random(12) }, (_, deep) => `module_${deep}::function_${Math.min(random(2 + deep), random(2 + deep))}`).join(";"));
  vitalfew("html", "large.html", write("large.folded", Array.from({ length: 50_000 }, () => `${stacks[random(4_000)]} 1`).join("\n")));
  expect(readFileSync(join(folder, "large.html")).length).toBeLessThan(1_000_000);
});
