// views: the template of a view is read from its file each time; repaired, once. latest_views.js [repaired]
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const repaired = process.argv.length > 2;
const template = path.join(os.tmpdir(), `.views-${process.pid}`);
fs.writeFileSync(template, '<p>{name}</p>'.repeat(200));
let known;

function loadTemplate() {
  if (repaired && known) return known;
  known = fs.readFileSync(template, 'latin1');
  return known;
}

function renderView(number) {
  let sum = number;
  for (let i = 0; i < 1500; i++) sum = (sum * 1103515245 + 12345 + i) % 2147483647;
  return loadTemplate().length + sum % 10;
}

let length = 0;
for (let number = 0; number < 90000; number++) length += renderView(number);
fs.unlinkSync(template);
console.log(length);
