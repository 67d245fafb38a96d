/**
 * Draws threads over time: in each slice the parts in which a thread ran, waited for a CPU and was
 * blocked.
 */
import { printable, shortened } from "../model/format";
import type { Range, TimeAxis } from "../model/data";
import { type ThreadTime, sliceLength, utcTime } from "../model/timeline";
import { TEXT } from "./colours";
import type { EmitBox, PlacedText } from "./save";

export const STATES = ["running", "ready", "blocked"] as const;
export type ThreadState = (typeof STATES)[number];
export const NAMES: Readonly<Record<ThreadState, string>> = {
  running: "running",
  ready: "waiting for a CPU",
  blocked: "blocked",
};
/**
 * Told apart by lightness as well, and by place: running grows from below, blocked hangs from
 * above.
 */
const COLOURS = {
  light: { running: "#2f6fb3", ready: "#e69f00", blocked: "#d9d4c7" },
  dark: { running: "#4d93d9", ready: "#e0a63a", blocked: "#3f3c35" },
} as const;

export interface Picture {
  readonly axis: TimeAxis;
  readonly threads: readonly ThreadTime[];
  readonly width: number;
  readonly row: number;
  readonly overview: number;
  readonly night: boolean;
  /** What the overview above the threads is of. */
  readonly overall: string;
}

export interface LivePicture extends Picture {
  readonly height: number;
  readonly selected: Range | null;
  readonly cursor: readonly [number, number];
  /** The method of the thread that is shown alone. */
  readonly only: number | null;
}

/** Room for the names of threads. */
export function labelWidth(width: number): number {
  return width < 600 ? 90 : 170;
}

/** Calls with each box of the picture. */
export function timelineBoxes(picture: Picture): (emit: EmitBox) => void {
  const { axis, threads, width, row, overview } = picture;
  const colours = COLOURS[picture.night ? "dark" : "light"];
  const left = labelWidth(width);
  const step = (width - left) / axis.slices;
  const wide = Math.max(0.6, step - (step > 5 ? 1 : 0));
  return (emit) => {
    const most = Math.max(
      1,
      ...Array.from({ length: axis.slices }, (_, slice) =>
        threads.reduce((sum, one) => sum + one.running[slice]! / sliceLength(axis, slice), 0),
      ),
    );
    for (let slice = 0; slice < axis.slices; slice++) {
      const busy = threads.reduce((sum, one) => sum + one.running[slice]! / sliceLength(axis, slice), 0);
      const high = ((overview - 30) * busy) / most;
      if (high > 0)
        emit(
          left + slice * step,
          overview - 8 - high,
          wide,
          high,
          colours.running,
          `${picture.overall}: ${busy.toFixed(1)}`,
          true,
        );
    }
    threads.forEach((thread, at) => {
      const top = overview + at * row;
      const high = row - 4;
      for (let slice = 0; slice < axis.slices; slice++) {
        const x = left + slice * step;
        let low = top + high;
        for (const state of STATES) {
          const part = Math.min(1, thread[state][slice]! / sliceLength(axis, slice)) * high;
          if (part < 0.3) continue;
          low -= part;
          emit(
            x,
            Math.max(top, low),
            wide,
            Math.min(part, high),
            colours[state],
            `${printable(thread.name)}: ${NAMES[state]}`,
            true,
          );
        }
      }
    });
    const bottom = overview + threads.length * row;
    for (const [part, text] of marksOf(axis, width - left))
      emit(
        Math.round(left + part * (width - left)),
        2,
        1,
        bottom - 2,
        picture.night ? "#55524a" : "#cfc9ba",
        text,
        true,
      );
  };
}

interface TimelineText extends PlacedText {
  /** Position of the thread that it names. */
  readonly thread?: number;
}

/** The names of the rows and the times, `y` being the middle of a line. */
export function timelineTexts({ axis, threads, width, row, overview, overall }: Picture): TimelineText[] {
  const left = labelWidth(width);
  const letters = Math.floor((left - 8) / 6.8);
  return [
    { x: 4, y: (overview + 10) / 2, text: overall },
    ...threads.map((thread, at) => ({
      x: 4,
      y: overview + at * row + row / 2 - 2,
      text: shortened(thread.name, letters),
      thread: at,
    })),
    ...marksOf(axis, width - left).map(([part, text]) => ({
      x: Math.min(Math.round(left + part * (width - left)) + 2, width - 7 * text.length),
      y: 9,
      text,
    })),
  ];
}

/** Draws it with what is selected. */
export function drawTimeline(canvas: HTMLCanvasElement, picture: LivePicture): void {
  const { axis, threads, width, height, row, overview, selected, cursor, night } = picture;
  const ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const ink = night ? TEXT.dark : TEXT.light;
  const left = labelWidth(width);
  const step = (width - left) / axis.slices;
  timelineBoxes(picture)((x, y, w, h, colour) => {
    context.fillStyle = colour;
    context.fillRect(x, y, w, h);
  });
  if (selected) {
    context.fillStyle = night ? "#0009" : "#fffa";
    context.fillRect(left, 0, selected[0] * step, height);
    context.fillRect(left + selected[1] * step, 0, width - left - selected[1] * step, height);
    context.strokeStyle = ink;
    context.strokeRect(left + selected[0] * step + 0.5, 1, (selected[1] - selected[0]) * step - 1, height - 2);
  }
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = ink;
  for (const { x, y, text, thread } of timelineTexts(picture)) {
    context.globalAlpha =
      thread === undefined || picture.only === null || picture.only === threads[thread]!.method ? 1 : 0.45;
    context.fillText(text, x, y);
  }
  context.globalAlpha = 1;
  context.lineWidth = 1;
  context.strokeStyle = ink;
  context.strokeRect(left + cursor[0] * step - 0.5, overview + cursor[1] * row - 1.5, Math.max(3, step), row - 1);
}

type Mark = readonly [number, string];

const marksOf = (axis: TimeAxis, width: number) => (axis.epochs ? epochMarks(axis, width) : timeMarks(axis, width));

/** Round times, some hundred pixels apart. */
function timeMarks(axis: TimeAxis, width: number): Mark[] {
  const seconds = (axis.slices * axis.slice_ns) / 1e9;
  const rough = (seconds * 110) / width;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const every = [1, 2, 5, 10].map((times) => times * unit).find((one) => one >= rough) ?? unit;
  return Array.from({ length: Math.floor(seconds / every) + 1 }, (_, at) => [
    (at * every) / seconds,
    `${Number((at * every).toPrecision(4))} s`,
  ]);
}

/** Where epochs begin; the day where it is another one than before. */
function epochMarks(axis: TimeAxis, width: number): Mark[] {
  const every = Math.max(1, Math.ceil((axis.slices * 130) / width));
  let day = "";
  return axis.epochs!.flatMap((epoch, at): Mark[] => {
    if (at % every !== 0) return [[at / axis.slices, ""]];
    const text = utcTime(epoch.start_unix_ns);
    const shown = text.slice(0, 10) === day ? text.slice(11) : text.slice(5);
    day = text.slice(0, 10);
    return [[at / axis.slices, shown]];
  });
}
