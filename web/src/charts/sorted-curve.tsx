/**
 * Executions sorted by duration: a flat line is a function that always takes as long; what is above
 * the floor is lost.
 */
import { useRef } from "preact/hooks";
import { amount, percent, shortened } from "../model/format";
import { type Block, sortedSteps } from "../model/interference";
import { SaveMenu } from "../parts/menu";
import { dark } from "../parts/theme";
import { saveElement } from "./save";

const [WIDTH, HEIGHT, LEFT, BELOW] = [440, 190, 62, 24];

export function SortedCurve({ block }: { readonly block: Block }) {
  const picture = useRef<SVGSVGElement>(null);
  const steps = sortedSteps(block.curve);
  if (steps.length === 0) return <p class="quiet">This result has no durations.</p>;
  const least = Math.max(1, Math.min(block.floor.ns || Infinity, steps[0]!.ns) * 0.8);
  const most = Math.max(steps.at(-1)!.ns, least * 2);
  const x = (part: number) => LEFT + (WIDTH - LEFT - 8) * part;
  // Durations are far apart: a logarithmic scale.
  const y = (ns: number) =>
    HEIGHT - BELOW - ((HEIGHT - BELOW - 10) * Math.log(Math.max(ns, least) / least)) / Math.log(most / least);
  const line = steps.flatMap((step) => [
    `${x(step.from).toFixed(1)},${y(step.ns).toFixed(1)}`,
    `${x(step.to).toFixed(1)},${y(step.ns).toFixed(1)}`,
  ]);
  const night = dark.value;
  const [ink, quiet, solid, soft] = night
    ? ["#f1eee6", "#b3ada0", "#4d93d9", "#2b4765"]
    : ["#1d1b16", "#5c574c", "#2f6fb3", "#b9d3ee"];
  const ticks = Array.from({ length: Math.ceil(Math.log10(most)) + 1 }, (_, power) => 10 ** power).filter(
    (ns) => ns >= least && ns <= most,
  );
  return (
    <>
      <div class="bar">
        <span />
        <SaveMenu save={(how) => picture.current && saveElement(picture.current, `Durations of ${block.name}`, how)} />
      </div>
      <svg
        ref={picture}
        xmlns="http://www.w3.org/2000/svg"
        class="sorted"
        width={WIDTH}
        height={HEIGHT}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        font-family="sans-serif"
        font-size="11"
        role="img"
        aria-label={`Durations of ${shortened(block.name, 60)}, sorted; the numbers are in the table`}
      >
        {ticks.map((ns) => (
          <g key={ns}>
            <line x1={LEFT} x2={WIDTH - 8} y1={y(ns)} y2={y(ns)} stroke={quiet} stroke-opacity="0.3" />
            <text x={LEFT - 6} y={y(ns) + 4} text-anchor="end" fill={quiet}>
              {amount(ns, "nanoseconds")}
            </text>
          </g>
        ))}
        <polygon points={`${x(0)},${y(block.floor.ns)} ${line.join(" ")} ${x(1)},${y(block.floor.ns)}`} fill={soft} />
        <polyline points={line.join(" ")} fill="none" stroke={solid} stroke-width="2" />
        <line
          x1={LEFT}
          x2={WIDTH - 8}
          y1={y(block.floor.ns)}
          y2={y(block.floor.ns)}
          stroke={ink}
          stroke-dasharray="4 3"
        />
        <text x={WIDTH - 10} y={y(block.floor.ns) - 4} text-anchor="end" fill={ink}>
          floor {amount(block.floor.ns, "nanoseconds")}
        </text>
        <text x={LEFT} y={HEIGHT - 6} fill={quiet}>
          the fastest
        </text>
        <text x={WIDTH - 8} y={HEIGHT - 6} text-anchor="end" fill={quiet}>
          the slowest of {block.calls.toLocaleString("en-US")}
        </text>
      </svg>
      <details class="twin">
        <summary>As a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">Executions</th>
              <th scope="col" class="number">
                take up to
              </th>
            </tr>
          </thead>
          <tbody>
            {steps
              .filter((_, at) => at % Math.ceil(steps.length / 12) === 0 || at === steps.length - 1)
              .map((step) => (
                <tr key={step.to}>
                  <th scope="row">{percent(step.to)}</th>
                  <td class="number">{amount(step.ns, "nanoseconds")}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </details>
    </>
  );
}
