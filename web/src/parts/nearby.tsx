/**
 * Longer and shorter sequences beside the current one: those that matter, by zooming, or all by one
 * step.
 */
import { useMemo } from "preact/hooks";
import { percent, shortened } from "../model/format";
import { type Path, type Sequence, type Side, extensionsOf, trimmed, zoomed } from "../model/sequences";
import type { CallTree } from "../model/tree";
import { change } from "../state/route";

/** Maximum number of longer sequences that are listed on each side. */
const LISTED = 20;
const CUTOFFS = [0.5, 0.8, 0.9, 0.95, 0.99];

interface Props {
  readonly tree: CallTree;
  readonly value: number;
  readonly sequence: Sequence;
  readonly zoom: boolean;
  readonly cutoff: number;
  readonly whole: number;
  readonly names: readonly string[];
  readonly fresh: (sequence: Sequence) => number | null;
  readonly onOpen: (path: Path) => void;
}

export function Nearby(props: Props) {
  const { zoom, cutoff } = props;
  return (
    <>
      <div class="bar">
        <label>
          <input
            type="checkbox"
            checked={zoom}
            onChange={(event) => change({ zoom: event.currentTarget.checked ? "" : "off" })}
          />{" "}
          Zoom to what matters
        </label>
        {zoom && (
          <label>
            until it has{" "}
            <select value={String(cutoff)} onChange={(event) => change({ cutoff: event.currentTarget.value })}>
              {[...new Set([...CUTOFFS, cutoff])].sort().map((one) => (
                <option key={one} value={String(one)}>
                  {percent(one)}
                </option>
              ))}
            </select>{" "}
            of the sequence
          </label>
        )}
      </div>
      <div class="two">
        <Sided {...props} side="above" />
        <Sided {...props} side="below" />
      </div>
    </>
  );
}

function Sided({
  tree,
  value,
  sequence,
  zoom,
  cutoff,
  whole,
  names,
  fresh,
  onOpen,
  side,
}: Props & { readonly side: Side }) {
  const { longer, shorter } = useMemo(() => {
    // One step shorter, or by zooming the first with notably more cost.
    const shorter = trimmed(tree, value, sequence, side, zoom ? cutoff : Infinity);
    if (!zoom) return { longer: extensionsOf(tree, value, sequence, side), shorter };
    const { through, extensions } = zoomed(tree, value, sequence, side, cutoff);
    return { longer: through ? [through, ...extensions] : extensions, shorter };
  }, [tree, value, sequence, side, zoom, cutoff]);
  const name = (method: number) => shortened(names[method]!, 60);
  const added = (one: Sequence) => {
    const more = one.path.length - sequence.path.length;
    const steps = side === "above" ? one.path.slice(0, more) : one.path.slice(-more);
    const shown =
      steps.length > 5 ? [...steps.slice(0, 2).map(name), "…", ...steps.slice(-2).map(name)] : steps.map(name);
    return shown.join(" › ");
  };
  const row = (one: Sequence, text: string) => {
    const rest = fresh(one);
    return (
      <li key={one.path.join()}>
        <button type="button" onClick={() => onOpen(one.path)}>
          <b>{percent(one.cum / whole)}</b> {text}
          {rest !== null && <span class="quiet"> ({percent(rest / whole)} new)</span>}
        </button>
      </li>
    );
  };
  return (
    <section aria-label={side === "above" ? "Callers" : "Callees"}>
      <h3>{side === "above" ? "Called by" : "Calls"}</h3>
      <ul class="choices">
        {longer.slice(0, LISTED).map((one) => row(one, added(one)))}
        {shorter && row(shorter, `shorter: ${shorter.path.map(name).join(" › ")}`)}
      </ul>
      {longer.length > LISTED && <p class="quiet">{longer.length - LISTED} more</p>}
      {longer.length === 0 && (
        <p class="quiet">
          {zoom
            ? `None of the ${side === "above" ? "callers" : "callees"}, alone or together, has as much.`
            : side === "above"
              ? "Nobody calls it."
              : "It calls nothing."}
        </p>
      )}
    </section>
  );
}
