// An Express server with three routes, for load.py.
const express = require('express');
const app = express();
const data = Array.from({ length: 200 }, (_, i) => ({ name: `item ${i}`, price: i * 1.25, tags: ['a', 'b', `t${i % 7}`] }));
function renderPage(items) {
  let out = '';
  for (const x of items) out += `<li>${x.name.toUpperCase()} ${x.price.toFixed(2)}</li>`;
  return `<ul>${out}</ul>`;
}
function sortedCopy(items) {
  return JSON.parse(JSON.stringify(items)).sort((a, b) => b.price - a.price);
}
function matchNames(items) {
  let n = 0;
  for (const x of items) for (const t of x.tags) if (/^t[0-6]$/.test(t) || x.name.split(' ').length > 2) n++;
  return n;
}
app.get('/page', (request, response) => response.send(renderPage(data)));
app.get('/json', (request, response) => response.json(sortedCopy(data)));
app.get('/count', (request, response) => response.send(String(matchNames(data))));
app.listen(5112);
process.on('SIGTERM', () => process.exit(0));
