/** Source lines with what they cost, beside the instructions that were made of them. */
import { useMemo } from "preact/hooks";
import { paramsOfLine, procedureNamed, procedureOfLine, rowOfAddress } from "../model/code";
import type { Procedure, Profile } from "../model/data";
import { amount, percent, printable, shortened } from "../model/format";
import { lastPart } from "../model/identity";
import { Empty } from "../parts/empty";
import { SyntaxLine, piecesOfPart } from "../parts/syntax";
import { profile, value } from "../state/page";
import { change, linkTo, route } from "../state/route";
import { Code } from "./code";

/** Whether a profile has lines or instructions to show. */
export const hasCode = (one: Profile | null) =>
  !!one?.lines && (one.lines.line.length > 0 || !!one.code?.procedures.length);

export function Source() {
  const shown = profile.value;
  const lines = shown?.lines;
  const procedures = shown?.code?.procedures ?? [];
  const whole = shown?.byThread.total[0]?.[0] ?? 0;
  const readable = lines
    ? lines.line.findIndex((line, index) =>
        lines.sources.some(
          (one) => one.file === lines.file[index] && one.first <= line && line < one.first + one.text.length,
        ),
      )
    : 0;
  const { line: asked, procedure: named, image } = route.value.params;
  const known = useMemo(
    () => (lines && asked !== undefined ? rowOfAddress(lines, asked, image) : -1),
    [lines, asked, image],
  );
  const at = known >= 0 ? known : Math.max(0, readable);
  const costs = useMemo(
    () => new Map(lines?.line.map((line, index) => [`${lines.file[index]}:${line}`, index])),
    [lines],
  );
  if (!lines || !hasCode(shown))
    return (
      <Empty
        why="Source lines and instructions are known of vitalfew's own recordings; lines of programs with debug information (-g of the compiler)."
        type={["vitalfew record -g -o app.vf -- COMMAND", "vitalfew html page.html app.vf"]}
      />
    );
  const row = Math.min(Math.max(0, at), lines.line.length - 1);
  const line = row < 0 ? null : { path: lines.files[lines.file[row]!]!, number: lines.line[row]! };
  // Where no line can be read, the hottest code is what there is to see.
  const unread = asked === undefined && readable < 0 && procedures.length > 0;
  const index =
    named !== undefined
      ? procedureNamed(procedures, named, image)
      : unread
        ? 0
        : line
          ? procedureOfLine(procedures, line.path, line.number)
          : -1;
  const procedure = procedures[index];
  const unit = shown!.values[0]?.unit ?? value.value.unit;
  const part =
    line === null
      ? undefined
      : lines.sources.find(
          (one) =>
            one.file === lines.file[row] && one.first <= line.number && line.number < one.first + one.text.length,
        );
  return (
    <div>
      {asked !== undefined && known < 0 && (
        <p role="alert">No sample of this profile is at {shortened(asked, 200)}: this is its dearest line.</p>
      )}
      <h1>Source{procedure && <>: {shortened(procedure.name, 90)}</>}</h1>
      <div class="source">
        <div>
          {procedures.length > 0 && (
            <label class="wide-choice">
              Procedure{" "}
              <select
                value={index < 0 ? "" : String(index)}
                onChange={(event) => chooseProcedure(procedures[Number(event.currentTarget.value)])}
              >
                {index < 0 && <option value="">of the line</option>}
                {procedures.map((one, number) => (
                  <option key={number} value={String(number)}>
                    {shortened(one.name, 60)}
                  </option>
                ))}
              </select>
            </label>
          )}
          <ol class="lines" aria-label="Lines with most cost">
            {lines.line.slice(0, 100).map((number, index) => (
              <li key={index}>
                <a
                  href={linkTo("source", paramsOfLine(lines, index))}
                  aria-current={index === row && named === undefined && !unread ? "true" : undefined}
                >
                  <b>{percent(lines.own[index]! / whole)}</b>{" "}
                  {shortened(lines.files[lines.file[index]!]!.split("/").at(-1)!, 30)}:{number}{" "}
                  <span class="quiet">{shortened(lines.function[index]!, 40)}</span>
                </a>
              </li>
            ))}
          </ol>
        </div>
        {procedure ? (
          <Code procedure={procedure} lines={lines} line={named === undefined && !unread ? line : null} />
        ) : (
          line && (
            <section aria-label="Text" class="card">
              <h2>
                {printable(line.path)}:{line.number}
              </h2>
              <p class="quiet">
                in {shortened(lines.function[row]!)}: self {amount(lines.own[row]!, unit)} (
                {percent(lines.own[row]! / whole)}), with what it calls {amount(lines.total[row]!, unit)} (
                {percent(lines.total[row]! / whole)})
              </p>
              {part ? (
                <div class="table" tabIndex={0} role="region" aria-label="Source">
                  <table class="code">
                    <thead>
                      <tr>
                        <th scope="col">Line</th>
                        <th scope="col">Self</th>
                        <th scope="col">Total</th>
                        <th scope="col">Text</th>
                      </tr>
                    </thead>
                    <tbody>
                      {part.text.map((_, offset) => {
                        const number = part.first + offset;
                        const index = costs.get(`${part.file}:${number}`);
                        const own = index === undefined ? 0 : lines.own[index]! / whole;
                        return (
                          <tr key={number} class={number === line.number ? "current" : ""}>
                            <th scope="row">{number}</th>
                            <td>{own > 0 ? percent(own) : ""}</td>
                            <td>{index === undefined ? "" : percent(lines.total[index]! / whole)}</td>
                            <td class="text" style={{ "--heat": `${Math.min(85, 400 * own)}%` }}>
                              <SyntaxLine pieces={piecesOfPart(line.path, part.text)[offset]!} />
                            </td>
                          </tr>
                        );
                      })}
                    </tbody>
                  </table>
                </div>
              ) : (
                <p>
                  The text of this file is not in the page: it could not be read where the page was made, or was left
                  out for its size.
                </p>
              )}
            </section>
          )
        )}
      </div>
      {shown!.code?.notes.map((note) => (
        <p key={note} class="quiet">
          {shortened(note, 300)}
        </p>
      ))}
    </div>
  );
}

function chooseProcedure(procedure: Procedure | undefined) {
  change({ procedure: procedure?.name ?? "", image: procedure ? lastPart(procedure.image) : "", line: "", at: "" });
}
