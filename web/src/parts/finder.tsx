/** Search over everything, over everything. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { shortened } from "../model/format";
import { findAll } from "../model/finder";
import { costs, page, profile } from "../state/page";
import { go } from "../state/route";

export function Finder({
  views,
  onClose,
}: {
  readonly views: readonly (readonly [string, string])[];
  readonly onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const hits = useMemo(() => findAll(page.value!, profile.value, costs.value?.total ?? null, views, text), [text]);
  useEffect(() => dialog.current?.showModal(), []);
  const open = (index: number) => {
    const hit = hits[index];
    if (!hit) return;
    dialog.current?.close();
    go(hit.view, hit.params);
  };
  const key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Enter") open(at);
    else if (step !== 0) setAt(Math.max(0, Math.min(hits.length - 1, at + step)));
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="finder" aria-label="Search over everything" onClose={onClose}>
      <input
        type="search"
        aria-controls="hits"
        aria-activedescendant={hits.length > 0 ? `hit-${at}` : undefined}
        aria-label="Search views, findings, procedures, lines and threads"
        placeholder="procedure, line, thread, finding or view"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={key}
      />
      <ul id="hits" role="listbox" aria-label="Found">
        {hits.map((hit, index) => (
          <li key={index} id={`hit-${index}`} role="option" aria-selected={index === at} onClick={() => open(index)}>
            <span class="quiet">{hit.kind}</span> {shortened(hit.text, 90)}
          </li>
        ))}
      </ul>
      {hits.length === 0 && <p>Nothing has “{shortened(text, 60)}” in its name.</p>}
    </dialog>
  );
}
