/** The command under test, and a browser that tells on the page. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import axe from "axe-core";
import { type Browser, type Page, chromium } from "playwright-core";
import { SCHEMA } from "../../src/model/data";

export const ROOT = resolve(import.meta.dirname, "../../..");
export const VITALFEW = process.env["VITALFEW"] ?? join(ROOT, "target/debug/vitalfew");
export const folder = mkdtempSync(join(tmpdir(), "vitalfew-page-"));

export function vitalfew(...args: string[]): string {
  return execFileSync(VITALFEW, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

export function write(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

/** The address of a page of these data, as commands would have left them. */
export function pageOf(name: string, profiles: readonly object[], results: readonly object[] = []): string {
  vitalfew("html", name, write("empty.folded", "main 1\n"));
  const data = gzipSync(JSON.stringify({ schema: SCHEMA, made_by: "test", live: false, profiles, results }));
  const page = readFileSync(join(folder, name), "utf8");
  return `file://${write(name, page.replace(/(id="vitalfew-data">)[^<]*/, `$1${data.toString("base64")}`))}`;
}

const PROGRAM = `
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void hot_leaf(void) {
    for (int i = 0; i < 20000; i++) sink += i; /* the line */
}
__attribute__((noinline)) void recurse(int n) { hot_leaf(); if (n > 0) recurse(n - 1); sink++; }
int main(void) { clock_t end = clock() + CLOCKS_PER_SEC; while (clock() < end) recurse(4); return 0; }
`;

/** A recording of a program with a hot line. */
export function recorded(): string {
  const source = write("hot.c", PROGRAM);
  execFileSync("cc", ["-g", "-O1", "-fno-optimize-sibling-calls", "-o", join(folder, "hot"), source]);
  vitalfew("record", "-g", "-q", "-o", "hot.vf", "--", "./hot");
  return join(folder, "hot.vf");
}

const THREADS = `
#include <pthread.h>
#include <time.h>
volatile unsigned long sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
__attribute__((noinline)) static void first_phase(double until) { while (cpu() < until) { pthread_mutex_lock(&lock); for (int i = 0; i < 20000; i++) sink += i; pthread_mutex_unlock(&lock); } }
__attribute__((noinline)) static void second_phase(double until) { while (cpu() < until) { pthread_mutex_lock(&lock); for (int i = 0; i < 20000; i++) sink ^= i; pthread_mutex_unlock(&lock); } }
static void *work(void *none) { first_phase(0.4); second_phase(0.8); return none; }
int main(void) { pthread_t a, b; pthread_create(&a, 0, work, 0); pthread_create(&b, 0, work, 0); pthread_join(a, 0); pthread_join(b, 0); return 0; }
`;

/**
 * A recording with a time axis of two threads that wait for each other, with their waits where
 * those can be recorded.
 */
export function recordedThreads(): { readonly path: string; readonly waits: boolean } {
  const source = write("threads.c", THREADS);
  execFileSync("cc", ["-g", "-O1", "-pthread", "-o", join(folder, "threads"), source]);
  const record = (...more: string[]) =>
    vitalfew("record", "-g", "-q", "--timeline", ...more, "-o", "threads.vf", "--", "./threads");
  const path = join(folder, "threads.vf");
  try {
    record("--off-cpu");
    return { path, waits: true };
  } catch (error) {
    if (process.env["REQUIRE_LIVE"]) throw error;
    record();
    return { path, waits: false };
  }
}

export async function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

export interface Watched {
  readonly page: Page;
  /** What went wrong: errors of scripts, refusals by policy, requests that are not `allowed`. */
  readonly complaints: string[];
}

/** A page that is watched. */
export async function open(
  browser: Browser,
  address: string,
  scheme: "light" | "dark" = "light",
  allowed = address,
): Promise<Watched> {
  const page = await browser.newPage({ colorScheme: scheme, viewport: { width: 1280, height: 800 } });
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(allowed.split("#")[0]!) && !url.startsWith("data:") && !url.startsWith("blob:"))
      complaints.push(`request: ${url}`);
  });
  page.setDefaultTimeout(8_000);
  await page.goto(address);
  await page.waitForSelector("main h1, [data-testid=empty]");
  return { page, complaints };
}

/** Starts the server, and returns its address and what ends it. */
export function serve(...args: string[]): Promise<{ url: string; stop: () => void }> {
  const child = spawn(VITALFEW, ["serve", "--no-browser", "--port", "42000", ...args], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  return new Promise((resolve, reject) => {
    let errors = "";
    child.stderr.on("data", (data: Buffer) => (errors += data.toString()));
    child.on("exit", () => reject(new Error(errors)));
    child.stdout.on("data", (data: Buffer) => resolve({ url: data.toString().trim(), stop: () => void child.kill() }));
  });
}

/** Violations of rules for what everybody can use, as text. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const result = await (window as unknown as { axe: typeof axe }).axe.run();
    return result.violations.flatMap((one) =>
      one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 120)} ${node.failureSummary ?? ""}`),
    );
  });
}

/** How many colours a canvas has: an empty one has one. */
export const colours = (page: Page, which = ".flame canvas") =>
  page.$eval(which, (element) => {
    const canvas = element as HTMLCanvasElement;
    const pixels = new Uint32Array(
      canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height).data.buffer,
    );
    return new Set(pixels).size;
  });
