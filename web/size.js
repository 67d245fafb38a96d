// Fails if the page's own code is larger than its budget.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET = 150 * 1024;
const size = gzipSync(readFileSync("dist/index.html")).length;
console.log(`page: ${size} bytes gzipped, of ${BUDGET}`);
if (size > BUDGET) process.exit(1);
