/** Pictures as files. */

function offer(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (title: string, ending: string) => `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60)}.${ending}`;

export function saveCanvas(canvas: HTMLCanvasElement, title: string): void {
  canvas.toBlob((blob) => blob && offer(fileName(title, "png"), blob));
}

/** Text as a file. */
export function saveText(title: string, ending: string, text: string): void {
  offer(fileName(title, ending), new Blob([text], { type: "text/plain" }));
}

const escaped = (text: string) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`).replace(/[\p{Cc}\p{Cf}]/gu, "\ufffd");

/** Boxes with their names as an SVG document. */
export function svgOf(width: number, height: number, boxes: (emit: (x: number, y: number, width: number, height: number, colour: string, name: string) => void) => void): string {
  const parts: string[] = [];
  boxes((x, y, w, h, colour, name) => {
    const letters = Math.floor((w - 8) / 6.6);
    const label = letters > 2 ? `<text x="${(x + 4).toFixed(1)}" y="${y + h - 5}">${escaped(name.slice(0, letters))}</text>` : "";
    parts.push(`<g><title>${escaped(name.slice(0, 2000))}</title><rect x="${x.toFixed(1)}" y="${y}" width="${w.toFixed(1)}" height="${h}" fill="${colour}"/>${label}</g>`);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="12">${parts.join("\n")}</svg>`;
}

export function saveSvg(title: string, width: number, height: number, boxes: Parameters<typeof svgOf>[2]): void {
  offer(fileName(title, "svg"), new Blob([svgOf(width, height, boxes)], { type: "image/svg+xml" }));
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
  for (const [name, value] of [["xmlns", "http://www.w3.org/2000/svg"], ["width", String(Math.ceil(width))], ["height", String(Math.ceil(height))], ["font-family", "sans-serif"]] as const) if (name !== "font-family" || !copy.hasAttribute(name)) copy.setAttribute(name, value);
  return copy;
}

/** Saves a picture of the page that is SVG already. */
export function saveElement(element: SVGSVGElement, title: string, how: "svg" | "png"): void {
  const text = new XMLSerializer().serializeToString(withStyles(element));
  const svg = new Blob([text], { type: "image/svg+xml" });
  if (how === "svg") return offer(fileName(title, "svg"), svg);
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * element.getBoundingClientRect().width;
    canvas.height = 2 * element.getBoundingClientRect().height;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    saveCanvas(canvas, title);
  };
  image.src = URL.createObjectURL(svg);
}
