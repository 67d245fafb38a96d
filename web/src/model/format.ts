/** Numbers and names as text. Names come from programs that others wrote. */

const DECEPTIVE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu;

/**
 * Cleans a name: what steers a display or turns the direction of text becomes U+FFFD, as in the
 * commands.
 */
export function printable(name: string): string {
  return name.replace(DECEPTIVE, "\ufffd");
}

/** A name without the arguments of templates and functions. */
function withoutArguments(name: string): string {
  let [short, depth, last] = ["", 0, " "];
  for (const letter of name) {
    // `operator<`, `->`, and Rust's `<Type as Trait>::function` have other brackets.
    const opens =
      letter === "<" ? depth > 0 || /[\w:]/.test(last) : letter === "(" && (depth > 0 || /[\w>]/.test(last));
    const closes = depth > 0 && (letter === ")" || (letter === ">" && last !== "-"));
    if (closes && --depth === 0) short += "…";
    if (depth === 0) short += letter;
    if (opens && ++depth === 1) short += short.endsWith(letter) ? "" : letter;
    last = letter;
  }
  return depth === 0 ? short : name;
}

/** A name no longer than `most` characters: what brackets hold is left out, then its middle. */
export function shortened(name: string, most = 120): string {
  const all = printable(name.length > 4000 ? `${name.slice(0, 2000)}…${name.slice(-2000)}` : name);
  if (all.length <= most) return all;
  const clean = withoutArguments(all);
  if (clean.length <= most) return clean;
  const half = Math.floor((most - 1) / 2);
  return `${clean.slice(0, half)}…${clean.slice(clean.length - half)}`;
}

/** The last part of each path, and of those that have the same one all of it. */
export function shortPaths(paths: readonly string[]): string[] {
  const last = paths.map((path) => path.replace(/\/+$/, "").split("/").at(-1)!);
  return last.map((name, at) => (name !== "" && last.indexOf(name) === last.lastIndexOf(name) ? name : paths[at]!));
}

/** 0.1234 as 12.3 %. */
export function percent(part: number): string {
  if (!Number.isFinite(part)) return "–";
  const value = 100 * part;
  const digits = Math.abs(value) >= 9.95 || value === 0 ? 1 : 2;
  return `${value.toFixed(digits)}\u00a0%`;
}

/** An amount with its unit. */
export function amount(value: number, unit: string): string {
  switch (unit) {
    case "nanoseconds":
      return scaled(value, [
        [1e9, "s"],
        [1e6, "ms"],
        [1e3, "µs"],
        [1, "ns"],
      ]);
    case "microseconds":
      return amount(value * 1e3, "nanoseconds");
    case "milliseconds":
      return amount(value * 1e6, "nanoseconds");
    case "seconds":
      return amount(value * 1e9, "nanoseconds");
    case "bytes":
      return scaled(value, [
        [1e9, "GB"],
        [1e6, "MB"],
        [1e3, "kB"],
        [1, "B"],
      ]);
    default:
      return `${grouped(value)}\u00a0${unit === "" ? "units" : unit}`;
  }
}

/** Units that amounts are written with different multiples of. */
export function isScaled(unit: string): boolean {
  return ["nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"].includes(unit);
}

/** 1234567 as 1,234,567. */
export function grouped(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 10 ? 2 : 0 });
}

/** A number of things, with their name: `1 epoch`, `1,200 epochs`. */
export const counted = (count: number, one: string, many = `${one}s`) =>
  `${grouped(count)} ${count === 1 ? one : many}`;

function scaled(value: number, units: readonly (readonly [number, string])[]): string {
  const size = Math.abs(value);
  const [factor, unit] = units.find(([factor]) => size >= factor) ?? units.at(-1)!;
  const number = value / factor;
  const digits =
    value === 0 || (factor === 1 && Number.isInteger(number))
      ? 0
      : Math.abs(number) >= 100
        ? 0
        : Math.abs(number) >= 10
          ? 1
          : 2;
  return `${number.toFixed(digits)}\u00a0${unit}`;
}

/** An interval in the unit of fractions: 12.3 % [10.1 %, 14.5 %]. */
export function withInterval(
  value: number,
  interval: readonly [number, number] | undefined,
  show: (value: number) => string,
): string {
  return interval ? `${show(value)} [${show(interval[0])}, ${show(interval[1])}]` : show(value);
}

/** Words of a command line, quoted for a shell. */
export function commandLine(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}
