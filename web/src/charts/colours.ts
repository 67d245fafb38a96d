/**
 * Colours of boxes: by image, or by change. Told apart by lightness, too, and never the only sign:
 * names and tables say the same.
 */

/**
 * Hues that people with any colour vision tell apart (after Okabe and Ito), as hue and saturation.
 */
const HUES: readonly (readonly [number, number])[] = [
  [28, 78],
  [205, 62],
  [160, 48],
  [46, 82],
  [265, 38],
  [340, 48],
  [185, 44],
  [90, 38],
];

export function imageColour(image: number, name: string, dark: boolean): string {
  const [hue, saturation] = HUES[image % HUES.length]!;
  let hash = 0;
  for (let at = 0; at < Math.min(name.length, 64); at++) hash = (hash * 31 + name.charCodeAt(at)) | 0;
  const shade = (Math.abs(hash) % 9) - 4;
  return dark ? `hsl(${hue} ${saturation * 0.62}% ${34 + shade}%)` : `hsl(${hue} ${saturation}% ${77 + shade}%)`;
}

/** From blue (less) over grey to orange (more); `change` from -1 to 1. */
export function changeColour(change: number, dark: boolean): string {
  const size = Math.min(1, Math.abs(change));
  const hue = change < 0 ? 210 : 26;
  return dark ? `hsl(${hue} ${70 * size}% ${30 + 12 * size}%)` : `hsl(${hue} ${85 * size}% ${90 - 24 * size}%)`;
}

export const TEXT = { light: "#1d1b16", dark: "#f4f1ea" };
export const PAPER = { light: "#ffffff", dark: "#22211e" };
