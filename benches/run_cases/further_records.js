// records: each record is synced to the disk; repaired, all of them at the end. further_records.js [repaired]
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const repaired = process.argv.length > 2;
const name = path.join(os.tmpdir(), `.records-${process.pid}`);
const file = fs.openSync(name, 'w');
fs.unlinkSync(name);

function appendRecord(record) {
  fs.writeSync(file, record);
  if (!repaired) fs.fsyncSync(file);
}

function makeRecord(number) {
  let sum = number;
  for (let i = 0; i < 8000; i++) sum = (sum * 1103515245 + 12345 + i) % 2147483647;
  return `${number} ${sum} ${os.EOL}`.repeat(40);
}

for (let number = 0; number < 600; number++) appendRecord(makeRecord(number));
fs.fsyncSync(file);
