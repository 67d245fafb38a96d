/** Views of experiments and of interference, on what is measured here and now. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { folder, launch, open, violations, vitalfew, write } from "./vitalfew";

/** Two threads that hold one lock most of their time. */
const PROGRAM = `
#include <pthread.h>
volatile unsigned long sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static void alone(void) { for (int i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) static void order(void) { pthread_mutex_lock(&lock); alone(); pthread_mutex_unlock(&lock); }
static void *work(void *none) { for (int i = 0; i < 12000; i++) order(); return 0; }
int main(void) { pthread_t a, b; pthread_create(&a, 0, work, 0); pthread_create(&b, 0, work, 0); pthread_join(a, 0); pthread_join(b, 0); return 0; }
`;

let browser: Browser;
let address = "";
let measured: string[] = [];

beforeAll(async () => {
  browser = await launch();
  execFileSync("cc", ["-g", "-O1", "-pthread", "-o", join(folder, "orders"), write("orders.c", PROGRAM)]);
  const attempt = (file: string, ...args: string[]) => {
    try {
      vitalfew(...args);
    } catch (error) {
      // Not every machine lets itself be measured; `vitalfew doctor` says why.
      if (process.env["REQUIRE_LIVE"]) throw error;
    }
    return existsSync(join(folder, file)) ? [file] : [];
  };
  measured = [
    ...attempt(
      "orders.json",
      "causal",
      "run",
      "-q",
      "--by",
      "function",
      "--for",
      "15s",
      "-o",
      "orders.json",
      "--",
      "./orders",
    ),
    ...attempt("orders.trace", "interference", "run", "-q", "--for", "10s", "-o", "orders.trace", "--", "./orders"),
  ];
  vitalfew("html", "measured.html", ...measured, write("orders.folded", "main;order 1\n"));
  address = `file://${join(folder, "measured.html")}`;
});
afterAll(() => browser.close());

it.each([
  ["causal", "orders.json"],
  ["interference", "orders.trace"],
] as const)("%s shows what was measured", async (view, file) => {
  if (!measured.includes(file)) return;
  for (const scheme of ["light", "dark"] as const) {
    const { page, complaints } = await open(browser, `${address}#/${view}`, scheme);
    expect(await page.locator("[data-testid=empty]").count()).toBe(0);
    const text = await page.locator("main").innerText();
    expect(text).toContain("./orders");
    expect(text).toMatch(view === "causal" ? /[\d,]+ experiments in/ : /, \d threads/);
    if (view === "interference") expect(text).toMatch(/order|alone|pthread_mutex_lock/);
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.close();
  }
});

it("can be read and copied as text, and as a table where it is drawn", async () => {
  const { page } = await open(browser, `${address}#/flame`);
  const selected = await page.evaluate(() => {
    getSelection()!.selectAllChildren(document.querySelector("main")!);
    return getSelection()!.toString();
  });
  expect(selected).toContain("Flame graph");
  await page.click(".twin summary");
  expect(await page.locator(".twin tbody").innerText()).toContain("main");
  await page.evaluate(() => {
    navigator.clipboard.writeText = (text) => {
      document.title = text;
      return Promise.resolve();
    };
  });
  await page.focus("canvas");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.click("text=Copy stack");
  expect(await page.evaluate(() => document.title)).toBe("main order");
  await page.close();
});
