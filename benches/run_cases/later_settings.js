// settings: each request gets a copy of all settings of its own, by way of text; repaired, it reads them. later_settings.js [repaired]
const repaired = process.argv.length > 2;
const settings = { limits: {}, names: [] };
for (let i = 0; i < 300; i++) {
  settings.limits[`limit${i}`] = { least: i, most: i * 3, unit: `unit ${i % 7}` };
  settings.names.push(`name ${i}`);
}

function copySettings() {
  return repaired ? settings : JSON.parse(JSON.stringify(settings));
}

function answerRequest(number) {
  const own = copySettings();
  let sum = 0;
  for (let i = 0; i < 300; i++) sum += own.limits[`limit${(i * number) % 300}`].most % 17;
  return sum;
}

let sum = 0;
for (let number = 0; number < 14000; number++) sum += answerRequest(number);
console.log(sum);
