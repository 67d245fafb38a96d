/** A procedure: its source and its instructions side by side, or the graph of its blocks. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Graph } from "../charts/graph";
import { CAUSES, blockFacts, drawnBlocks, linesOf, mainFile, samplesByLine } from "../model/code";
import type { Lines, Procedure } from "../model/data";
import { grouped, percent, printable, shortened } from "../model/format";
import type { GraphEdge, GraphNode } from "../model/layered";
import { Instruction, SyntaxLine, piecesOfPart } from "../parts/syntax";
import { profile } from "../state/page";
import { change, route } from "../state/route";

/** More blocks make no picture that could be read. */
const MOST_BLOCKS = 80;
/** Instructions of a block that the graph shows: the hottest. */
const SHOWN = 4;

interface Props {
  readonly procedure: Procedure;
  readonly lines: Lines;
  /** The line that is looked at. */
  readonly line: { readonly path: string; readonly number: number } | null;
}

export function Code({ procedure, lines, line }: Props) {
  const graph = route.value.params["show"] === "graph";
  const hottest = useMemo(
    () =>
      procedure.instructions.samples.reduce(
        (best, one, at) => (one > procedure.instructions.samples[best]! ? at : best),
        0,
      ),
    [procedure],
  );
  const at = Number(route.value.params["at"] ?? hottest);
  const chosen = at < procedure.instructions.address.length ? at : hottest;
  const sums = useMemo(() => samplesByLine(procedure), [procedure]);
  const file = useMemo(
    () => (line && procedure.files.includes(line.path) ? procedure.files.indexOf(line.path) : mainFile(procedure)),
    [procedure, line?.path],
  );
  const [hovered, setHovered] = useState<string | null>(null);
  const keyOf = (index: number) => `${procedure.instructions.file[index]}:${procedure.instructions.line[index]}`;
  const marked =
    hovered ??
    (route.value.params["at"] === undefined && line
      ? `${procedure.files.indexOf(line.path)}:${line.number}`
      : keyOf(chosen));
  const choose = (index: number) => change({ at: String(index) }, true);
  return (
    <section aria-label={`Code of ${shortened(procedure.name, 60)}`}>
      <div class="bar">
        <div role="group" aria-label="Shown as">
          <button type="button" aria-pressed={!graph} onClick={() => change({ show: "" })}>
            Source and assembly
          </button>{" "}
          <button type="button" aria-pressed={graph} onClick={() => change({ show: "graph" })}>
            Control flow
          </button>
        </div>
        <span class="quiet">
          {grouped(procedure.samples)} samples · {procedure.model} · frequencies: {procedure.frequencies}
          {procedure.misses_edges ? " · some jumps are not understood" : ""}
        </span>
      </div>
      {graph ? (
        <FlowGraph procedure={procedure} chosen={chosen} onChoose={choose} />
      ) : (
        <div class="beside">
          <SourceText
            procedure={procedure}
            lines={lines}
            file={file}
            sums={sums}
            marked={marked}
            onHover={setHovered}
          />
          <Assembly procedure={procedure} chosen={chosen} marked={marked} onHover={setHovered} onChoose={choose} />
        </div>
      )}
      <Explanation procedure={procedure} at={chosen} />
    </section>
  );
}

const heat = (part: number) => ({ "--heat": `${Math.min(85, 300 * part)}%` });

