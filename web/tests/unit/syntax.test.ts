import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { grammarOf, instructionPieces, syntaxPieces } from "../../src/model/syntax";

const kindOf = (pieces: readonly { text: string; kind: string }[], text: string) =>
  pieces.find((one) => one.text.includes(text))?.kind;

describe("source in pieces", () => {
  it("knows a keyword, a comment and a text in each language", () => {
    const examples = {
      "a.c": ['return f("text"); // remark', "return"],
      "a.cc": ['if (a) f("text"); // remark', "if"],
      "a.rs": ['let a = "text"; // remark', "let"],
      "a.go": ['func f() { g("text") } // remark', "func"],
      "a.py": ["def f(): return 'text' # remark", "return"],
      "a.rb": ["def f; 'text' end # remark", "end"],
      "a.java": ['class A { String a = "text"; } // remark', "class"],
      "a.ts": ['const a: string = "text"; // remark', "const"],
      "a.js": ["let a = `text`; // remark", "let"],
    };
    for (const [path, [line, keyword]] of Object.entries(examples)) {
      const [pieces] = syntaxPieces(path, [line!]);
      expect([path, kindOf(pieces!, keyword!), kindOf(pieces!, "text"), kindOf(pieces!, "remark")]).toEqual([
        path,
        "keyword",
        "text",
        "comment",
      ]);
    }
  });

  it("leaves lines as they are, whatever is in them, and carries comments on", () => {
    const lines = ["int a; /* begins", "", "</code><script>alert(1)</script>", "ends */ int b;\r", "\ttail(\u2028);"];
    const pieces = syntaxPieces("x.c", lines);
    expect(pieces.map((line) => line.map((one) => one.text).join(""))).toEqual(
      lines.map((line) => line.replace("\r", " ")),
    );
    expect(pieces[2]!.map((one) => one.kind)).toEqual(["comment"]);
    expect(kindOf(pieces[3]!, "int")).toBe("type");
  });

  it("has no colours for other files, and for what would take long", () => {
    for (const path of ["a.txt", "Makefile", "a.constructor", "c"]) expect(grammarOf(path)).toBeNull();
    for (const [path, line] of [
      ["a.txt", "return 1"],
      ["a.c", `return ${"(".repeat(2_000)}`],
    ] as const)
      expect(syntaxPieces(path, [line])).toEqual([[{ text: line, kind: "" }]]);
  });

  it("cuts instructions", () => {
    expect(instructionPieces("mov 0x30(%rbx),%rcx").filter((one) => one.kind !== "")).toEqual([
      { text: "mov", kind: "keyword" },
      { text: "0x30", kind: "number" },
    ]);
    for (const text of ["lock cmpxchg %ecx,(%rdx)", "call <f<int>>", "(bad) < 1", ""])
      expect(
        instructionPieces(text)
          .map((one) => one.text)
          .join(""),
      ).toBe(text);
  });
});

describe("colours of source", () => {
  const css = readFileSync(join(import.meta.dirname, "../../src/style.css"), "utf8");
  const channels = (colour: string) =>
    (colour.length === 4 ? [...colour.slice(1)].map((one) => one + one) : colour.slice(1).match(/../g)!).map((one) =>
      parseInt(one, 16),
    );
  const luminance = (rgb: readonly number[]) =>
    rgb
      .map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
      .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at]!, 0);
  const pair = (pattern: RegExp) => pattern.exec(css)!.slice(1, 3);

  it("can be read on cold and on the hottest lines, light and dark", () => {
    const [heats, cards] = [
      pair(/color-mix\(in srgb, light-dark\((#\w+), (#\w+)\) var\(--heat\)/),
      pair(/--card: light-dark\((#\w+), (#\w+)\)/),
    ];
    const colours = [...css.matchAll(/\.syntax-(\w+) \{\s+color: light-dark\((#\w+), (#\w+)\)/g)];
    expect(colours.length).toBe(6);
    for (const scheme of [0, 1]) {
      const card = channels(cards[scheme]!);
      const hottest = channels(heats[scheme]!).map((one, at) => 0.85 * one + 0.15 * card[at]!);
      for (const [, name, ...both] of colours)
        for (const background of [card, hottest]) {
          const [a, b] = [luminance(channels(both[scheme]!)), luminance(background)].sort((a, b) => b - a);
          expect((a! + 0.05) / (b! + 0.05), `${name} ${scheme}`).toBeGreaterThan(4.5);
        }
    }
  });
});
