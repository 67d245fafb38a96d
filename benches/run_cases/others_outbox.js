// outbox: events of a shop are put into an outbox, packed, and taken out by a reader that sums them up. outbox.js [repaired]
'use strict';
const zlib = require('zlib');

const repaired = process.argv[2] === 'repaired';
const PER_FRAME = repaired ? 250 : 1;

let seed = 99;
function random(n) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return (seed >>> 8) % n;
}

const GOODS = ['lamp', 'chair', 'table', 'rug', 'shelf', 'vase', 'mirror', 'clock'];
const TOWNS = ['Graz', 'Linz', 'Wien', 'Bregenz', 'Villach'];

function orderEvent(number) {
  const lines = [];
  for (let k = 1 + random(4); k > 0; k--) {
    lines.push({ article: GOODS[random(GOODS.length)], pieces: 1 + random(5), cents: 500 + random(20000) });
  }
  return {
    type: 'order', number, customer: random(5000), town: TOWNS[random(TOWNS.length)],
    at: new Date(1.6e12 + number * 1000).toISOString(), lines,
  };
}

class Outbox {
  constructor() {
    this.frames = [];
    this.pending = [];
  }

  put(event) {
    this.pending.push(JSON.stringify(event));
    if (this.pending.length === PER_FRAME) this.flush();
  }

  flush() {
    if (!this.pending.length) return;
    this.frames.push(this.pack(this.pending.join('\n')));
    this.pending = [];
  }

  pack(text) {
    return zlib.gzipSync(text);
  }

  take() {
    const frames = this.frames;
    this.frames = [];
    return frames;
  }
}

function discount(event) {
  let cents = 0;
  for (const line of event.lines) {
    const tier = line.pieces >= 4 ? 0.9 : line.pieces >= 2 ? 0.95 : 1;
    cents += Math.round(line.pieces * line.cents * tier);
  }
  return cents;
}

class Sales {
  constructor() {
    this.byTown = new Map();
    this.byArticle = new Map();
    this.byDay = new Map();
    this.customers = new Map();
    this.events = 0;
  }

  add(map, key, cents) {
    map.set(key, (map.get(key) || 0) + cents);
  }

  count(event) {
    const cents = discount(event);
    this.add(this.byTown, event.town, cents);
    this.add(this.byDay, event.at.slice(0, 13), cents);
    this.add(this.customers, event.customer, cents);
    for (const line of event.lines) this.add(this.byArticle, line.article, line.pieces * line.cents);
    this.events++;
  }

  best(map) {
    return [...map].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
  }
}

// A reader takes frames as they are on the wire, and what is in them line by line.
function readFrame(frame, sales) {
  for (const line of zlib.gunzipSync(frame).toString().split('\n')) sales.count(JSON.parse(line));
}

const outbox = new Outbox();
const sales = new Sales();
let number = 0;
for (let round = 0; round < 50; round++) {
  for (let k = 0; k < 1000; k++) outbox.put(orderEvent(number++));
  outbox.flush();
  for (const frame of outbox.take()) readFrame(frame, sales);
}
console.log(sales.events, 'events', sales.best(sales.byTown).join(' '), sales.best(sales.byArticle).join(' '),
  sales.best(sales.customers).join(' '));
