// dedupe: articles of news agencies are taken once, though many agencies send them. dedupe.js [repaired]
'use strict';

const repaired = process.argv[2] === 'repaired';

let seed = 4711;
function random(n) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return (seed >>> 8) % n;
}

const WORDS = ('minister talks price oil rain team wins late goal court rules on case new law market falls after bank '
  + 'report says city plans bridge over river school opens doors to young people').split(' ');

function article(number) {
  const keep = seed;
  seed = number * 7919 + 13;
  const words = [];
  for (let k = 60 + random(80); k > 0; k--) {
    let word = WORDS[random(WORDS.length)];
    if (random(12) === 0) word = word[0].toUpperCase() + word.slice(1);
    words.push(word + (random(15) === 0 ? ',' : ''));
  }
  seed = keep;
  return { agency: random(6), headline: words.slice(0, 6).join(' '), body: words.join(' ') };
}

function normalize(text) {
  return text.toLowerCase().replace(/[^a-z ]+/g, '').replace(/\s+/g, ' ').trim();
}

const PRIME = 1099511628211n;
const MASK = 0xffffffffffffffffn;

// FNV-1a of 64 bits, in hexadecimal digits.
function fingerprint(text) {
  if (repaired) return fingerprint32(text);
  let hash = 14695981039346656037n;
  for (let i = 0; i < text.length; i++) {
    hash = ((hash ^ BigInt(text.charCodeAt(i))) * PRIME) & MASK;
  }
  return hash.toString(16).padStart(16, '0');
}

// The same in two halves: the prime is 2^40 + 0x1b3.
function fingerprint32(text) {
  let high = 0xcbf29ce4, low = 0x84222325;
  for (let i = 0; i < text.length; i++) {
    low = (low ^ text.charCodeAt(i)) >>> 0;
    const product = low * 0x1b3;
    const carry = Math.floor(product / 4294967296);
    high = (Math.imul(high, 0x1b3) + carry + (low << 8)) >>> 0;
    low = product >>> 0;
  }
  return high.toString(16).padStart(8, '0') + low.toString(16).padStart(8, '0');
}

class Archive {
  constructor() {
    this.known = new Map();
    this.index = new Map();
    this.duplicates = 0;
  }

  take(item) {
    const text = normalize(item.body);
    const key = fingerprint(text);
    const before = this.known.get(key);
    if (before) {
      before.agencies.add(item.agency);
      this.duplicates++;
      return;
    }
    this.known.set(key, { headline: item.headline, agencies: new Set([item.agency]) });
    this.addToIndex(text, this.known.size);
  }

  addToIndex(text, number) {
    const counts = new Map();
    for (const word of text.split(' ')) counts.set(word, (counts.get(word) || 0) + 1);
    for (const [word, count] of counts) {
      let list = this.index.get(word);
      if (!list) this.index.set(word, list = []);
      list.push(number * 16 + Math.min(count, 15));
    }
  }

  sharedByAll() {
    let n = 0;
    for (const entry of this.known.values()) if (entry.agencies.size === 6) n++;
    return n;
  }
}

function control(archive) {
  let sum = 0;
  for (const key of archive.known.keys()) sum = (Math.imul(sum, 31) + parseInt(key.slice(8), 16)) >>> 0;
  return sum.toString(16);
}

const archive = new Archive();
for (let k = 0; k < 36000; k++) archive.take(article(random(12000)));
console.log(archive.known.size, 'articles', archive.duplicates, 'duplicates', archive.sharedByAll(), 'in all',
  control(archive));
