/** Light or dark: the system's choice, until somebody chooses. */
import { computed, signal } from "@preact/signals";

const system = typeof matchMedia === "undefined" ? null : matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system?.matches ?? false);
system?.addEventListener("change", (event) => (systemDark.value = event.matches));

const chosen = signal<"light" | "dark" | "">("");
export const dark = computed(() => (chosen.value === "" ? systemDark.value : chosen.value === "dark"));

export function switchTheme(): void {
  chosen.value = dark.value ? "light" : "dark";
  document.documentElement.dataset["theme"] = chosen.value;
}
