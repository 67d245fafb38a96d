import { render } from "preact";
import { App } from "./app";
import { restoreTheme } from "./parts/theme";
import { loadData } from "./state/page";
import { followHistory } from "./state/route";
import "./style.css";

followHistory();
restoreTheme();
const root = document.getElementById("app")!;
root.textContent = "";
render(<App />, root);
void loadData();
