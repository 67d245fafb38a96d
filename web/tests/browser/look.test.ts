/**
 * What a page looks like: pictures that are saved, the choice of light or dark, what is said at the
 * pointer.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT, folder, launch, open, recordedThreads, vitalfew, write } from "./vitalfew";

let browser: Browser;
let file = "";

beforeAll(async () => {
  browser = await launch();
  const other = write("other.folded", "main;work;first_phase 70\nmain;cold 30\n");
  for (const name of ["one", "two"])
    vitalfew(
      "record",
      "-q",
      "--db",
      "epochs.db",
      "--",
      "sh",
      "-c",
      `: ${name}; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done`,
    );
  vitalfew(
    "html",
    "look.html",
    recordedThreads().path,
    other,
    "epochs.db",
    join(ROOT, "crates/cli/tests/causal/search.json"),
    join(ROOT, "crates/cli/tests/interference/lock.trace"),
  );
  file = `file://${join(folder, "look.html")}`;
});
afterAll(() => browser.close());

/** The colours of a picture outside of the page, and how much of it is seen through. */
async function looksLike(
  page: Page,
  kind: string,
  saved: Buffer,
): Promise<{ colours: number; clear: number; corner: number }> {
  return page.evaluate(
    async (address) => {
      const image = new Image();
      image.src = address;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width, image.height];
      const context = canvas.getContext("2d")!;
      context.drawImage(image, 0, 0);
      const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
      const all = new Uint32Array(pixels.buffer);
      let clear = 0;
      for (let at = 3; at < pixels.length; at += 4) if (pixels[at]! < 255) clear++;
      return { colours: new Set(all).size, clear: clear / all.length, corner: pixels[4 * (canvas.width * 2 - 2)]! };
    },
    `data:image/${kind};base64,${saved.toString("base64")}`,
  );
}

describe.each(["light", "dark"] as const)("pictures of a page that is %s", (scheme) => {
  it.each([
    "findings",
    "flame",
    "timeline",
    "sandwich",
    "source?show=graph",
    "compare",
    "causal",
    "interference",
    "machine",
    "bottlenecks?labels=hot%3Dfirst_phase",
  ])("of %s are saved with their paper", async (view) => {
    const { page, complaints } = await open(browser, `${file}#/${view}`, scheme);
    // On a processor without a model, there is no graph of blocks.
    if (view.startsWith("source") && (await page.locator(".menu summary").count()) === 0) return page.close();
    for (const [how, kind] of [
      ["As SVG", "svg+xml"],
      ["As PNG", "png"],
    ] as const) {
      const menu = page.locator(".menu", { hasText: "Save" }).first();
      await menu.locator("summary").click();
      const download = page.waitForEvent("download");
      await menu.getByText(how).click();
      const look = await looksLike(page, kind, readFileSync(await (await download).path()));
      expect(look.colours).toBeGreaterThan(2);
      expect(look.clear).toBeLessThan(0.02);
      await menu.locator("summary").click();
    }
    expect(complaints).toEqual([]);
    await page.close();
  });
});

it("names threads and times in the saved timeline", async () => {
  const { page } = await open(browser, `${file}#/timeline`);
  await page.click("summary:has-text('Save')");
  const download = page.waitForEvent("download");
  await page.click("text=As SVG");
  const svg = readFileSync(await (await download).path(), "utf8");
  expect(svg).toMatch(/<text[^>]*>CPUs busy</);
  expect(svg).toMatch(/<text[^>]*>threads \(\d+\)</);
  expect(svg).toMatch(/<text[^>]*>0 s</);
  await page.close();
});

it("keeps light or dark through a reload", async () => {
  const { page } = await open(browser, `${file}#/procedures`, "light");
  await page.keyboard.press("t");
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const night = await ground();
  await page.reload();
  await page.waitForSelector("main h1");
  expect(await ground()).toBe(night);
  await page.keyboard.press("t");
  expect(await ground()).not.toBe(night);
  await page.close();
});

it("says at the pointer what a frame costs, and begins at the root of a flame graph that stands on it", async () => {
  const { page } = await open(browser, `${file}#/flame`);
  const box = (await page.locator(".flame canvas").boundingBox())!;
  await page.mouse.move(box.x + 60, box.y + 30);
  await page.waitForSelector(".tip b");
  expect(await page.locator(".tip").innerText()).toBe(
    (await page.getByTestId("flame-details").innerText()).replace(/\s*Copy stack[^]*/, "").trim(),
  );
  await page.mouse.move(box.x - 10, box.y - 10);
  expect(await page.locator(".tip b").count()).toBe(0);
  await page.setViewportSize({ width: 1280, height: 420 });
  await page.goto(`${file}#/flame?order=up`);
  await page.waitForSelector(".flame canvas");
  await page.waitForFunction(() => {
    const canvas = document.querySelector(".flame .canvas")!;
    return canvas.scrollTop + canvas.clientHeight >= canvas.scrollHeight - 1;
  });
  await page.close();
});

it("leads to the same line in a newer page, and says where there is none", async () => {
  const { page } = await open(browser, `${file}#/source`);
  const link = page.locator("[aria-label='Lines with most cost'] a").nth(1);
  const text = (await link.innerText()).replace(/^[\d.\s\u00a0%]+/, "");
  await link.click();
  expect(decodeURIComponent(page.url()).replaceAll("+", " ")).toMatch(/line=\/.*:\d+ \S+/);
  await page.reload();
  expect(await page.locator("[aria-label='Lines with most cost'] a[aria-current]").innerText()).toContain(text);
  await page.goto(`${file}#/source?line=%2Fgone.c%3A1+gone`);
  await page.waitForSelector("[role=alert] >> text=/gone.c:1 gone");
  await page.close();
});

it("shows the lines of a Python program, and does not look for instructions that it has not", async () => {
  const source = write(
    "words.py",
    "import time\ndef count(words):\n    return sum(words.count(one) for one in words)\nend = time.process_time() + 0.6\nwhile time.process_time() < end:\n    count(['a', 'b'] * 60)\n",
  );
  vitalfew("record", "-g", "-q", "-o", "words.vf", "--", "/usr/bin/python3", source);
  vitalfew("html", "words.html", "words.vf");
  const { page, complaints } = await open(browser, `file://${join(folder, "words.html")}#/source`);
  const text = await page.locator("main").innerText();
  expect(text).not.toContain("words.py is not a file");
  if (!process.env["REQUIRE_LIVE"] && !text.includes("words.py")) return page.close();
  expect(text).toContain("return sum(words.count(one) for one in words)");
  expect(complaints).toEqual([]);
  await page.close();
});

it("begins another view at its head", async () => {
  const { page } = await open(browser, `${file}#/interference`);
  await page.setViewportSize({ width: 1000, height: 400 });
  await page.evaluate(() => scrollTo(0, 600));
  await page.evaluate(() => (location.hash = "#/machine"));
  await page.waitForFunction(() => document.querySelector("h1")?.textContent === "Machine" && scrollY === 0);
  await page.close();
});
