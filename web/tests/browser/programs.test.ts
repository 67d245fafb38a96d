/**
 * A page of several programs: what a finding leads to is of its own program, and can be read on a
 * phone.
 */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { folder, launch, open, violations, vitalfew, write } from "./vitalfew";

/** Both programs have a `work`; only in the second one it is the hot one. */
const program = (times: number) => `
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) static void work(void) { for (int i = 0; i < ${times}; i++) sink += i; }
__attribute__((noinline)) static void other(void) { for (int i = 0; i < ${20_000 - times}; i++) sink ^= i; }
int main(void) { clock_t end = clock() + CLOCKS_PER_SEC / 2; while (clock() < end) { work(); other(); } return 0; }
`;

let browser: Browser;
let file = "";

beforeAll(async () => {
  browser = await launch();
  for (const [name, times] of [
    ["little", 200],
    ["much", 19_800],
  ] as const) {
    execFileSync("cc", ["-g", "-O1", "-o", join(folder, name), write(`${name}.c`, program(times))]);
    vitalfew("record", "-g", "-q", "-o", `${name}.vf`, "--", `./${name}`);
  }
  vitalfew("record", "-g", "-q", "-o", "both.vf", "--", "sh", "-c", "./little; ./much");
  vitalfew("html", "programs.html", "little.vf", "much.vf");
  vitalfew("html", "both.html", "both.vf");
  file = `file://${join(folder, "programs.html")}`;
});
afterAll(() => browser.close());

const findingOfMuch = (page: Page) =>
  page.locator("section.card", { hasText: "much.vf" }).locator(".claim", { hasText: "work" }).first();

it.each([
  ["much.c:4", /profile=1/, "much.c:4"],
  ["Flame graph", /profile=1/, "9"],
  ["Callers and callees", /profile=1/, "work"],
  ["Bottlenecks", /profile=1/, "work"],
] as const)("of a finding of the second: %s", async (link, address, text) => {
  const { page, complaints } = await open(browser, `${file}#/findings`);
  await findingOfMuch(page).locator("summary").click();
  await findingOfMuch(page).getByRole("link", { name: link }).click();
  await page.waitForFunction(() => !location.hash.startsWith("#/findings"));
  expect(page.url()).toMatch(address);
  expect(await page.locator("main").innerText()).toContain(text);
  if (link === "Flame graph")
    expect(parseFloat(await page.getByTestId("search-total").innerText())).toBeGreaterThan(90);
  expect(complaints).toEqual([]);
  await page.close();
});

it("a finding of a recording of both leads to the procedure of its image", async () => {
  const { page } = await open(browser, `file://${join(folder, "both.html")}`);
  const finding = page.locator(".claim", { hasText: "(much)" }).filter({ hasText: "work" }).first();
  const share = parseFloat((await finding.locator(".sentence").innerText()).match(/[\d.]+ %/)![0]);
  await finding.locator("summary").click();
  await finding.getByText("Flame graph").click();
  await page.waitForSelector("#flame-search");
  expect(page.url()).toContain("image=much");
  // What other findings have below it is counted there; the other program has a fourth.
  expect(Math.abs(parseFloat(await page.getByTestId("search-total").innerText()) - share)).toBeLessThan(5);
  await page.goBack();
  await finding.locator(".source-line a").click();
  await page.waitForSelector("[aria-label=Source] .current");
  expect(page.url()).toContain("much.c");
  await page.close();
});

it.each([390, 800, 1600])(
  "nothing is wider than a window of %d, and procedures have their names in sight",
  async (width) => {
    const { page } = await open(browser, `${file}#/findings`);
    await page.setViewportSize({ width, height: 800 });
    const labels = encodeURIComponent("hot=work|all=main");
    for (const view of [
      "findings",
      "flame",
      "procedures",
      "source",
      `bottlenecks?labels=${labels}`,
      "compare",
      "machine",
    ]) {
      await page.goto(`${file}#/${view}`);
      await page.waitForSelector("main h1");
      expect(await page.evaluate(() => document.documentElement.scrollWidth), view).toBeLessThanOrEqual(width);
    }
    await page.goto(`${file}#/procedures?profile=1`);
    const name = (await page.locator("td a", { hasText: "work" }).first().boundingBox())!;
    expect(name.x + 60).toBeLessThan(width);
    expect(await violations(page)).toEqual([]);
    await page.close();
  },
);

it.each(["HighCum", "HighBase", "NewCum", "NewBase", "Auto"])(
  "what %s suggests is sorted by what stands beside it",
  async (suggester) => {
    const { page } = await open(browser, `${file}#/bottlenecks?profile=1&suggester=${suggester}`);
    const shares = (await page.locator("[aria-label=Suggested] b").allInnerTexts()).map((text) => parseFloat(text));
    expect(shares.length).toBeGreaterThan(0);
    expect(shares).toEqual([...shares].sort((a, b) => b - a));
    await page.close();
  },
);
