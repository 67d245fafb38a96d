/** Source lines as pieces with a kind, for colours. No DOM, and no markup: pieces stay text. */
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import typescript from "highlight.js/lib/languages/typescript";
import { createLowlight } from "lowlight";

export type SyntaxKind = "keyword" | "type" | "name" | "text" | "number" | "comment";

export interface SyntaxPiece {
  readonly text: string;
  /** Empty: nothing of its own. */
  readonly kind: SyntaxKind | "";
}

const grammars = createLowlight({ c, cpp, go, java, python, ruby, rust, typescript });

/** Languages by the ending of a file's name. */
const ENDINGS: Readonly<Record<string, string>> = Object.fromEntries(
  (
    [
      ["c", "c"],
      ["cpp", "h cc cpp cxx hh hpp hxx inl ipp tcc cu"],
      ["go", "go"],
      ["java", "java"],
      ["python", "py pyx"],
      ["ruby", "rb"],
      ["rust", "rs"],
      ["typescript", "js mjs ts tsx"],
    ] as const
  ).flatMap(([language, endings]) => endings.split(" ").map((ending) => [ending, language])),
);

/** What grammars call pieces, by the first word of it. */
const KINDS: Readonly<Record<string, SyntaxKind>> = {
  keyword: "keyword",
  literal: "keyword",
  meta: "keyword",
  operator: "keyword",
  doctag: "comment",
  type: "type",
  built_in: "type",
  class: "type",
  title: "name",
  function: "name",
  string: "text",
  char: "text",
  regexp: "text",
  symbol: "text",
  subst: "text",
  number: "number",
  comment: "comment",
  quote: "comment",
};

/**
 * Longer texts, and texts with longer lines, have no colours: grammars take long for those, and
 * nobody reads them.
 */
const LONGEST_TEXT = 200_000;
const LONGEST_LINE = 1_000;

/** Returns the grammar for a file; null if there is none. */
export function grammarOf(path: string): string | null {
  const ending = /\.(\w+)$/.exec(path)?.[1];
  return ending !== undefined && Object.hasOwn(ENDINGS, ending) ? ENDINGS[ending]! : null;
}

interface SyntaxNode {
  readonly type: string;
  readonly value?: string;
  readonly properties?: { readonly className?: unknown };
  readonly children?: readonly unknown[];
}

/**
 * Cuts lines that follow each other in a file into pieces: comments and texts go on from line to
 * line. Together, the pieces of a line are the line.
 */
export function syntaxPieces(path: string, lines: readonly string[]): SyntaxPiece[][] {
  const grammar = grammarOf(path);
  const size = lines.reduce((sum, line) => sum + line.length + 1, 0);
  if (grammar === null || size > LONGEST_TEXT || lines.some((line) => line.length > LONGEST_LINE))
    return lines.map((text) => [{ text, kind: "" }]);
  const made: SyntaxPiece[][] = [[]];
  const visit = (node: SyntaxNode, kind: SyntaxKind | "") => {
    if (node.type === "text") {
      node.value!.split("\n").forEach((text, at) => {
        if (at > 0) made.push([]);
        if (text !== "") made.at(-1)!.push({ text, kind });
      });
      return;
    }
    const names = node.properties?.className;
    const name = Array.isArray(names) ? String(names[0]).replace(/^hljs-/, "") : "";
    for (const child of node.children ?? []) visit(child as SyntaxNode, KINDS[name] ?? kind);
  };
  // Lines end where they end in the page, whatever is in them.
  visit(grammars.highlight(grammar, lines.map((line) => line.replace(/[\r\n]/g, " ")).join("\n")) as SyntaxNode, "");
  return made;
}

const ASSEMBLY =
  /^\s*(?:(?:lock|rep\w*|notrack|bnd)\s+)?[a-z][\w.]*|\b0x[\da-f]+\b|\b\d[\da-f]*h\b|\b\d+\b|<[^>]*>|[^\w<]+|\w+|</giu;

/** An instruction as pieces: what it does, numbers, names of places. */
export function instructionPieces(text: string): SyntaxPiece[] {
  return [...text.matchAll(ASSEMBLY)].map(([piece], at): SyntaxPiece => ({
    text: piece,
    kind:
      at === 0
        ? "keyword"
        : /^(\d|0x)/.test(piece)
          ? "number"
          : piece.length > 1 && piece.startsWith("<")
            ? "name"
            : "",
  }));
}
