/** Results of one program alone, where a finding led to them. */
import { shortened } from "../model/format";
import { change, route } from "../state/route";

/**
 * Whether the results of a command are shown: all are, where none of that command is there or none
 * is chosen.
 */
export const isShown = (command: string) => !("of" in route.value.params) || route.value.params["of"] === command;

/** What is chosen, with a way back to all; nothing where there is nothing else. */
export function OnlyOf({ commands }: { readonly commands: readonly string[] }) {
  const only = route.value.params["of"];
  if (only === undefined || commands.every((one) => one === only)) return null;
  return (
    <p>
      <button type="button" class="chip" onClick={() => change({ of: "" })} aria-label="Show all programs">
        Only {shortened(only, 60)} ×
      </button>
    </p>
  );
}
