/** An estimate with its interval on an axis that rows share. */

interface Props {
  readonly value: number;
  readonly interval: readonly [number, number] | undefined;
  readonly most: number;
}

export function IntervalBar({ value, interval, most }: Props) {
  const x = (part: number) => Math.max(0, Math.min(100, (100 * Math.abs(part)) / most));
  return (
    <svg
      class={`interval${value < 0 ? " negative" : ""}`}
      viewBox="0 0 100 12"
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <rect class="value" x="0" y="2" width={x(value)} height="8" />
      {interval && (
        <>
          <rect
            class="range"
            x={Math.min(x(interval[0]), x(interval[1]))}
            y="5"
            width={Math.max(0.4, Math.abs(x(interval[1]) - x(interval[0])))}
            height="2"
          />
          <rect class="end" x={x(interval[0])} y="2" width="0.35" height="8" />
          <rect class="end" x={x(interval[1]) - 0.35} y="2" width="0.35" height="8" />
        </>
      )}
    </svg>
  );
}

export function Axis({ most, show }: { readonly most: number; readonly show: (value: number) => string }) {
  return (
    <div class="axis" aria-hidden="true">
      <span>0</span>
      <span>{show(most / 2)}</span>
      <span>{show(most)}</span>
    </div>
  );
}
