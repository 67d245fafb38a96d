/** Pictures as files, with their paper: outside of the page nothing else gives them one. */
import { dark } from "../parts/theme";
import { PAPER, TEXT } from "./colours";

/** Calls with a box: where, how large, its colour and its name; `bare`: without its name on it. */
export type EmitBox = (
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
  name: string,
  bare?: boolean,
) => void;
export interface PlacedText {
  readonly x: number;
  readonly y: number;
  readonly text: string;
}

const paper = () => (dark.value ? PAPER.dark : PAPER.light);

function offer(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (title: string, ending: string) =>
  `${title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 60)}.${ending}`;

export function saveCanvas(canvas: HTMLCanvasElement, title: string): void {
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  const context = copy.getContext("2d");
  if (!context) return;
  context.fillStyle = paper();
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => blob && offer(fileName(title, "png"), blob));
}

const escaped = (text: string) =>
  text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`).replace(/[\p{Cc}\p{Cf}]/gu, "\ufffd");

/** Boxes with their names, and texts, as an SVG document. */
export function svgOf(
  width: number,
  height: number,
  boxes: (emit: EmitBox) => void,
  texts: readonly PlacedText[] = [],
  night = false,
): string {
  const parts = [`<rect width="${width}" height="${height}" fill="${night ? PAPER.dark : PAPER.light}"/>`];
  boxes((x, y, w, h, colour, name, bare) => {
    const letters = bare ? 0 : Math.floor((w - 8) / 6.6);
    const label =
      letters > 2 ? `<text x="${(x + 4).toFixed(1)}" y="${y + h - 5}">${escaped(name.slice(0, letters))}</text>` : "";
    parts.push(
      `<g><title>${escaped(name.slice(0, 2000))}</title><rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${w.toFixed(1)}" height="${h.toFixed(1)}" fill="${colour}"/>${label}</g>`,
    );
  });
  for (const { x, y, text } of texts)
    parts.push(`<text x="${x.toFixed(1)}" y="${(y + 4).toFixed(1)}">${escaped(text)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="${night ? TEXT.dark : TEXT.light}">${parts.join("\n")}</svg>`;
}

/** Saves boxes and texts as a picture of either kind. */
export function saveDrawing(
  title: string,
  how: "svg" | "png",
  width: number,
  height: number,
  boxes: (emit: EmitBox) => void,
  texts: readonly PlacedText[] = [],
): void {
  saveSvgText(svgOf(width, height, boxes, texts, dark.value), title, how, width, height);
}

/** The longest side of a canvas that browsers draw. */
const LONGEST_SIDE = 16_000;

/** Saves an SVG document, as it is or drawn at twice its size. */
function saveSvgText(text: string, title: string, how: "svg" | "png", width: number, height: number): void {
  const svg = new Blob([text], { type: "image/svg+xml" });
  if (how === "svg") return offer(fileName(title, "svg"), svg);
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    const scale = Math.min(2, LONGEST_SIDE / Math.max(width, height));
    canvas.width = scale * width;
    canvas.height = scale * height;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    saveCanvas(canvas, title);
  };
  image.src = URL.createObjectURL(svg);
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight"] as const;

/** A copy that looks the same outside of the page: with the styles that the page gives. */
function withStyles(element: SVGSVGElement): SVGSVGElement {
  const copy = element.cloneNode(true) as SVGSVGElement;
  const copies = copy.querySelectorAll("*");
  element.querySelectorAll("*").forEach((one, at) => {
    const style = getComputedStyle(one);
    for (const name of STYLES) copies[at]!.setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = element.getBoundingClientRect();
  for (const [name, value] of [
    ["xmlns", "http://www.w3.org/2000/svg"],
    ["width", String(Math.ceil(width))],
    ["height", String(Math.ceil(height))],
    ["font-family", "sans-serif"],
  ] as const)
    if (name !== "font-family" || !copy.hasAttribute(name)) copy.setAttribute(name, value);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of [
    ["width", "100%"],
    ["height", "100%"],
    ["fill", paper()],
  ] as const)
    ground.setAttribute(name, value);
  copy.prepend(ground);
  return copy;
}

/** Saves a picture of the page that is SVG already. */
export function saveElement(element: SVGSVGElement, title: string, how: "svg" | "png"): void {
  const { width, height } = element.getBoundingClientRect();
  saveSvgText(new XMLSerializer().serializeToString(withStyles(element)), title, how, width, height);
}
