/** What views of a profile say without one. */
import { profile, value } from "../state/page";
import { Empty } from "./empty";

export function ProfileEmpty() {
  return profile.value ? (
    <Empty
      why={`${profile.value.name} has no ${value.value.name}: nothing was measured, or nothing of what is chosen.`}
      type={["vitalfew doctor", "vitalfew record -g -- COMMAND"]}
    />
  ) : (
    <Empty
      why="This page was made without a profile."
      type={["vitalfew record -g -o app.vf -- COMMAND", "vitalfew html page.html app.vf"]}
    />
  );
}
