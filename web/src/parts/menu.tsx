/** The button that saves a picture, as either kind. */
export function SaveMenu({ save }: { readonly save: (how: "svg" | "png") => void }) {
  return (
    <details class="menu">
      <summary>Save</summary>
      <div>
        {(
          [
            ["As SVG", "svg"],
            ["As PNG", "png"],
          ] as const
        ).map(([name, how]) => (
          <button key={how} type="button" onClick={() => save(how)}>
            {name}
          </button>
        ))}
      </div>
    </details>
  );
}
