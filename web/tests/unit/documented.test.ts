import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { VIEWS, shownTabs } from "../../src/app";
import { SCHEMA, readPage } from "../../src/model/data";
import { page } from "../../src/state/page";
import { route } from "../../src/state/route";

const docs = readFileSync(join(import.meta.dirname, "../../../docs/page.md"), "utf8");

it("has a row in docs/page.md for each view, in the order of the tabs", () => {
  const table = docs.slice(docs.indexOf("| tab |"), docs.indexOf("Keys:"));
  const rows = [...table.matchAll(/^\| ([A-Z][a-z ]+) \| ([A-Z][a-z ]+) \|/gm)].map(([, ...row]) => row);
  expect(rows).toEqual(VIEWS.map(([, title, tab]) => [tab, title]));
});

it("has at most six tabs, and no view without anything to show but the one that is asked for", () => {
  expect(new Set(VIEWS.map(([, , tab]) => tab)).size).toBeLessThanOrEqual(6);
  const shown = (view: string, ...schemas: string[]) => {
    page.value = readPage(JSON.stringify({ schema: SCHEMA, results: schemas.map((schema) => ({ schema })) }));
    route.value = { view, params: {} };
    return shownTabs().map((views) => views.map(([name]) => name).join());
  };
  expect(shown("findings")).toEqual(["findings", "machine"]);
  expect(shown("timeline")).toEqual(["findings", "timeline", "machine"]);
  expect(shown("findings", "vitalfew.causal/1", "vitalfew.interference/2", "vitalfew.diff/1")).toEqual([
    "findings",
    "interference",
    "compare",
    "causal,machine",
  ]);
});
