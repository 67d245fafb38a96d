import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { VIEWS } from "../../src/app";

const docs = readFileSync(join(import.meta.dirname, "../../../docs/page.md"), "utf8");

it("has a row in docs/page.md for each view, in the order of the tabs", () => {
  const table = docs.slice(docs.indexOf("| view |"), docs.indexOf("Keys:"));
  const rows = [...table.matchAll(/^\| ([A-Z][a-z ]+) \|/gm)].map((row) => row[1]);
  expect(rows).toEqual(VIEWS.map(([, title]) => title));
});
