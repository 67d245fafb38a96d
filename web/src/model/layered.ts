/** Where boxes and arrows of a graph are: layers from above, by dagre. No DOM. */
import { graphlib, layout } from "@dagrejs/dagre";

export interface GraphNode {
  readonly id: string;
  /** Lines of text; the first one is the title. */
  readonly lines: readonly string[];
  /** From 0 to 1: how much of what the picture is about. */
  readonly heat: number;
}

export interface GraphEdge {
  readonly from: string;
  readonly to: string;
  readonly label: string;
  /** From 0 to 1: how thick. */
  readonly weight: number;
  /** Not the usual way: drawn dashed. */
  readonly dashed?: boolean;
}

export interface PlacedGraph {
  readonly width: number;
  readonly height: number;
  readonly nodes: readonly (GraphNode & {
    readonly x: number;
    readonly y: number;
    readonly width: number;
    readonly height: number;
  })[];
  readonly edges: readonly (GraphEdge & {
    readonly points: readonly { readonly x: number; readonly y: number }[];
    readonly at: { readonly x: number; readonly y: number };
  })[];
}

interface Place {
  readonly x: number;
  readonly y: number;
}

/** So far an arrow from a box to itself reaches out of it. */
const LOOP = 26;

/** Width of a letter and height of a line in pixels: of the font that pictures use. */
const LETTER = 6.7;
export const LINE = 15;

export function placeGraph(
  nodes: readonly GraphNode[],
  edges: readonly GraphEdge[],
  direction: "TB" | "LR" = "TB",
): PlacedGraph {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: direction, nodesep: 26, ranksep: 42, marginx: 10, marginy: 10 });
  const known = new Set(nodes.map((node) => node.id));
  for (const node of nodes)
    graph.setNode(node.id, {
      width: Math.max(60, 16 + LETTER * Math.max(...node.lines.map((line) => line.length))),
      height: 10 + LINE * node.lines.length,
    });
  const drawn = edges.filter((edge) => known.has(edge.from) && known.has(edge.to));
  // Dagre draws an arrow from a box to itself out of the picture.
  const between = drawn.filter((edge) => edge.from !== edge.to);
  const loops = drawn.filter((edge) => edge.from === edge.to);
  between.forEach((edge, index) =>
    graph.setEdge(
      edge.from,
      edge.to,
      { width: LETTER * edge.label.length, height: edge.label === "" ? 0 : LINE, labelpos: "c" },
      String(index),
    ),
  );
  layout(graph);
  const label = graph.graph() as { width?: number; height?: number };
  const placed = nodes.map((node) => ({
    ...node,
    ...(graph.node(node.id) as Place & { width: number; height: number }),
  }));
  const byId = new Map(placed.map((node) => [node.id, node]));
  const arrows = between.map((edge, index) => {
    const { points, x, y } = graph.edge(edge.from, edge.to, String(index)) as {
      points: Place[];
      x?: number;
      y?: number;
    };
    const middle = points[Math.floor(points.length / 2)]!;
    return { ...edge, points, at: { x: x ?? middle.x, y: y ?? middle.y } };
  });
  const rings = loops.map((edge) => {
    const { x, y, width, height } = byId.get(edge.from)!;
    const [right, reach] = [x + width / 2, LOOP + LETTER * edge.label.length];
    const points = [
      { x: right, y: y + height / 4 },
      { x: right + reach, y: y + height / 4 },
      { x: right + reach, y: y - height / 4 },
      { x: right, y: y - height / 4 },
    ];
    return { ...edge, points, at: { x: right + reach / 2 + 4, y } };
  });
  const right = Math.max(label.width ?? 0, ...rings.map((ring) => ring.points[1]!.x + 8));
  return { width: right, height: label.height ?? 0, nodes: placed, edges: [...arrows, ...rings] };
}

/** A smooth path through points. */
export function pathThrough(points: readonly { readonly x: number; readonly y: number }[]): string {
  const at = (point: { readonly x: number; readonly y: number }) => `${point.x.toFixed(1)},${point.y.toFixed(1)}`;
  const [first, ...rest] = points;
  if (!first || rest.length === 0) return "";
  let path = `M${at(first)}`;
  for (let index = 0; index < rest.length - 1; index++) {
    const [here, next] = [rest[index]!, rest[index + 1]!];
    path += ` Q${at(here)} ${at({ x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 })}`;
  }
  return `${path} L${at(rest.at(-1)!)}`;
}
