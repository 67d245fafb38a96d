/** The search over call sequences by clicking finds what the console finds. */
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { percent } from "../../src/model/format";
import { folder, launch, open, violations, vitalfew, write } from "./vitalfew";

let browser: Browser;
let file = "";
let folded = "";

beforeAll(async () => {
  browser = await launch();
  folded = write(
    "search.folded",
    "main;parse;read;copy 40\nmain;parse;read;check 30\nmain;parse;read;copy;check 28\nmain;parse;alloc 3\nmain;write;alloc 9\nmain;parse;parse;read;copy 5\nmain 2\nmain;parse;<script>=;|\\ 1\n",
  );
  vitalfew("html", "search.html", folded);
  file = `file://${join(folder, "search.html")}`;
});
afterAll(() => browser.close());

interface Near {
  readonly relation: string;
  readonly cum: number;
  readonly new: number | null;
}
interface Said {
  readonly kind: string;
  readonly whole: number;
  readonly cum: number;
  readonly nearby: readonly Near[];
  readonly total?: { readonly cum: number };
}

/** What the console says to these commands. */
function said(...commands: string[]): Said[] {
  const text = vitalfew("bottlenecks", folded, "--script", write("search.txt", `${commands.join("\n")}\n`), "--json");
  return text
    .split("\n")
    .filter((one) => one.trim() !== "")
    .map((one) => JSON.parse(one) as Said);
}

it.each([
  ["on", ["main", "parse"]],
  ["off", ["main", "parse"]],
  ["on", ["parse", "read"]],
  ["off", ["alloc"]],
  ["on", ["check"]],
] as const)("lists beside a sequence what the console lists, zoom %s", async (zoom, path) => {
  const [summary] = said(`set zoom ${zoom}`, `go ${path.join(" ; ")}`).filter((one) => one.kind === "summary");
  const { page, complaints } = await open(
    browser,
    `${file}#/bottlenecks?zoom=${zoom}&path=${encodeURIComponent(path.join(";"))}`,
  );
  expect(await page.locator("[data-testid=sequence-cost] b").innerText()).toBe(percent(summary!.cum / summary!.whole));
  for (const [side, relations] of [
    ["Callers", ["above", "trim_top"]],
    ["Callees", ["below", "trim_bottom"]],
  ] as const) {
    const expected = summary!.nearby
      .filter((one) => relations.some((relation) => relation === one.relation))
      .map((one) => percent(one.cum / summary!.whole));
    expect((await page.locator(`section[aria-label=${side}] li b`).allInnerTexts()).sort()).toEqual(expected.sort());
  }
  expect(complaints).toEqual([]);
  await page.close();
});

it("labels sequences by the keyboard and keeps them in the address", async () => {
  const { page, complaints } = await open(browser, `${file}#/bottlenecks?suggester=HighCum`);
  await page.locator("[aria-label=Suggested] button", { hasText: "main" }).first().focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Label", { exact: true }).fill("slow | <b>");
  await page.keyboard.press("Enter");
  await page.getByLabel("Find").fill("alloc");
  await page.locator("[aria-label=Suggested] button").first().click();
  await page.click("text=Label this sequence");
  await page.getByLabel("Find").fill("<script>");
  await page.locator("[aria-label=Suggested] button").first().click();
  await page.click("text=Label this sequence");
  const table = page.getByTestId("labels");
  await page.waitForFunction(() => document.querySelectorAll("[data-testid=labels] tbody tr").length === 4);
  const before = await table.innerText();
  expect(before).toContain("slow | <b>");
  await page.reload();
  expect(await page.getByTestId("labels").innerText()).toBe(before);
  expect(await violations(page)).toEqual([]);
  const labelled = ["main", "alloc", "<script>="].flatMap((name) => [`go ${name}`, "label it"]);
  const [labels] = said(...labelled, "labels").filter((one) => one.kind === "labels");
  expect(await table.locator("tr.sum").innerText()).toContain(percent(labels!.total!.cum / labels!.whole));
  await page.getByLabel("Remove label slow").click();
  expect(await table.locator("tbody tr").count()).toBe(3);
  await page.goBack();
  expect(await table.locator("tbody tr").count()).toBe(4);
  expect(complaints).toEqual([]);
  await page.close();
});
