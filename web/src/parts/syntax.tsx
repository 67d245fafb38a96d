/** Source and instructions in colours. Colours repeat what the text says. */
import { printable } from "../model/format";
import { type SyntaxPiece, instructionPieces, syntaxPieces } from "../model/syntax";

const shown = (text: string) => printable(text.replaceAll("\t", "    "));

/** The pieces of one line. */
export function SyntaxLine({ pieces }: { readonly pieces: readonly SyntaxPiece[] }) {
  return (
    <code>
      {pieces.map(({ text, kind }, at) =>
        kind === "" ? (
          shown(text)
        ) : (
          <span key={at} class={`syntax-${kind}`}>
            {shown(text)}
          </span>
        ),
      )}
    </code>
  );
}

const made = new WeakMap<readonly string[], SyntaxPiece[][]>();

/** The pieces of a part of a file, cut once. */
export function piecesOfPart(path: string, text: readonly string[]): readonly (readonly SyntaxPiece[])[] {
  const known = made.get(text);
  if (known) return known;
  const pieces = syntaxPieces(path, text);
  made.set(text, pieces);
  return pieces;
}

/** An instruction. */
export function Instruction({ text }: { readonly text: string }) {
  return <SyntaxLine pieces={instructionPieces(text.replaceAll("\t", " "))} />;
}
