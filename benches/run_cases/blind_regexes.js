// regexes: each line is matched by expressions that are compiled for it; repaired, they are compiled once. blind_regexes.js [repaired]
const repaired = process.argv.length > 2;
const words = Array.from({ length: 40 }, (_, i) => `(w${i}|v${i + 1})[a-f]+${i}`);
const compiled = words.map((word) => new RegExp(word));

function matchesFilter(line, at) {
  // A flag that changes keeps the engine from having it at hand.
  const expression = repaired ? compiled[at] : new RegExp(`${words[at]}|x${line.length}${line.slice(-5)}`);
  return expression.test(line);
}

function countMatches(lines) {
  let count = 0;
  for (const line of lines) for (let at = 0; at < words.length; at++) count += matchesFilter(line, at) ? 1 : 0;
  return count;
}

const lines = Array.from({ length: 2500 }, (_, i) => `line ${i} has w${i % 40}abc${i % 40} and v${i % 7} at ${i * 7919}`);
console.log(countMatches(lines));
