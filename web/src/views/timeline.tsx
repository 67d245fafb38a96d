/**
 * When threads ran, waited for a CPU and were blocked. What is selected here filters every other
 * view.
 */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { NAMES, STATES, drawTimeline, labelWidth, timelineBoxes, timelineTexts } from "../charts/timeline";
import { saveDrawing } from "../charts/save";
import type { TimeAxis } from "../model/data";
import { amount, grouped, percent, shortened } from "../model/format";
import {
  rangeBetween,
  rangeText,
  runningScale,
  sliceLength,
  sumOf,
  threadTimes,
  utcTime,
  wakesIn,
} from "../model/timeline";
import { Empty } from "../parts/empty";
import { SaveMenu } from "../parts/menu";
import { ProfileEmpty } from "../parts/profile-empty";
import { dark } from "../parts/theme";
import { profile, range, thread } from "../state/page";
import { change, linkTo } from "../state/route";

/** Maximum number of threads that are drawn; the table has all. */
const DRAWN = 64;
const ROW = 26;
const OVERVIEW = 72;

export function Timeline() {
  const shown = profile.value;
  const axis = shown?.timeline;
  const scale = useMemo(() => (shown?.timeline ? runningScale(shown) : null), [shown]);
  const threads = useMemo(() => (shown && scale ? threadTimes(shown, scale) : []), [shown, scale]);
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [cursor, setCursor] = useState<readonly [number, number]>([0, 0]);
  const [drag, setDrag] = useState<number | null>(null);
  const overall = scale?.relative ? "Activity" : shown?.facts ? "CPUs busy" : "Threads busy";
  const drawn = threads.slice(0, DRAWN);
  const height = OVERVIEW + drawn.length * ROW + 4;
  const selected = range.value;
  useEffect(() => {
    const watch = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.max(260, Math.floor(entry.contentRect.width))),
    );
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, [axis]);
  useLayoutEffect(() => {
    if (canvas.current && axis)
      drawTimeline(canvas.current, {
        axis,
        threads: drawn,
        width,
        height,
        row: ROW,
        overview: OVERVIEW,
        overall,
        selected,
        cursor,
        only: thread.value,
        night: dark.value,
      });
  });
  if (!shown) return <ProfileEmpty />;
  if (!axis || !scale || threads.length === 0)
    return (
      <Empty
        why={`${shortened(shown.name, 80)} has no time axis: it says how often code ran, not when. Recordings with --timeline do, and profiles of perf, the Firefox Profiler, speedscope and Java's flight recorder that have times.`}
        type={["vitalfew record -g --timeline --off-cpu -o app.vf -- COMMAND", "vitalfew html page.html app.vf"]}
      />
    );
  const left = labelWidth(width);
  const sliceAt = (event: MouseEvent) =>
    Math.max(0, Math.min(axis.slices - 1, Math.floor(((event.offsetX - left) / (width - left)) * axis.slices)));
  const rowAt = (event: MouseEvent) =>
    Math.max(0, Math.min(drawn.length - 1, Math.floor((event.offsetY - OVERVIEW) / ROW)));
  const select = (from: number, to: number) =>
    change({ range: rangeBetween(from, to, axis.slices).join("-"), zoom: "" }, true);
  const [slice, row] = cursor;
  const key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const down = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      const next = Math.max(0, Math.min(axis.slices - 1, slice + step));
      if (event.shiftKey) {
        const from = drag ?? slice;
        setDrag(from);
        select(from, next);
      } else setDrag(null);
      setCursor([next, row]);
    } else if (down !== 0) setCursor([slice, Math.max(0, Math.min(drawn.length - 1, row + down))]);
    else if (event.key === "Enter")
      change({ thread: thread.value === null && drawn[row]!.method >= 0 ? drawn[row]!.name : "", zoom: "" });
    else if (event.key === "Escape") change({ range: "", zoom: "" });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const picture = { axis, threads: drawn, width, row: ROW, overview: OVERVIEW, overall, night: dark.value };
  const under = drawn[row] ?? drawn[0]!;
  const ran = (ns: number) =>
    scale.relative ? amount(ns / scale.ns, shown.values[scale.value]!.unit) : amount(ns, "nanoseconds");
  const part = (ns: number) => percent(ns / sliceLength(axis, slice));
  const woken = wakesIn(shown.wakes, [slice, slice + 1], under.name)[0];
  return (
    <div class="timeline">
      <h1>Timeline</h1>
      <p class="quiet">
        Drag over a part of the time: every view shows only that part.{" "}
        {STATES.map((state) => (
          <span key={state} class={`key ${state}`}>
            {NAMES[state]}
          </span>
        ))}
      </p>
      <figure>
        <div class="bar">
          <span />
          <SaveMenu
            save={(how) =>
              saveDrawing(
                `Timeline of ${shown.name}`,
                how,
                width,
                height,
                timelineBoxes(picture),
                timelineTexts(picture),
              )
            }
          />
        </div>
        <div ref={box} class="canvas">
          <canvas
            ref={canvas}
            width={width}
            height={height}
            style={{ width: `${width}px`, height: `${height}px` }}
            tabIndex={0}
            role="application"
            aria-roledescription="timeline"
            aria-label="Threads over time. Left and right move in time, with Shift they select; up and down go to another thread, Enter shows it alone, Escape shows all of the time. The same as a table is below."
            onKeyDown={key}
            onMouseDown={(event) => {
              setDrag(sliceAt(event));
              setCursor([sliceAt(event), rowAt(event)]);
            }}
            onMouseMove={(event) => {
              setCursor([sliceAt(event), rowAt(event)]);
              if (drag !== null && event.buttons === 1) select(drag, sliceAt(event));
            }}
            onMouseUp={(event) => {
              if (drag !== null && drag === sliceAt(event)) change({ range: "", zoom: "" });
              setDrag(null);
            }}
          />
        </div>
        <figcaption aria-live="polite" data-testid="timeline-details">
          <strong>{shortened(under.name, 60)}</strong>
          <span>
            {axis.epochs && `Epoch ${slice + 1}: `}
            {rangeText(axis, [slice, slice + 1])}
          </span>
          <span>{scale.relative ? ran(under.running[slice]!) : `running ${part(under.running[slice]!)}`}</span>
          <span>waiting for a CPU {part(under.ready[slice]!)}</span>
          <span>blocked {part(under.blocked[slice]!)}</span>
          {woken && (
            <span>
              woken by {shortened(woken.waker, 40)} after {amount(woken.ns, "nanoseconds")}
            </span>
          )}
        </figcaption>
      </figure>
      <h2>{selected ? "In the selected time" : "In all"}</h2>
      <div class="table" tabIndex={0} role="region" aria-label="Threads">
        <table data-testid="threads">
          <thead>
            <tr>
              <th scope="col">Thread</th>
              <th scope="col" class="number">
                Running
              </th>
              <th scope="col" class="number">
                Waiting for a CPU
              </th>
              <th scope="col" class="number">
                Blocked
              </th>
              <th scope="col">Woken mostly by</th>
            </tr>
          </thead>
          <tbody>
            {threads.slice(0, 500).map((one) => {
              const waker = wakesIn(shown.wakes, selected, one.name)[0];
              return (
                <tr key={one.method}>
                  <th scope="row">
                    <a href={linkTo("flame", one.method < 0 ? {} : { thread: one.name })}>{shortened(one.name, 60)}</a>
                  </th>
                  <td class="number">{ran(sumOf(one.running, selected))}</td>
                  <td class="number">{amount(sumOf(one.ready, selected), "nanoseconds")}</td>
                  <td class="number">{amount(sumOf(one.blocked, selected), "nanoseconds")}</td>
                  <td>{waker ? `${shortened(waker.waker, 40)}, after ${amount(waker.ns, "nanoseconds")}` : ""}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {axis.epochs && (
        <Epochs
          epochs={axis.epochs}
          onSelect={(at) => change({ range: `${at}-${at + 1}`, zoom: "" })}
          busy={axis.epochs.map((_, at) => threads.reduce((sum, one) => sum + one.running[at]!, 0))}
        />
      )}
      <p class="quiet">
        {axis.epochs
          ? `The last ${grouped(axis.slices)} epochs of the database, equally wide. Running is what samples say; threads of one name are one, and can run on several CPUs. `
          : `${grouped(axis.slices)} slices of ${amount(axis.slice_ns, "nanoseconds")}. ${scale.relative ? `Running is the number of ${shown.values[scale.value]!.unit}, of the busiest slice's: the profile has no rate.` : shown.facts ? "Running is what samples say." : `Running is ${shown.values[scale.value]!.name} as the profile says it.`} A wait counts where it ended, and is drawn back from there. `}
        {threads.length > DRAWN && `${grouped(threads.length - DRAWN)} more threads are in the table only. `}
        {!shown.wakes && shown.facts && (
          <>
            Who woke whom is recorded with <code>--off-cpu</code>.
          </>
        )}
      </p>
    </div>
  );
}

/** The epochs that the axis is made of, as a table. */
function Epochs({
  epochs,
  busy,
  onSelect,
}: {
  readonly epochs: NonNullable<TimeAxis["epochs"]>;
  readonly busy: readonly number[];
  readonly onSelect: (at: number) => void;
}) {
  return (
    <details class="twin">
      <summary>Epochs as a table</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">Epoch (UTC)</th>
            <th scope="col" class="number">
              Length
            </th>
            <th scope="col" class="number">
              CPUs busy
            </th>
          </tr>
        </thead>
        <tbody>
          {epochs.map((one, at) => (
            <tr key={at}>
              <th scope="row">
                <button type="button" class="plain" onClick={() => onSelect(at)}>
                  {utcTime(one.start_unix_ns)}
                </button>
              </th>
              <td class="number">{amount(one.duration_ns, "nanoseconds")}</td>
              <td class="number">{(busy[at]! / (one.duration_ns || 1)).toFixed(2)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
