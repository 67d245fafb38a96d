// lookup: an order's customer is sought in all of them; repaired, in a map. unseen_lookup.js [repaired]
const repaired = process.argv.length > 2;
const customers = Array.from({ length: 20000 }, (_, i) => ({ id: (i * 7919) % 20000, name: `customer ${i}` }));
const byId = new Map(customers.map((each) => [each.id, each]));

function customerOf(order) {
  if (repaired) return byId.get(order.customer);
  for (const each of customers) if (each.id === order.customer) return each;
  return undefined;
}

function printOrder(order) {
  const lines = order.items.map((item) => `${item.name}: ${(item.price * item.count).toFixed(2)}`);
  return `${customerOf(order).name}\n${lines.join("\n")}`;
}

let length = 0;
for (let i = 0; i < 90000; i++) {
  const items = Array.from({ length: 12 }, (_, at) => ({ name: `item ${at}`, price: at + i / 100, count: at }));
  length += printOrder({ customer: (i * 31) % 20000, items }).length;
}
console.log(length);
