/** From `vitalfew run` to the line to change, counted in clicks. docs/page.md says the number. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT, VITALFEW, folder, launch, open, serve, write } from "./vitalfew";

/** What a new user does: reads the first finding, and clicks on what it leads to. */
const MOST_CLICKS = 1;

const PROGRAM = `
#include <stdio.h>
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) static void parse(void) { for (int i = 0; i < 2000; i++) sink += i; }
__attribute__((noinline)) static void look_up(void) {
    for (int i = 0; i < 20000; i++) sink ^= i; /* the line to change */
}
int main(void) { clock_t end = clock() + 2 * CLOCKS_PER_SEC; while (clock() < end) { parse(); look_up(); } return 0; }
`;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

it("is few clicks from `run` to the line to change, and the number is in the documentation", async () => {
  const home = { ...process.env, XDG_DATA_HOME: join(folder, "data") };
  execFileSync("cc", ["-g", "-O1", "-o", join(folder, "orders"), write("orders.c", PROGRAM)]);
  execFileSync(VITALFEW, ["run", "--once", "-q", "--", "./orders"], {
    cwd: folder,
    env: home,
    stdio: ["ignore", "pipe", "pipe"],
  });
  process.env["XDG_DATA_HOME"] = home.XDG_DATA_HOME;
  const server = await serve();
  try {
    const { page, complaints } = await open(browser, server.url, "light", server.url);
    // On a machine that others use, waiting for a CPU comes first: it is no place to change.
    const finding = page.locator(".claim", { has: page.locator(".source-line a") }).first();
    expect(await finding.innerText()).toContain("look_up");
    let clicks = 0;
    await finding.locator(".source-line a").click();
    clicks++;
    await page.waitForSelector("[aria-label=Source] .current");
    expect(await page.locator("[aria-label=Source] .current").innerText()).toContain(
      "sink ^= i; /* the line to change */",
    );
    expect(clicks).toBeLessThanOrEqual(MOST_CLICKS);
    expect(readFileSync(join(ROOT, "docs/page.md"), "utf8")).toMatch(/\*\*one click\*\*/i);
    expect(complaints).toEqual([]);
    await page.close();
  } finally {
    server.stop();
  }
}, 300_000);
