/** A flame graph on a canvas, with its keyboard, its details and its table. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { amount, percent, printable, shortened } from "../model/format";
import { type CallTree, childrenOf, pathOf } from "../model/tree";
import { SaveMenu } from "../parts/menu";
import { dark } from "../parts/theme";
import { TEXT } from "./colours";
import {
  type Camera,
  type Layout,
  cameraOf,
  formatView,
  heldCamera,
  layoutOf,
  nodeAt,
  parseView,
  visitVisible,
  zoomedCamera,
} from "./layout";
import { saveCanvas, saveDrawing } from "./save";

export interface FlameProps {
  readonly tree: CallTree;
  readonly values: readonly number[];
  readonly names: readonly string[];
  readonly unit: string;
  /** The root is below. */
  readonly upward: boolean;
  readonly zoom: number;
  readonly onZoom: (node: number) => void;
  readonly colour: (method: number, node: number, dark: boolean) => string;
  readonly marked: Uint8Array | null;
  readonly label: string;
  /** What is said of a node beside its cost. */
  readonly details: (node: number) => readonly string[];
  readonly onMethod?: (method: number) => void;
  readonly onFocus?: (method: number, where: "callers" | "callees") => void;
  /** The part of the zoomed frame that is seen, as `from_to` in parts of it; empty: all. */
  readonly view?: string;
  readonly onView?: (view: string) => void;
}

const ROW = 20;

