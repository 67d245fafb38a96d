/** A few commands behind one button. */
export function Menu({ label, items }: { readonly label: string; readonly items: readonly (readonly [string, () => void])[] }) {
  return (
    <details class="menu">
      <summary>{label}</summary>
      <div>{items.map(([name, act]) => <button key={name} type="button" onClick={act}>{name}</button>)}</div>
    </details>
  );
}
