/** The keys, over everything. */
import { useEffect, useRef } from "preact/hooks";

export const KEYS: readonly (readonly [string, string])[] = [
  ["?", "these keys"],
  ["/", "search over everything"],
  ["1 … 6", "a tab, by its place"],
  ["t", "light or dark"],
  ["Esc", "close; in a flame graph, one caller up"],
  ["← → ↑ ↓", "in a flame graph: another frame"],
  ["Enter", "in a flame graph: zoom to the frame"],
  ["+ − a d", "in a flame graph: closer, farther, left, right; so do dragging, and the wheel with Ctrl or Shift"],
  ["Shift ← →", "in the timeline: select a part of the time"],
  ["Alt ←", "what was shown before"],
];

export function Help({ onClose }: { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={onClose}>
      <h2 id="help-title">Keys</h2>
      <dl>
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current?.close()}>
        Close
      </button>
    </dialog>
  );
}
