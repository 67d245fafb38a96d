/** Sentences with bars below them, as a picture to save: findings, and what labels cover. */
import { dark } from "../parts/theme";
import { saveDrawing } from "./save";

export interface BarRow {
  readonly text: string;
  /** What stands at the right end. */
  readonly worth: string;
  /** As parts of the greatest bar. */
  readonly value: number;
  readonly interval?: readonly [number, number] | undefined;
  /** Of the bar, what others have, too. */
  readonly shared?: number;
}

const [WIDTH, EDGE, HEAD, ROW, BAR] = [960, 16, 44, 46, 12];
/** Letters that fit into a line. */
const LETTERS = 140;
const COLOURS = {
  light: { value: "#9cc3e6", shared: "#d5e4f2", range: "#1d4f80" },
  dark: { value: "#3f6f9e", shared: "#2c4257", range: "#d0e3f5" },
};

/** Saves them as a file. */
export function saveBars(title: string, rows: readonly BarRow[], how: "svg" | "png"): void {
  const colours = COLOURS[dark.value ? "dark" : "light"];
  const across = (part: number) => Math.max(0, Math.min(1, Math.abs(part))) * (WIDTH - 2 * EDGE);
  const top = (at: number) => HEAD + at * ROW;
  const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const texts = rows.flatMap((row, at) => {
    const worth = cut(row.worth, 70);
    // Letters of 12 pixels are some 6.5 pixels wide.
    return [
      { x: EDGE, y: top(at) + 8, text: `${at + 1}. ${cut(row.text, LETTERS - 5 - worth.length)}` },
      { x: WIDTH - EDGE - 6.5 * worth.length, y: top(at) + 8, text: worth },
    ];
  });
  saveDrawing(
    title,
    how,
    WIDTH,
    top(rows.length) + 8,
    (emit) =>
      rows.forEach((row, at) => {
        const y = top(at) + 18;
        emit(EDGE, y, across(row.value), BAR, colours.value, row.text, true);
        if (row.shared)
          emit(
            EDGE + across(row.value - row.shared),
            y,
            across(row.shared),
            BAR,
            colours.shared,
            `${row.text}: shared`,
            true,
          );
        if (row.interval) {
          const [low, high] = [across(row.interval[0]), across(row.interval[1])];
          emit(
            EDGE + Math.min(low, high),
            y + BAR / 2 - 1,
            Math.max(1, Math.abs(high - low)),
            2,
            colours.range,
            row.worth,
            true,
          );
        }
      }),
    [{ x: EDGE, y: 18, text: cut(title, LETTERS) }, ...texts],
  );
}
