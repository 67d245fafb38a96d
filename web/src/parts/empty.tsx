/** A view without data: why, and what to type. */
import { Command } from "./command";

export function Empty({ why, type }: { readonly why: string; readonly type: readonly string[] }) {
  return (
    <section class="empty" data-testid="empty">
      <p>{why}</p>
      {type.map((line) => <Command key={line} text={line} />)}
    </section>
  );
}
