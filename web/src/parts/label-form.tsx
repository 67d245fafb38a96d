/** Gives the current sequence a label: a new one, or one that other sequences have. */
import { useState } from "preact/hooks";
import { shortened } from "../model/format";

interface Props {
  readonly names: readonly string[];
  /** Labels that the sequence has. */
  readonly own: readonly string[];
  readonly suggestion: string;
  readonly onLabel: (name: string) => void;
}

export function LabelForm({ names, own, suggestion, onLabel }: Props) {
  const [name, setName] = useState("");
  const chosen = name.trim() === "" ? suggestion : name.trim();
  const submit = (event: Event) => {
    event.preventDefault();
    if (!own.includes(chosen)) onLabel(chosen);
    setName("");
  };
  return (
    <form class="bar" onSubmit={submit}>
      <label>
        Label{" "}
        <input
          type="text"
          list="label-names"
          maxLength={200}
          value={name}
          placeholder={suggestion}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <datalist id="label-names">
        {names.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <button type="submit" disabled={own.includes(chosen)}>
        Label this sequence
      </button>
      {own.length > 0 && <span>Labelled {own.map((one) => shortened(one, 50)).join(", ")}.</span>}
    </form>
  );
}
