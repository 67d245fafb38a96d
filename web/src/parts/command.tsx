/** A command to type, with a button that copies it. */
import { useState } from "preact/hooks";
import { printable } from "../model/format";

export function Command({ text }: { readonly text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () =>
    void navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  return (
    <span class="command">
      <code>{printable(text)}</code>
      <button type="button" onClick={copy} aria-label={`Copy ${printable(text).slice(0, 80)}`}>
        {copied ? "Copied" : "Copy"}
      </button>
    </span>
  );
}
