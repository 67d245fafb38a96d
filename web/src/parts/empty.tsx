/** A view without data: why, and what to type. */
import { Command } from "./command";

export function Empty({
  title = "Nothing to show yet",
  why,
  type,
}: {
  readonly title?: string | null;
  readonly why: string;
  readonly type: readonly string[];
}) {
  return (
    <section class="empty" data-testid="empty">
      {title !== null && <h1>{title}</h1>}
      <p>{why}</p>
      {type.map((line) => (
        <Command key={line} text={line} />
      ))}
    </section>
  );
}
