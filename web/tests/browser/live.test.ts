/** The page follows what is recorded while it is open. */
import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { colours, folder, launch, open, pageOf, serve, violations, vitalfew, write } from "./vitalfew";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

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

it("follows a directory: new profiles appear, and what is none is said", async () => {
  mkdirSync(join(folder, "profiles"));
  // Files are there whole or not at all.
  const put = (name: string, text: string) => renameSync(write(name, text), join(folder, "profiles", name));
  put("first.folded", "main;one 10\n");
  const server = await serve(join(folder, "profiles"));
  try {
    const { page, complaints } = await open(browser, `${server.url}#/procedures`, "light", server.url);
    await page.waitForSelector("tbody >> text=one");
    put("second.folded", "main;two_is_new 10\n");
    put("broken.json", "{ no profile");
    await page.waitForSelector("[aria-label='What is shown'] option >> text=second.folded", {
      state: "attached",
      timeout: 15_000,
    });
    await page.getByLabel("Profile").selectOption({ index: 0 });
    await page.goto(`${server.url}#/machine`);
    await page.waitForSelector("[aria-label='Not shown'] >> text=broken.json", { timeout: 15_000 });
    expect(complaints).toEqual([]);
    await page.close();
  } finally {
    server.stop();
  }
});

it("shows the epochs of a database", async () => {
  for (const name of ["one", "two"])
    vitalfew(
      "record",
      "-q",
      "--db",
      "machine.db",
      "--",
      "sh",
      "-c",
      `: ${name}; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done`,
    );
  vitalfew("html", "machine.html", "machine.db");
  const { page, complaints } = await open(browser, `file://${join(folder, "machine.html")}#/machine`);
  expect(await page.locator(".epochs rect").count()).toBe(2);
  expect(await page.locator("[aria-label^='Epochs of'] tbody tr").count()).toBe(2);
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await page.close();
});

it("shows epochs on the time axis, and one that is chosen filters all views", async () => {
  // As a database of a daemon has them; sampling the whole machine takes rights, and the names of
  // all that runs take their time.
  const methods = {
    name: ["app", "0", "1", "2", "main", "work"],
    module: [0, 1, 1, 1, 2, 2],
    modules: ["[thread]", "[slice]", "app"],
  };
  const tree = {
    depth: [1, 2, 3, 4, 2, 3, 2, 3, 4],
    method: [0, 1, 4, 5, 2, 4, 3, 4, 5],
    cost: [[0, 0, 0, 10, 20, 0, 40, 0, 0, 80]],
  };
  const epochs = [0, 3600, 90_000].map((seconds) => ({
    start_unix_ns: (1_795_236_713 + seconds) * 1e9,
    duration_ns: (seconds + 1) * 1e8,
  }));
  const profile = {
    name: "machine.db",
    format: "recording",
    notes: [],
    values: [{ name: "cpu-clock", unit: "samples", per_second: 100 }],
    default_value: 0,
    methods,
    tree,
    timeline: { slice_ns: 9e12, slices: 3, epochs },
  };
  const { page, complaints } = await open(browser, `${pageOf("epochs.html", [profile])}#/timeline`);
  expect(await colours(page, ".timeline canvas")).toBeGreaterThan(2);
  await page.click("text=Epochs as a table");
  expect(await page.locator(".timeline .twin tbody").innerText()).toMatch(/2026-11-21 05:51:53[^]*2026-11-22/);
  expect(await violations(page)).toEqual([]);
  await page.locator(".timeline .twin tbody button").nth(1).click();
  await page.waitForFunction(() => location.hash.includes("range=1-2"));
  expect(await page.locator(".chip").innerText()).toContain("UTC ×");
  const samples = async (range: string) => {
    await page.goto(`${page.url().split("#")[0]!}#/flame?range=${range}`);
    await page.waitForSelector(".flame");
    return Number((await page.getByTestId("flame-details").innerText()).match(/\d+/)![0]);
  };
  expect([await samples("0-1"), await samples("1-2"), await samples("1-3"), await samples("")]).toEqual([
    30, 40, 120, 150,
  ]);
  await page.goto(`${page.url().split("#")[0]!}#/flame?arrange=time`);
  await page.waitForSelector(".twin th >> text=2026-11-21 04:51:53", { state: "attached" });
  expect(complaints).toEqual([]);
  await page.close();
});