/** Makes the chosen row of a table seen, without scrolling the page. */
function scrollToCurrent(box: HTMLElement | null) {
  const row = box?.querySelector<HTMLElement>("tr.current");
  if (box && row) box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

/**
 * By line of a file: what it costs with what it calls, as a part of the profile. Of code that is
 * inlined in several functions, the most.
 */
function totalsOfLines(lines: Lines, file: number): ReadonlyMap<number, number> {
  const all = profile.value?.byThread.total[0]?.[0] ?? 0;
  const totals = new Map<number, number>();
  lines.line.forEach((line, at) => {
    if (lines.file[at] === file && all > 0) totals.set(line, Math.max(totals.get(line) ?? 0, lines.total[at]! / all));
  });
  return totals;
}

function SourceText({
  procedure,
  lines,
  file,
  sums,
  marked,
  onHover,
}: {
  readonly procedure: Procedure;
  readonly lines: Lines;
  readonly file: number;
  readonly sums: ReadonlyMap<string, number>;
  readonly marked: string;
  readonly onHover: (key: string | null) => void;
}) {
  const number = lines.files.indexOf(procedure.files[file] ?? "");
  const [first, last] = linesOf(procedure, file);
  const parts = lines.sources.filter(
    (part) => part.file === number && part.first + part.text.length > first - 4 && part.first <= last + 4,
  );
  const box = useRef<HTMLDivElement>(null);
  const totals = useMemo(() => totalsOfLines(lines, number), [lines, number]);
  useEffect(() => scrollToCurrent(box.current), [procedure, file]);
  if (parts.length === 0)
    return (
      <p class="quiet">
        {procedure.files.length === 0
          ? "This program has no debug information (-g of the compiler): there is only its assembly."
          : "The text of its source is not in the page: it could not be read where the page was made, or was left out for its size."}
      </p>
    );
  return (
    <div ref={box} class="table code-half" tabIndex={0} role="region" aria-label="Source">
      <table class="code">
        <caption>{printable(shortened(procedure.files[file]!, 90))}</caption>
        <thead>
          <tr>
            <th scope="col">Line</th>
            <th scope="col" title="Of this procedure">
              Samples
            </th>
            <th scope="col" title="With what it calls, of the whole profile">
              With calls
            </th>
            <th scope="col">Text</th>
          </tr>
        </thead>
        <tbody>
          {parts.map((part) => {
            const pieces = piecesOfPart(procedure.files[file]!, part.text);
            return part.text.map((_, offset) => {
              const line = part.first + offset;
              if (line < first - 4 || line > last + 4) return null;
              const gap = offset === 0 && part !== parts[0];
              const key = `${file}:${line}`;
              const own = (sums.get(key) ?? 0) / procedure.samples;
              return (
                <tr
                  key={key}
                  class={`${key === marked ? "current" : ""}${gap ? " after-gap" : ""}`}
                  onMouseEnter={() => onHover(sums.has(key) ? key : null)}
                  onMouseLeave={() => onHover(null)}
                >
                  <th scope="row">{line}</th>
                  <td>{own > 0 ? percent(own) : ""}</td>
                  <td>{totals.has(line) ? percent(totals.get(line)!) : ""}</td>
                  <td class="text" style={heat(own)}>
                    <SyntaxLine pieces={pieces[offset]!} />
                  </td>
                </tr>
              );
            });
          })}
        </tbody>
      </table>
    </div>
  );
}

function Assembly({
  procedure,
  chosen,
  marked,
  onHover,
  onChoose,
}: {
  readonly procedure: Procedure;
  readonly chosen: number;
  readonly marked: string;
  readonly onHover: (key: string | null) => void;
  readonly onChoose: (at: number) => void;
}) {
  const { blocks, instructions } = procedure;
  // Without a scale of frequencies no cycles are known.
  const timed = instructions.cycles.some((one) => one !== null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => scrollToCurrent(box.current), [procedure]);
  return (
    <div ref={box} class="table code-half" tabIndex={0} role="region" aria-label="Assembly">
      <table class="code">
        <caption>
          {grouped(instructions.address.length)} instructions in {grouped(blocks.first.length)} blocks
        </caption>
        <thead>
          <tr>
            <th scope="col">Address</th>
            <th scope="col">Samples</th>
            {timed && (
              <th scope="col" title="Cycles of one execution, and at best">
                Cycles
              </th>
            )}
            <th scope="col">Culprits</th>
            <th scope="col">Instruction</th>
          </tr>
        </thead>
        {blocks.first.map((first, block) => {
          const facts = blockFacts(procedure, block);
          return (
            <tbody key={block}>
              <tr class="block">
                <th scope="rowgroup" colSpan={5}>
                  Block {block}: {percent(facts.samples / procedure.samples)}
                  {facts.often !== null && ` · runs ${percent(facts.often)} as often as the busiest`}
                  {facts.cpi !== null ? ` · CPI ${facts.cpi.toFixed(2)}, at best ${facts.best.toFixed(2)}` : ""}
                  {procedure.blocks.confidence[block] ? ` · confidence ${procedure.blocks.confidence[block]}` : ""}
                </th>
              </tr>
              {instructions.address.slice(first, blocks.end[block]!).map((address, offset) => {
                const at = first + offset;
                const key = `${instructions.file[at]}:${instructions.line[at]}`;
                const own = instructions.samples[at]! / procedure.samples;
                const cycles = instructions.cycles[at] ?? null;
                return (
                  <tr
                    key={at}
                    class={`${at === chosen ? "current" : ""}${key === marked && instructions.line[at] !== null ? " same" : ""}`}
                    onMouseEnter={() => onHover(instructions.line[at] === null ? null : key)}
                    onMouseLeave={() => onHover(null)}
                  >
                    <th scope="row">
                      <button type="button" class="plain" onClick={() => onChoose(at)} aria-pressed={at === chosen}>
                        {address.toString(16)}
                      </button>
                    </th>
                    <td>{own > 0 ? percent(own) : ""}</td>
                    {timed && (
                      <td>
                        {cycles !== null && instructions.samples[at]! > 0 ? (
                          <>
                            {cycles.toFixed(1)} <span class="quiet">{instructions.best[at]!.toFixed(1)}</span>
                          </>
                        ) : (
                          ""
                        )}
                      </td>
                    )}
                    <td class="culprits">
                      {instructions.culprits[at]!.slice(0, 4).map((one) => (
                        <abbr key={one.letter} class="culprit" title={`${one.cause}. ${CAUSES[one.letter] ?? ""}`}>
                          {one.letter}
                        </abbr>
                      ))}
                    </td>
                    <td class="text" style={heat(own)}>
                      <Instruction text={instructions.text[at]!} />
                    </td>
                  </tr>
                );
              })}
            </tbody>
          );
        })}
      </table>
    </div>
  );
}

/** Why the chosen instruction is slow. */
function Explanation({ procedure, at }: { readonly procedure: Procedure; readonly at: number }) {
  const { instructions } = procedure;
  const culprits = instructions.culprits[at] ?? [];
  const stall = instructions.stall[at] ?? null;
  const where =
    instructions.line[at] === null
      ? ""
      : ` (${printable(procedure.files[instructions.file[at] ?? -1]?.split("/").at(-1) ?? "")}:${instructions.line[at]})`;
  return (
    <div class="card" aria-live="polite" data-testid="explanation">
      <h2>
        <code>{instructions.address[at]?.toString(16)}</code> <Instruction text={instructions.text[at] ?? ""} />
        {where}
      </h2>
      <p>
        {grouped(instructions.samples[at] ?? 0)} samples, {percent((instructions.samples[at] ?? 0) / procedure.samples)}{" "}
        of the procedure.
        {stall !== null &&
          instructions.cycles[at] !== null &&
          ` It takes ${instructions.cycles[at]!.toFixed(1)} cycles, of which it needs ${instructions.best[at]!.toFixed(1)}; ${stall.toFixed(1)} are a stall.`}
      </p>
      {culprits.length === 0 ? (
        <p class="quiet">
          {stall !== null && stall <= 0 ? "It does not stall beyond sampling error." : "No cause is known."}
        </p>
      ) : (
        <ul>
          {culprits.map((one) => (
            <li key={one.letter}>
              <b>{one.cause}</b>
              {one.most !== null && `, at most ${one.most.toFixed(1)} cycles each time`}
              {one.at.length > 0 &&
                `, by ${one.at
                  .slice(0, 3)
                  .map(
                    (index) =>
                      `${instructions.address[index]?.toString(16)} ${printable((instructions.text[index] ?? "").split(/\s/)[0]!)}`,
                  )
                  .join(", ")}`}
              : {CAUSES[one.letter] ?? ""}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function FlowGraph({
  procedure,
  chosen,
  onChoose,
}: {
  readonly procedure: Procedure;
  readonly chosen: number;
  readonly onChoose: (at: number) => void;
}) {
  const { nodes, edges, left } = useMemo(() => flowGraph(procedure), [procedure]);
  const { first, end } = procedure.blocks;
  const block = first.findIndex((one, index) => one <= chosen && chosen < end[index]!);
  const choose = (id: string) => {
    const index = Number(id);
    if (!Number.isInteger(index)) return;
    let best = first[index]!;
    for (let at = best; at < end[index]!; at++)
      if (procedure.instructions.samples[at]! > procedure.instructions.samples[best]!) best = at;
    onChoose(best);
  };
  return (
    <>
      <Graph
        nodes={nodes}
        edges={edges}
        label={`Control flow of ${procedure.name}`}
        selected={String(block)}
        onSelect={choose}
      />
      <p class="quiet">
        Colour is the share of the samples; the width of an arrow how often it is taken, in relation to the block that
        is executed most often. {left > 0 && `${grouped(left)} blocks with fewer samples are left out.`} The same as a
        table is under “Source and assembly”.
      </p>
    </>
  );
}

function flowGraph(procedure: Procedure): { nodes: GraphNode[]; edges: GraphEdge[]; left: number } {
  const { blocks, edges, instructions } = procedure;
  const drawn = drawnBlocks(procedure, MOST_BLOCKS);
  const most = Math.max(1e-12, ...blocks.frequency.map((one) => one ?? 0));
  const nodes = drawn.map((block): GraphNode => {
    const facts = blockFacts(procedure, block);
    const [first, end] = [blocks.first[block]!, blocks.end[block]!];
    const places = Array.from({ length: end - first }, (_, offset) => first + offset);
    const hot = places
      .filter((at) => instructions.samples[at]! > 0)
      .sort((a, b) => instructions.samples[b]! - instructions.samples[a]!)
      .slice(0, SHOWN)
      .sort((a, b) => a - b);
    const letters = (at: number) =>
      instructions.culprits[at]!.slice(0, 3)
        .map((one) => one.letter)
        .join("");
    return {
      id: String(block),
      heat: Math.sqrt(facts.samples / (procedure.samples || 1)),
      lines: [
        `${block}: ${instructions.address[first]?.toString(16) ?? ""}  ${percent(facts.samples / (procedure.samples || 1))}${facts.cpi === null ? "" : `  CPI ${facts.cpi.toFixed(2)}`}`,
        ...hot.map((at) =>
          `${shortened(instructions.text[at]!.replaceAll("\t", " "), 34)}  ${Math.round(instructions.samples[at]!)} ${letters(at)}`.trimEnd(),
        ),
        ...(facts.instructions > hot.length
          ? [
              `${facts.instructions - hot.length} ${hot.length > 0 ? "more " : ""}instruction${facts.instructions - hot.length === 1 ? "" : "s"}`,
            ]
          : []),
      ],
    };
  });
  const arrows = edges.from.flatMap((from, index): GraphEdge[] => {
    const to = edges.to[index] ?? null;
    if (from === null || to === null) return [];
    const often = edges.frequency[index] ?? null;
    return [
      {
        from: String(from),
        to: String(to),
        label: often === null || often < 0.0005 * most ? "" : percent(often / most),
        weight: often === null ? 0 : Math.sqrt(often / most),
        dashed: edges.kind[index] !== "Fall" && edges.kind[index] !== "Taken" && edges.kind[index] !== "Jump",
      },
    ];
  });
  return { nodes, edges: arrows, left: blocks.first.length - drawn.length };
}
