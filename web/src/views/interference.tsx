/** What threads lose to each other, by function. */
import { IntervalBar } from "../charts/interval";
import { amount, grouped, percent, shortened } from "../model/format";
import { Empty } from "../parts/empty";
import { page } from "../state/page";

interface Between { readonly estimate: number; readonly low: number; readonly high: number }
interface Block { readonly name: string; readonly image: string; readonly sci: Between; readonly program: Between; readonly blocked: number; readonly scheduler: number; readonly running: number; readonly calls: number; readonly mean_ns: number; readonly floor: { readonly ns: number; readonly quality: string }; readonly causes: readonly { readonly kind?: string; readonly cause?: string; readonly share?: number }[] }

export function Interference() {
  const results = page.value!.results.filter((one) => one.schema === "vitalfew.interference/1");
  if (results.length === 0) return <Empty why="No interference run is in this page. It says which functions threads slow down for each other." type={["vitalfew interference run -- COMMAND", "vitalfew html page.html RESULT"]} />;
  const result = results[0]!;
  const blocks = (result["findings"] as readonly Block[]).filter((block) => block.program.estimate > 0);
  const most = Math.max(0.01, ...blocks.slice(0, 50).map((block) => Math.min(1, block.program.high)));
  return (
    <div>
      <h1>Interference</h1>
      <p class="quiet">{grouped(Number(result["executions"]))} executions by {String(result["threads"])} threads. Each execution is held against the fastest of its kind: what is longer is lost.</p>
      <div class="table" tabIndex={0} role="region" aria-label="Functions by what they lose">
        <table>
          <thead><tr><th scope="col">Function</th><th scope="col">The program loses</th><th scope="col">95 %</th><th scope="col">Blocked</th><th scope="col">No CPU</th><th scope="col">Running</th><th scope="col">Calls</th><th scope="col">Mean</th><th scope="col">At best</th></tr></thead>
          <tbody>{blocks.slice(0, 100).map((block, at) => {
            const lost = block.blocked + block.scheduler + block.running || 1;
            return <tr key={at}><th scope="row">{shortened(block.name, 60)}</th><td class="number">{percent(block.program.estimate)} [{percent(block.program.low)}, {percent(block.program.high)}]</td><td class="wide"><IntervalBar value={block.program.estimate} interval={[block.program.low, Math.min(most, block.program.high)]} most={most} /></td><td class="number">{percent(block.blocked / lost)}</td><td class="number">{percent(block.scheduler / lost)}</td><td class="number">{percent(block.running / lost)}</td><td class="number">{grouped(block.calls)}</td><td class="number">{amount(block.mean_ns, "nanoseconds")}</td><td class="number">{amount(block.floor.ns, "nanoseconds")}</td></tr>;
          })}</tbody>
        </table>
      </div>
    </div>
  );
}
