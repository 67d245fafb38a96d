// catalog: an index is copied for each article that is put into it; repaired, it is changed; doubled, a copy takes two articles.
// doubled_catalog.js [repaired | doubled]
const form = process.argv[2] ?? 'slow';
const SHOPS = 24;
const ARTICLES = 600;

const colours = ['red', 'green', 'blue', 'black', 'white', 'yellow'];
const things = ['chair', 'table', 'lamp', 'shelf', 'sofa', 'carpet', 'mirror'];

function writeSheet(shop) {
  const lines = ['number;title;price;stock;tags'];
  for (let i = 0; i < ARTICLES; i++) {
    const number = `s${shop}-a${(i * 7919) % 100003}`;
    const title = `A ${colours[(i * 31) % 6]} ${things[(i * 17 + shop) % 7]} of the year ${1950 + (i % 70)}`;
    const tags = [colours[i % 6], things[(i + shop) % 7], i % 5 ? 'new' : 'used'].join(',');
    lines.push(`${number};${title};${((i * 37) % 900) + 9.99};${(i * 13) % 50};${tags}`);
  }
  return lines.join('\n');
}

function parseSheet(text) {
  const [head, ...lines] = text.split('\n');
  const names = head.split(';');
  return lines.map((line) => {
    const article = {};
    line.split(';').forEach((field, at) => (article[names[at]] = field));
    return { ...article, price: Number(article.price), stock: Number(article.stock), tags: article.tags.split(',') };
  });
}

function checkArticle(article) {
  if (!/^s\d+-a\d+$/.test(article.number)) throw new Error(`no number: ${article.number}`);
  if (!(article.price > 0) || !Number.isInteger(article.stock)) throw new Error(`no price or stock: ${article.number}`);
  return article;
}

// The index with more articles. Whoever has the old one may still read it.
function withArticles(index, articles) {
  if (articles.length === 1) return { ...index, [articles[0].number]: articles[0] };
  return { ...index, [articles[0].number]: articles[0], [articles[1].number]: articles[1] };
}

function indexArticles(articles) {
  if (form === 'repaired') return Object.fromEntries(articles.map((article) => [article.number, article]));
  const atOnce = form === 'doubled' ? 2 : 1;
  let index = {};
  for (let at = 0; at < articles.length; at += atOnce) index = withArticles(index, articles.slice(at, at + atOnce));
  return index;
}

function wordsOf(title) {
  return title
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word.length > 2);
}

// Which articles a word is in.
function invertTitles(articles) {
  const inverted = new Map();
  for (const article of articles)
    for (const word of wordsOf(article.title)) {
      if (!inverted.has(word)) inverted.set(word, new Set());
      inverted.get(word).add(article.number);
    }
  return inverted;
}

function distance(one, other) {
  let above = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++)
      row[j] = Math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1));
    above = row;
  }
  return above[other.length];
}

// Titles that differ from the one before by little.
function findTwins(articles) {
  const sorted = [...articles].sort((one, other) => (one.title < other.title ? -1 : 1));
  return sorted.filter((article, at) => at > 0 && distance(article.title, sorted[at - 1].title) < 3).length;
}

function search(index, inverted, question) {
  const found = question.map((word) => inverted.get(word) ?? new Set());
  const numbers = [...found[0]].filter((number) => found.every((set) => set.has(number)));
  return numbers.map((number) => index[number]).sort((one, other) => one.price - other.price);
}

let found = 0;
let twins = 0;
for (let shop = 0; shop < SHOPS; shop++) {
  const articles = parseSheet(writeSheet(shop)).map(checkArticle);
  const index = indexArticles(articles);
  const inverted = invertTitles(articles);
  twins += findTwins(articles);
  for (const colour of colours) for (const thing of things) found += search(index, inverted, [colour, thing]).length;
}
console.log(`${found} found, ${twins} twins`);
