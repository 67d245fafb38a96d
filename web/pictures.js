/**
 * pictures.js PAGE DIRECTORY: what a reader of a page sees first (page.png), and after a click on
 * the first finding's place (click.png).
 */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [page, directory] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
const view = await browser.newPage({ viewport: { width: 1280, height: 900 } });
await view.goto(pathToFileURL(resolve(page)).href);
await view.waitForSelector("main");
await view.waitForTimeout(500);
await view.screenshot({ path: join(directory, "page.png") });
// Waiting for a CPU leads to no source.
const place = view.locator(".claim .source-line a").first();
if (await place.count()) {
  await place.click();
  await view.waitForTimeout(1000);
}
await view.screenshot({ path: join(directory, "click.png") });
await browser.close();
