/** Whether the page is as narrow as on a phone. */
import { signal } from "@preact/signals";

const query = typeof matchMedia === "undefined" ? null : matchMedia("(max-width: 600px)");

export const narrow = signal(query?.matches ?? false);
query?.addEventListener("change", () => (narrow.value = query.matches));
