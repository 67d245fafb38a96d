/** Light or dark: the system's choice, until somebody chooses. */
import { computed, signal } from "@preact/signals";

const system = typeof matchMedia === "undefined" ? null : matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system?.matches ?? false);
system?.addEventListener("change", (event) => (systemDark.value = event.matches));

const KEPT = "vitalfew-theme";
const chosen = signal<"light" | "dark" | "">("");

/**
 * Takes up what was chosen before. A browser may refuse to keep anything: then the system's choice
 * holds again.
 */
export function restoreTheme(): void {
  try {
    const kept = localStorage.getItem(KEPT);
    if (kept === "light" || kept === "dark") choose(kept);
  } catch {
    // Nothing was kept.
  }
}

function choose(theme: "light" | "dark"): void {
  chosen.value = theme;
  document.documentElement.dataset["theme"] = theme;
}

export const dark = computed(() => (chosen.value === "" ? systemDark.value : chosen.value === "dark"));

export function switchTheme(): void {
  const theme = dark.value ? "light" : "dark";
  choose(theme);
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    // It holds until the page is left.
  }
}
