import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import type { Plugin } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";
import { defineConfig } from "vitest/config";

/** Names the page's one script by its hash, so that nothing in the data can run, whatever it is. */
function contentPolicy(): Plugin {
  return {
    name: "content-policy",
    enforce: "post",
    // After the script has been put into the page.
    writeBundle({ dir }) {
      const file = `${dir}/index.html`;
      const html = readFileSync(file, "utf8");
      const scripts = [...html.matchAll(/<script type="module"[^>]*>([\s\S]*?)<\/script>/g)];
      if (scripts.length !== 1 || scripts[0]![1]!.length < 1000)
        throw new Error(`${scripts.length} scripts in the page`);
      const hash = createHash("sha256").update(scripts[0]![1]!).digest("base64");
      const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'`;
      writeFileSync(
        file,
        html.replace(
          '<meta name="referrer"',
          () => `<meta http-equiv="Content-Security-Policy" content="${policy}"><meta name="referrer"`,
        ),
      );
    },
  };
}

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true }), contentPolicy()],
  build: {
    target: "es2023",
    modulePreload: false,
    rolldownOptions: {
      checks: { circularDependency: true },
      onLog(level, log, report) {
        if (log.code === "CIRCULAR_DEPENDENCY") throw new Error(log.message);
        report(level, log);
      },
    },
  },
  test: {
    projects: [
      { test: { name: "unit", include: ["tests/unit/**/*.test.ts"] } },
      {
        test: {
          name: "browser",
          include: ["tests/browser/**/*.test.ts"],
          testTimeout: 90_000,
          hookTimeout: 240_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