export function Flame(props: FlameProps) {
  const { tree, zoom, upward } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [hovered, setHovered] = useState(0);
  const [selected, setSelected] = useState(0);
  const layout = useMemo(() => layoutOf(tree, props.values), [tree, props.values.join()]);
  const root = zoom < tree.method.length ? zoom : 0;
  const rows = useMemo(() => visibleRows(tree, layout, root, width), [tree, layout, root, width]);
  const height = Math.max(rows, 1) * ROW;
  // In parts of the frame, not in pixels, so that it holds when the window changes its size.
  const [moved, setMoved] = useState<string | null>(null);
  const camera = parseView(layout, root, moved ?? props.view ?? "", width);
  const told = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const tip = useRef<HTMLDivElement>(null);
  const dragged = useRef<{ readonly x: number; readonly left: number; far: boolean } | null>(null);
  useEffect(() => {
    clearTimeout(told.current);
    setMoved(null);
  }, [layout, root]);
  useEffect(() => {
    const watch = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.max(200, Math.floor(entry.contentRect.width))),
    );
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => setSelected(root), [root, tree]);
  useEffect(() => {
    // The root is what stacks are read from.
    if (upward && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [upward, height]);
  useLayoutEffect(() => {
    // At once: a canvas whose size has changed is empty until then.
    if (canvas.current) draw(canvas.current, props, layout, camera, width, height, selected || hovered);
  });
  useEffect(() => {
    // Not passive, so that the page does not scroll or zoom along.
    const element = canvas.current;
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  });
  const show = (next: Camera) => {
    const view = formatView(layout, root, heldCamera(layout, root, next, width), width);
    setMoved(view);
    clearTimeout(told.current);
    told.current = setTimeout(() => props.onView?.(view), 250);
  };
  const wheel = (event: WheelEvent) => {
    const turn = event.ctrlKey || event.metaKey || event.altKey;
    const sideways = event.deltaX !== 0 ? event.deltaX : event.shiftKey ? event.deltaY : 0;
    if (!turn && sideways === 0) return;
    event.preventDefault();
    show(
      turn
        ? zoomedCamera(camera, event.offsetX, Math.exp(-event.deltaY / 300))
        : { ...camera, left: camera.left + sideways / camera.scale },
    );
  };
  const at = (event: MouseEvent) => {
    const row = Math.floor(event.offsetY / ROW);
    const depth = upward ? rows - 1 - row : row;
    return nodeAt(tree, layout, depth, camera.left + event.offsetX / camera.scale);
  };
  const shown = hovered || selected;
  /** Moves what is said of the frame to the pointer, without drawing anything anew. */
  const follow = (event: MouseEvent) => {
    if (!tip.current) return;
    tip.current.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.current.offsetWidth - 8))}px`;
    tip.current.style.top = `${event.clientY + 18 + tip.current.offsetHeight > innerHeight ? event.clientY - 10 - tip.current.offsetHeight : event.clientY + 18}px`;
  };
  const key = (event: KeyboardEvent) => {
    const next = neighbour(tree, selected, event.key, upward);
    if (event.key === "Enter") props.onZoom(selected);
    else if (event.key === "Escape" || event.key === "Backspace") props.onZoom(tree.parent[root]!);
    else if (event.key === "+" || event.key === "=" || event.key === "-")
      show(zoomedCamera(camera, width / 2, event.key === "-" ? 1 / 1.4 : 1.4));
    else if (event.key === "a" || event.key === "d")
      show({ ...camera, left: camera.left + ((event.key === "a" ? -0.15 : 0.15) * width) / camera.scale });
    else if (next !== null) setSelected(next);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  // The canvas has what is marked, too.
  const save = (how: "svg" | "png") =>
    how === "png"
      ? canvas.current && saveCanvas(canvas.current, props.label)
      : saveDrawing(props.label, how, width, height, (emit) => {
          visitVisible(tree, layout, camera, width, (node, x, w) =>
            emit(
              Math.max(0, x),
              y(tree.depth[node]!, rows, upward),
              Math.min(w, width - Math.max(0, x)),
              ROW - 1,
              props.colour(tree.method[node]!, node, dark.value),
              props.names[tree.method[node]!]!,
            ),
          );
        });
  return (
    <figure class="flame">
      <div class="bar">
        <Crumbs {...props} root={root} />
        <SaveMenu save={save} />
      </div>
      <div ref={box} class="canvas" style={{ height: `min(${height + 2}px, max(16rem, 100vh - 21rem))` }}>
        <canvas
          ref={canvas}
          width={width}
          height={height}
          style={{ width: `${width}px`, height: `${height}px` }}
          tabIndex={0}
          role="application"
          aria-label={`${props.label}. Arrow keys move, Enter zooms, Escape goes back; the same as a table is below.`}
          aria-roledescription="flame graph"
          onKeyDown={key}
          onMouseLeave={() => setHovered(0)}
          onMouseDown={(event) => {
            dragged.current = { x: event.clientX, left: camera.left, far: false };
          }}
          onMouseMove={(event) => {
            const start = dragged.current;
            follow(event);
            if (start === null || event.buttons !== 1) return setHovered(at(event));
            start.far ||= Math.abs(event.clientX - start.x) > 4;
            if (start.far) show({ ...camera, left: start.left - (event.clientX - start.x) / camera.scale });
          }}
          onClick={(event) => {
            const far = dragged.current?.far;
            dragged.current = null;
            if (far) return;
            const node = at(event);
            setSelected(node);
            if (node) props.onZoom(node);
          }}
          onContextMenu={(event) => {
            const node = at(event);
            if (node && props.onMethod) {
              event.preventDefault();
              props.onMethod(tree.method[node]!);
            }
          }}
        />
        <div ref={tip} class="tip" aria-hidden="true" hidden={hovered === 0}>
          {hovered > 0 && (
            <>
              <b>{shortened(props.names[tree.method[hovered]!]!, 200)}</b>
              {props.details(hovered).map((line) => (
                <span key={line}>{line}</span>
              ))}
            </>
          )}
        </div>
      </div>
      <figcaption aria-live="polite" data-testid="flame-details">
        <strong>{shown === 0 ? "all" : shortened(props.names[tree.method[shown]!]!, 300)}</strong>
        {props.details(shown).map((line) => (
          <span key={line}>{line}</span>
        ))}
        {shown > 0 && (
          <button
            type="button"
            onClick={() =>
              void navigator.clipboard.writeText(
                pathOf(tree, shown)
                  .map((method) => printable(props.names[method]!))
                  .join("\n"),
              )
            }
          >
            Copy stack
          </button>
        )}
        {shown > 0 && props.onMethod && (
          <button type="button" onClick={() => props.onMethod?.(tree.method[shown]!)}>
            Callers and callees
          </button>
        )}
        {shown > 0 && props.onFocus && (
          <>
            <button type="button" onClick={() => props.onFocus?.(tree.method[shown]!, "callees")}>
              Only what it calls
            </button>
            <button type="button" onClick={() => props.onFocus?.(tree.method[shown]!, "callers")}>
              Only its callers
            </button>
          </>
        )}
      </figcaption>
      <Twin {...props} root={root} />
    </figure>
  );
}

function y(depth: number, rows: number, upward: boolean): number {
  return (upward ? rows - 1 - depth : depth) * ROW;
}

function visibleRows(tree: CallTree, layout: Layout, root: number, width: number): number {
  let deepest = 0;
  visitVisible(
    tree,
    layout,
    cameraOf(layout, root, width),
    width,
    (node) => (deepest = Math.max(deepest, tree.depth[node]!)),
  );
  return Math.min(deepest + 1, 1600);
}

function draw(
  canvas: HTMLCanvasElement,
  props: FlameProps,
  layout: Layout,
  camera: Camera,
  width: number,
  height: number,
  focus: number,
): void {
  const started = performance.now();
  const { tree, names, upward, marked } = props;
  const ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const night = dark.value;
  const ink = night ? TEXT.dark : TEXT.light;
  const rows = height / ROW;
  const colours = new Map<number, string>();
  const box = (node: number, from: number, w: number) => {
    const method = tree.method[node]!;
    const x = Math.max(0, from);
    const shown = Math.min(from + w, width) - x;
    const top = y(tree.depth[node]!, rows, upward);
    let colour = props.values.length > 1 ? undefined : colours.get(method);
    if (colour === undefined)
      colours.set(method, (colour = node === 0 ? (night ? "#3a3833" : "#e6e2d8") : props.colour(method, node, night)));
    context.globalAlpha = marked && node > 0 && marked[method] !== 1 ? 0.28 : 1;
    context.fillStyle = colour;
    context.fillRect(x, top, Math.max(0.5, shown - (shown > 3 ? 1 : 0)), ROW - 1);
    context.globalAlpha = 1;
    if ((node === focus && node > 0) || (marked && node > 0 && marked[method] === 1 && shown > 2)) {
      context.strokeStyle = ink;
      context.lineWidth = node === focus ? 2 : 1;
      context.strokeRect(x + 1, top + 1, Math.max(1, shown - 3), ROW - 3);
    }
    if (shown < 34) return;
    context.fillStyle = ink;
    context.fillText(fitting(node === 0 ? "all" : names[method]!, shown - 10), x + 5, top + ROW / 2, shown - 8);
  };
  box(0, -camera.left * camera.scale, layout.width[0]! * camera.scale);
  visitVisible(tree, layout, camera, width, box);
  canvas.dataset["milliseconds"] = (performance.now() - started).toFixed(2);
}

/**
 * The part of a name that fits, by the mean width of letters: measuring each costs more than
 * drawing it. Wide ones are drawn narrower.
 */
function fitting(name: string, pixels: number): string {
  const letters = Math.floor(pixels / 6.6);
  return letters < 3 ? "" : shortened(name, letters);
}

function neighbour(tree: CallTree, node: number, key: string, upward: boolean): number | null {
  const up = upward ? "ArrowDown" : "ArrowUp";
  const down = upward ? "ArrowUp" : "ArrowDown";
  if (key === up || key === "h") return tree.parent[node]!;
  if (key === down || key === "l") return tree.end[node]! > node + 1 ? node + 1 : node;
  if (key !== "ArrowLeft" && key !== "ArrowRight") return null;
  const siblings = childrenOf(tree, tree.parent[node]!);
  const at = siblings.indexOf(node) + (key === "ArrowLeft" ? -1 : 1);
  return siblings[at] ?? node;
}

function Crumbs(props: FlameProps & { readonly root: number }) {
  const nodes: number[] = [];
  for (let node = props.root; node > 0; node = props.tree.parent[node]!) nodes.unshift(node);
  const shown = nodes.length > 7 ? [...nodes.slice(0, 2), ...nodes.slice(-4)] : nodes;
  return (
    <div class="crumbs" role="group" aria-label="Zoomed to">
      <button type="button" onClick={() => props.onZoom(0)}>
        all
      </button>
      {shown.map((node, at) => (
        <span key={node}>
          {at === 2 && shown.length < nodes.length ? " … " : " › "}
          <button type="button" onClick={() => props.onZoom(node)}>
            {shortened(props.names[props.tree.method[node]!]!, 40)}
          </button>
        </span>
      ))}
    </div>
  );
}

/** The same as a table: what the zoomed frame calls. */
function Twin(props: FlameProps & { readonly root: number }) {
  const { tree, root, values } = props;
  const value = values.at(-1)!;
  const children = childrenOf(tree, root);
  const whole = tree.total[value]![0] || 1;
  return (
    <details class="twin">
      <summary>
        As a table: {children.length} below {root === 0 ? "the root" : shortened(props.names[tree.method[root]!]!, 60)}
      </summary>
      <table>
        <thead>
          <tr>
            <th scope="col">Frame</th>
            <th scope="col">Total</th>
            <th scope="col">Part</th>
            <th scope="col">Self</th>
          </tr>
        </thead>
        <tbody>
          {children.slice(0, 200).map((node) => (
            <tr key={node}>
              <th scope="row">
                <button type="button" onClick={() => props.onZoom(node)}>
                  {shortened(props.names[tree.method[node]!]!)}
                </button>
              </th>
              <td>{amount(tree.total[value]![node]!, props.unit)}</td>
              <td>{percent(tree.total[value]![node]! / whole)}</td>
              <td>{amount(tree.own[value]![node]!, props.unit)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
