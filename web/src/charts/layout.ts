/** Where boxes of a flame graph are. Pure: a view draws what this says. */
import type { CallTree } from "../model/tree";

export interface Layout {
  /** Left edge of each node, in units of cost. */
  readonly left: Float64Array;
  readonly width: Float64Array;
  readonly deepest: number;
}

/**
 * Places each node below its caller, in order. Width is the sum of the sizes of the values given.
 */
export function layoutOf(tree: CallTree, values: readonly number[]): Layout {
  const count = tree.method.length;
  const width = new Float64Array(count);
  for (const value of values)
    for (let node = 0; node < count; node++) width[node]! += Math.abs(tree.own[value]![node]!);
  let deepest = 0;
  for (let node = count - 1; node > 0; node--) {
    width[tree.parent[node]!]! += width[node]!;
    if (tree.depth[node]! > deepest) deepest = tree.depth[node]!;
  }
  const left = new Float64Array(count);
  const next = new Float64Array(count);
  for (let node = 1; node < count; node++) {
    const parent = tree.parent[node]!;
    left[node] = next[parent]!;
    next[node] = left[node]!;
    next[parent]! += width[node]!;
  }
  return { left, width, deepest };
}

/** What is seen of it: `zoom` fills the width. */
export interface Camera {
  readonly left: number;
  readonly scale: number;
}

export function cameraOf(layout: Layout, zoom: number, pixels: number): Camera {
  const width = layout.width[zoom] || 1;
  return { left: layout.left[zoom]!, scale: pixels / width };
}

/** Zooms in at a pixel, which stays over the same cost. */
export function zoomedCamera(camera: Camera, x: number, factor: number): Camera {
  const scale = camera.scale * factor;
  return { scale, left: camera.left + x / camera.scale - x / scale };
}

/** So much closer than the zoomed frame one can go. */
const CLOSEST = 1e6;

/** A camera that sees nothing beside the zoomed frame. */
export function heldCamera(layout: Layout, zoom: number, camera: Camera, pixels: number): Camera {
  const whole = cameraOf(layout, zoom, pixels);
  const scale = Math.min(CLOSEST * whole.scale, Math.max(whole.scale, camera.scale));
  const last = whole.left + pixels / whole.scale - pixels / scale;
  return { scale, left: Math.max(whole.left, Math.min(last, camera.left)) };
}

/** What is seen, in parts of the zoomed frame, for the address. Empty if that is all. */
export function formatView(layout: Layout, zoom: number, camera: Camera, pixels: number): string {
  const whole = cameraOf(layout, zoom, pixels);
  const from = ((camera.left - whole.left) * whole.scale) / pixels;
  const part = whole.scale / camera.scale;
  // The closest view is a millionth of the frame; a pixel of it is a billionth.
  return part > 1 - 1e-9 ? "" : `${from.toPrecision(12)}_${(from + part).toPrecision(12)}`;
}

export function parseView(layout: Layout, zoom: number, text: string, pixels: number): Camera {
  const whole = cameraOf(layout, zoom, pixels);
  const [from = NaN, to = NaN] = text.split("_").map(Number);
  if (!(from >= 0 && to > from && to <= 1.001)) return whole;
  return heldCamera(
    layout,
    zoom,
    { left: whole.left + (from * pixels) / whole.scale, scale: whole.scale / (to - from) },
    pixels,
  );
}

/** Narrower boxes are not drawn. */
export const NARROWEST = 0.5;

/** Calls `draw` for each box that is seen, callers first. */
export function visitVisible(
  tree: CallTree,
  layout: Layout,
  camera: Camera,
  pixels: number,
  draw: (node: number, x: number, width: number) => void,
): void {
  const count = tree.method.length;
  for (let node = 1; node < count; node++) {
    const width = layout.width[node]! * camera.scale;
    const x = (layout.left[node]! - camera.left) * camera.scale;
    if (width < NARROWEST || x + width <= 0 || x >= pixels) {
      node = tree.end[node]! - 1;
      continue;
    }
    draw(node, x, width);
  }
}

/** The node at a place: `depth` deep, at `cost` from the left. 0 if there is none. */
export function nodeAt(tree: CallTree, layout: Layout, depth: number, cost: number): number {
  for (let node = 1; node < tree.method.length; node++) {
    const inside = cost >= layout.left[node]! && cost < layout.left[node]! + layout.width[node]!;
    if (!inside) node = tree.end[node]! - 1;
    else if (tree.depth[node] === depth) return node;
  }
  return 0;
}
