/** Boxes and arrows: each box can be reached by the keyboard, and the picture can be saved. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { printable } from "../model/format";
import { type GraphEdge, type GraphNode, LINE, pathThrough, placeGraph } from "../model/layered";
import { SaveMenu } from "../parts/menu";
import { dark } from "../parts/theme";
import { saveElement } from "./save";

interface Props {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  readonly label: string;
  readonly direction?: "TB" | "LR";
  readonly selected?: string;
  readonly onSelect?: (id: string) => void;
}

export function Graph({ nodes, edges, label, direction = "TB", selected, onSelect }: Props) {
  const placed = useMemo(() => placeGraph(nodes, edges, direction), [nodes, edges, direction]);
  const picture = useRef<SVGSVGElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const node = placed.nodes.find((one) => one.id === selected);
    const box = frame.current;
    // What is chosen is seen, without scrolling the page.
    if (node && box) box.scrollTo(node.x - box.clientWidth / 2, node.y - box.clientHeight / 2);
  }, [placed, selected]);
  const night = dark.value;
  const ink = night ? "#f1eee6" : "#1d1b16";
  const quiet = night ? "#8f897c" : "#7a7465";
  // Warmer is more; the numbers in the boxes say the same.
  const fill = (heat: number) =>
    night ? `hsl(28 ${60 * heat}% ${18 + 16 * heat}%)` : `hsl(38 ${95 * heat}% ${97 - 25 * heat}%)`;
  const key = (id: string) => (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onSelect?.(id);
  };
  return (
    <figure class="graph">
      <div class="bar">
        <span />
        <SaveMenu save={(how) => picture.current && saveElement(picture.current, label, how)} />
      </div>
      <div ref={frame} class="scroll" tabIndex={0} role="region" aria-label={label}>
        <svg
          ref={picture}
          xmlns="http://www.w3.org/2000/svg"
          width={Math.ceil(placed.width)}
          height={Math.ceil(placed.height)}
          viewBox={`0 0 ${Math.ceil(placed.width)} ${Math.ceil(placed.height)}`}
          font-family="ui-monospace, monospace"
          font-size="11"
        >
          <defs>
            <marker
              id="arrow"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="7"
              markerHeight="7"
              orient="auto"
              markerUnits="userSpaceOnUse"
            >
              <path d="M0 0 L8 4 L0 8 Z" fill={quiet} />
            </marker>
          </defs>
          {placed.edges.map((edge, at) => (
            <path
              key={at}
              d={pathThrough(edge.points)}
              fill="none"
              stroke={quiet}
              stroke-width={1 + 4 * edge.weight}
              stroke-dasharray={edge.dashed ? "5 4" : undefined}
              marker-end="url(#arrow)"
            >
              <title>{printable(edge.label)}</title>
            </path>
          ))}
          {placed.edges.map(
            (edge, at) =>
              edge.label !== "" && (
                <g key={at}>
                  <rect
                    x={edge.at.x - 3.5 * edge.label.length - 2}
                    y={edge.at.y - 7}
                    width={7 * edge.label.length + 4}
                    height={14}
                    rx="3"
                    fill={night ? "#22211e" : "#fff"}
                  />
                  <text x={edge.at.x} y={edge.at.y + 4} text-anchor="middle" fill={ink}>
                    {printable(edge.label)}
                  </text>
                </g>
              ),
          )}
          {placed.nodes.map((node) => (
            <g
              key={node.id}
              class="node"
              tabIndex={onSelect ? 0 : undefined}
              role={onSelect ? "button" : undefined}
              aria-pressed={onSelect ? node.id === selected : undefined}
              onClick={() => onSelect?.(node.id)}
              onKeyDown={key(node.id)}
            >
              <rect
                x={node.x - node.width / 2}
                y={node.y - node.height / 2}
                width={node.width}
                height={node.height}
                rx="5"
                fill={fill(Math.max(0, Math.min(1, node.heat)))}
                stroke={node.id === selected ? ink : quiet}
                stroke-width={node.id === selected ? 2.5 : 1}
              />
              {node.lines.map((line, at) => (
                <text
                  key={at}
                  x={node.x - node.width / 2 + 8}
                  y={node.y - node.height / 2 + 5 + LINE * (at + 0.75)}
                  fill={ink}
                  font-weight={at === 0 ? "700" : "400"}
                >
                  {printable(line)}
                </text>
              ))}
            </g>
          ))}
        </svg>
      </div>
    </figure>
  );
}
