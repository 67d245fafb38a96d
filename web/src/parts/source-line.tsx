/** A line of source, with its text where that is known. It leads to the line with its costs. */
import type { LineText } from "../model/causal";
import { paramsOfLine } from "../model/code";
import { shortened } from "../model/format";
import { lastPart } from "../model/identity";
import { page } from "../state/page";
import { linkTo } from "../state/route";
import { SyntaxLine, piecesOfPart } from "./syntax";

interface Props {
  readonly profile: number;
  /** Position among the lines of the profile, or -1. */
  readonly row: number;
  readonly text: LineText | null;
}

export function SourceLine({ profile, row, text }: Props) {
  const lines = page.value!.profiles[profile]!.lines!;
  return (
    <p class="source-line">
      {row >= 0 && (
        <a href={linkTo("source", { profile: String(profile), ...paramsOfLine(lines, row) })}>
          {shortened(lastPart(lines.files[lines.file[row]!]!), 60)}:{lines.line[row]}
        </a>
      )}{" "}
      {text && <SyntaxLine pieces={piecesOfPart(text.path, text.text)[text.offset]!} />}
    </p>
  );
}
