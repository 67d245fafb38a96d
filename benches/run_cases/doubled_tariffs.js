// tariffs: each price of a page gets a formatter of its own; repaired, all of a country share one; doubled, two prices share one.
// doubled_tariffs.js [repaired | doubled]
const crypto = require('node:crypto');
const form = process.argv[2] ?? 'slow';
const PAGES = 420;
const TARIFFS = 40;

const countries = [
  { locale: 'de-DE', currency: 'EUR', tax: 0.19 },
  { locale: 'en-GB', currency: 'GBP', tax: 0.2 },
  { locale: 'fr-CH', currency: 'CHF', tax: 0.081 },
  { locale: 'ja-JP', currency: 'JPY', tax: 0.1 },
];
const shared = new Map();

function makeFormatter(country) {
  return new Intl.NumberFormat(country.locale, { style: 'currency', currency: country.currency });
}

function sharedFormatter(country) {
  if (!shared.has(country.locale)) shared.set(country.locale, makeFormatter(country));
  return shared.get(country.locale);
}

// A formatter that is used for some prices before the next one is made.
function formatterFor(uses) {
  let made;
  let used = 0;
  return (country) => {
    if (used++ % uses === 0) made = makeFormatter(country);
    return made;
  };
}

function readTariffs(number) {
  const tariffs = [];
  for (let i = 0; i < TARIFFS; i++) {
    const seed = (number * 7919 + i * 104729) % 100003;
    tariffs.push({
      name: `Tariff ${String.fromCharCode(65 + (seed % 26))}${i}`,
      minutes: (seed % 50) * 10,
      base: 300 + (seed % 4000),
      perMinute: 1 + (seed % 9),
      countries: seed % 3 ? 'all of the union' : 'this country alone',
    });
  }
  return tariffs;
}

// A tariff's price for those who call for so many minutes a month.
function priceFor(tariff, minutes) {
  let cents = tariff.base;
  for (let minute = tariff.minutes; minute < minutes; minute++) cents += minute % 60 < 30 ? tariff.perMinute : tariff.perMinute / 2;
  return Math.round(cents);
}

// Those that nobody should take, as another one is cheaper for all callers, come last.
function rankTariffs(tariffs) {
  const callers = [30, 100, 250, 500, 900];
  const ranked = tariffs.map((tariff) => ({ tariff, prices: callers.map((minutes) => priceFor(tariff, minutes)), worse: 0 }));
  for (const one of ranked) for (const other of ranked) if (other.prices.every((price, at) => price < one.prices[at])) one.worse++;
  return ranked.sort((one, other) => one.worse - other.worse || one.prices[2] - other.prices[2]);
}

// The minutes from which on another tariff is cheaper than the first one.
function findTurn(ranked) {
  const [first, ...others] = ranked;
  for (let minutes = 0; minutes < 1000; minutes += 50) {
    const price = priceFor(first.tariff, minutes);
    if (others.slice(0, 5).some((other) => priceFor(other.tariff, minutes) < price)) return minutes;
  }
  return 0;
}

function escapeText(text) {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

function renderPage(ranked, country, formatter) {
  const rows = ranked.map(({ tariff, prices, worse }) => {
    const net = prices[2] / 100;
    const price = formatter(country).format(net * (1 + country.tax));
    return `<tr class="${worse ? 'worse' : 'good'}"><td>${escapeText(tariff.name)}</td><td>${escapeText(tariff.countries)}</td><td>${price}</td></tr>`;
  });
  return `<table lang="${country.locale}" data-turn="${findTurn(ranked)}">\n${rows.join('\n')}\n</table>`;
}

function tagOf(page) {
  let tag = crypto.createHash('sha256').update(page).digest();
  for (let i = 0; i < 100; i++) tag = crypto.createHash('sha256').update(tag).digest();
  return tag.toString('hex');
}

function main() {
  const formatter = form === 'repaired' ? sharedFormatter : formatterFor(form === 'doubled' ? 2 : 1);
  let bytes = 0;
  const tags = new Set();
  for (let number = 0; number < PAGES; number++) {
    const page = renderPage(rankTariffs(readTariffs(number)), countries[number % countries.length], formatter);
    bytes += Buffer.byteLength(page);
    tags.add(tagOf(page).slice(0, 6));
  }
  console.log(`${bytes} bytes, ${tags.size} tags`);
}

main();
