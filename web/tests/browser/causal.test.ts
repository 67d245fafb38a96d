/** Runs of experiments are switched off and on. */
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT, folder, launch, open, violations, vitalfew } from "./vitalfew";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

it("draws narrower bands with more runs switched on, by the keyboard", async () => {
  for (const name of ["first.json", "second.json"])
    copyFileSync(join(ROOT, "crates/cli/tests/causal/search.json"), join(folder, name));
  vitalfew("html", "runs.html", "first.json", "second.json");
  const { page, complaints } = await open(browser, `file://${join(folder, "runs.html")}#/causal`);
  /**
   * By curve: how wide its band is in the middle, as the table says it, and how high it is drawn.
   */
  const bands = () =>
    page.$$eval(".multiples .card", (cards) =>
      cards.map((card) => {
        const rows = [...card.querySelectorAll("tbody tr")];
        const [from = 0, to = 0] = [...rows[Math.floor(rows.length / 2)]!.querySelectorAll("td")]
          .slice(1)
          .map((cell) => parseFloat(cell.textContent ?? ""));
        return { name: card.querySelector("h2")!.textContent ?? "", width: to - from };
      }),
    );
  const experiments = async () =>
    Number((await page.locator("main").innerText()).match(/([\d,]+) experiments in/)![1]!.replaceAll(",", ""));
  const boxes = page.locator(".runs input");
  expect(await boxes.count()).toBe(2);
  const [together, all] = [await bands(), await experiments()];
  await boxes.nth(1).focus();
  await page.keyboard.press("Space");
  await page.waitForFunction(() => location.hash.includes("off0=1"));
  const [alone, half] = [await bands(), await experiments()];
  expect(2 * half).toBe(all);
  const widths = together.flatMap((one) =>
    alone.filter((other) => other.name === one.name && one.width > 0).map((other) => other.width / one.width),
  );
  expect(widths.length).toBeGreaterThan(0);
  // Only the part of chance becomes smaller: the method's own error does not.
  expect(widths.reduce((sum, one) => sum + one, 0) / widths.length).toBeGreaterThan(1.03);
  expect(await violations(page)).toEqual([]);
  await page.reload();
  expect(await experiments()).toBe(half);
  for (const [how, begins] of [
    ["As SVG", "<svg"],
    ["As PNG", "\u0089PNG"],
  ] as const) {
    await page.locator(".saved summary").first().click();
    const download = page.waitForEvent("download");
    await page.locator(".saved").first().getByText(how).click();
    const saved = readFileSync(await (await download).path(), "latin1");
    expect(saved.slice(0, 4)).toBe(begins);
    // Outside of the page, nothing else says what colours it has.
    if (how === "As SVG") expect(saved).toMatch(/polygon[^>]*fill="rgb/);
    await page.locator(".saved summary").first().click();
  }
  await page.goBack();
  await page.waitForFunction(() => !location.hash.includes("off0"));
  expect(await experiments()).toBe(all);
  await boxes.nth(0).uncheck();
  await boxes.nth(1).uncheck();
  expect(await page.locator("main").innerText()).toContain("No profile is switched on.");
  expect(complaints).toEqual([]);
  await page.close();
});
