// Three quarters of the CPU time are spent in `three`, one quarter in `one`: measured by the process's own clock, because V8 may run the two with
// code of different compilers. Arguments: seconds of CPU time, and how: `plain` or `recursive`.
const now = () => process.cpuUsage().user / 1e6;

function three(n) {
  let total = 1;
  for (let i = 0; i < n; i++) total = (Math.imul(total, 1664525) + i) | 0;
  return total;
}

function one(n) {
  let total = 1;
  for (let i = 0; i < n; i++) total = (Math.imul(total, 1664525) + i) | 0;
  return total;
}

function descend(depth) {
  return depth === 0 ? three(300000) : descend(depth - 1) + 1;
}

function rounds(end, deep) {
  let sink = 0, spent = [0, 0], before = now();
  while (before < end) {
    // Whichever is behind its share.
    const behind = spent[0] > 3 * spent[1];
    sink ^= behind ? one(300000) : deep ? descend(20) : three(300000);
    const after = now();
    spent[Number(behind)] += after - before;
    before = after;
  }
  return sink;
}

rounds(Number(process.argv[2]), process.argv[3] === 'recursive');
