/**
 * An interval of a change on an axis that has nothing in its middle. A filled diamond is more than
 * chance, an empty circle is not. An interval without its end goes on.
 */
interface Props {
  readonly change: number;
  readonly low: number;
  readonly high: number;
  readonly most: number;
  readonly sure: boolean;
}

export function ChangeBar({ change, low, high, most, sure }: Props) {
  const x = (value: number) => 70 + 66 * Math.max(-1, Math.min(1, value / (most || 1)));
  const at = x(change);
  return (
    <svg class={`change ${sure ? "sure" : ""}`} viewBox="0 0 140 16" width="140" height="16" aria-hidden="true">
      <line class="zero" x1="70" x2="70" y1="0" y2="16" />
      <line class="range" x1={x(low)} x2={x(high)} y1="8" y2="8" />
      {low >= -most && <line class="range" x1={x(low)} x2={x(low)} y1="5" y2="11" />}
      {high <= most && <line class="range" x1={x(high)} x2={x(high)} y1="5" y2="11" />}
      {sure ? <path d={`M${at - 5} 8 L${at} 3 L${at + 5} 8 L${at} 13 Z`} /> : <circle cx={at} cy="8" r="3.5" />}
    </svg>
  );
}
