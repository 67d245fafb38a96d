// thumbs: a command is started for the size of each picture; repaired, once for all. newest_thumbs.js [repaired]
const { execFileSync } = require('node:child_process');
const repaired = process.argv.length > 2;
const pictures = Array.from({ length: 220 }, (_, i) => `picture ${i}`);

function sizesOf(names) {
  return execFileSync('/usr/bin/printf', ['%s\\n', ...names], { encoding: 'utf8' }).trim().split('\n').map((line) => line.length);
}

function makeThumbs(names) {
  if (repaired) return sizesOf(names);
  return names.map((name) => sizesOf([name])[0]);
}

function scale(size) {
  let sum = size;
  for (let i = 0; i < 200000; i++) sum = (sum * 31 + i) % 65521;
  return sum;
}

console.log(makeThumbs(pictures).reduce((sum, size) => sum + scale(size), 0));
