/** Source lines, with what they cost. */
import { useMemo } from "preact/hooks";
import { amount, percent, printable, shortened } from "../model/format";
import { Empty } from "../parts/empty";
import { profile, value } from "../state/page";
import { linkTo, route } from "../state/route";

export function Source() {
  const lines = profile.value?.lines;
  const whole = profile.value?.byThread.total[0]?.[0] ?? 0;
  const readable = lines ? lines.line.findIndex((line, index) => lines.sources.some((one) => one.file === lines.file[index] && one.first <= line && line < one.first + one.text.length)) : 0;
  const at = Number(route.value.params["line"] ?? Math.max(0, readable));
  const costs = useMemo(() => new Map(lines?.line.map((line, index) => [`${lines.file[index]}:${line}`, index])), [lines]);
  if (!lines || lines.line.length === 0) return <Empty why="Source lines are known of vitalfew's own recordings of programs with debug information (-g of the compiler)." type={["vitalfew record -g -o app.vf -- COMMAND", "vitalfew html page.html app.vf"]} />;
  const row = Math.min(Math.max(0, at), lines.line.length - 1);
  const unit = profile.value!.values[0]?.unit ?? value.value.unit;
  const part = lines.sources.find((one) => one.file === lines.file[row] && one.first <= lines.line[row]! && lines.line[row]! < one.first + one.text.length);
  return (
    <div>
      <h1>Source</h1>
      <div class="source">
        <ol class="lines" aria-label="Lines with most cost">{lines.line.slice(0, 100).map((line, index) => (
          <li key={index}><a href={linkTo("source", { line: String(index) })} aria-current={index === row ? "true" : undefined}><b>{percent(lines.own[index]! / whole)}</b> {shortened(lines.files[lines.file[index]!]!.split("/").at(-1)!, 30)}:{line} <span class="quiet">{shortened(lines.function[index]!, 40)}</span></a></li>
        ))}</ol>
        <section aria-label="Text" class="card">
          <h2>{printable(lines.files[lines.file[row]!]!)}:{lines.line[row]}</h2>
          <p class="quiet">in {shortened(lines.function[row]!)}: self {amount(lines.own[row]!, unit)} ({percent(lines.own[row]! / whole)}), with what it calls {amount(lines.total[row]!, unit)} ({percent(lines.total[row]! / whole)})</p>
          {part ? <table class="code" tabIndex={0}><thead><tr><th scope="col">Line</th><th scope="col">Self</th><th scope="col">Total</th><th scope="col">Text</th></tr></thead><tbody>{part.text.map((text, offset) => {
            const line = part.first + offset;
            const index = costs.get(`${part.file}:${line}`);
            const own = index === undefined ? 0 : lines.own[index]! / whole;
            return <tr key={line} class={line === lines.line[row] ? "current" : ""}><th scope="row">{line}</th><td>{own > 0 ? percent(own) : ""}</td><td>{index === undefined ? "" : percent(lines.total[index]! / whole)}</td><td class="text" style={{ "--heat": `${Math.min(85, 400 * own)}%` }}><code>{printable(text.replaceAll("\t", "    "))}</code></td></tr>;
          })}</tbody></table> : <p>The text of this file is not in the page: it could not be read where the page was made, or was left out for its size.</p>}
        </section>
      </div>
      <p class="quiet">Why an instruction is slow, with frequencies and culprits: <code>vitalfew annotate PROCEDURE</code></p>
    </div>
  );
}
