/** What speedups of code are worth: a curve with its 95 % band. */
import { useRef } from "preact/hooks";
import { shortened } from "../model/format";
import { SaveMenu } from "../parts/menu";
import { saveElement } from "./save";

export interface Estimate {
  readonly speedup: number;
  readonly program: number;
  readonly low: number;
  readonly high: number;
}
export interface Effect {
  readonly point: string;
  readonly measure: string;
  readonly verdict: string;
  /** The verdict in words; an earlier vitalfew left them out. */
  readonly words?: string;
  readonly slope: number;
  readonly slope_low: number;
  readonly slope_high: number;
  readonly experiments: number;
  readonly visits: number;
  readonly curve: readonly Estimate[];
  readonly points: readonly {
    readonly speedup: number;
    readonly program: number;
    readonly error: number;
    readonly experiments: number;
  }[];
}

/** A curve with its band; it can be saved. */
export function Curve({
  effect,
  least,
  most,
  name,
}: {
  readonly effect: Effect;
  readonly least: number;
  readonly most: number;
  readonly name: string;
}) {
  const x = (speedup: number) => 42 + 246 * speedup;
  const y = (program: number) => 8 + (120 * (most - Math.max(least, Math.min(most, program)))) / (most - least);
  const line = (pick: (one: Estimate) => number, curve: readonly Estimate[]) =>
    curve.map((one) => `${x(one.speedup).toFixed(1)},${y(pick(one)).toFixed(1)}`).join(" ");
  const band = `${line((one) => one.high, effect.curve)} ${line((one) => one.low, [...effect.curve].reverse())}`;
  const picture = useRef<SVGSVGElement>(null);
  return (
    <div class="saved">
      <svg
        ref={picture}
        class="curve"
        viewBox="0 0 296 150"
        role="img"
        aria-label={`Curve of ${shortened(name, 60)}; the numbers are in the table`}
      >
        <line class="grid" x1={x(0)} x2={x(1)} y1={y(0)} y2={y(0)} />
        <polygon class="band" points={band} />
        <polyline class="estimate" points={line((one) => one.program, effect.curve)} />
        {effect.points.map((point) => (
          <circle
            key={point.speedup}
            cx={x(point.speedup)}
            cy={y(point.program)}
            r={Math.min(4, 1.5 + Math.sqrt(point.experiments) / 2)}
          />
        ))}
        <text x="38" y={y(0) + 4} text-anchor="end">
          0
        </text>
        <text x="38" y={y(most) + 8} text-anchor="end">
          {Math.round(100 * most)} %
        </text>
        {y(least) - y(0) > 14 && (
          <text x="38" y={y(least)} text-anchor="end">
            {Math.round(100 * least)} %
          </text>
        )}
        <text x={x(0)} y="146">
          0 %
        </text>
        <text x={x(1)} y="146" text-anchor="end">
          100 % faster
        </text>
      </svg>
      <SaveMenu save={(how) => picture.current && saveElement(picture.current, `Curve of ${name}`, how)} />
    </div>
  );
}
