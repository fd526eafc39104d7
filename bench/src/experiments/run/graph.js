// Builds a graph of `count` objects and walks it at random, from a seed. Prints a checksum.
'use strict';
const [count, seed] = process.argv.slice(2).map(Number);
let state = seed >>> 0 || 1;
const chance = (below) => {
  state ^= state << 13; state >>>= 0;
  state ^= state >>> 17;
  state ^= state << 5; state >>>= 0;
  return state % below;
};
const nodes = [];
const byName = new Map();
for (let number = 0; number < count; number++) {
  const node = { number, name: `node ${number} of ${count}`, marks: [number, number % 7], edges: [], visits: 0 };
  for (let edge = 0; edge < 3 && number > 0; edge++) {
    // Most edges lead to nodes that were created shortly before.
    const span = edge < 2 ? Math.min(number, 1000) : number;
    node.edges.push(nodes[number - 1 - chance(span)]);
  }
  nodes.push(node);
  if (number % 4 === 0) byName.set(node.name, node);
}
let sum = 0;
for (let round = 0; round < 4; round++) {
  for (let walk = 0; walk < count / 20; walk++) {
    let node = nodes[count - 1 - chance(walk % 10 === 0 ? count : Math.ceil(count / 10))];
    for (let step = 0; step < 12 && node.edges.length > 0; step++) {
      node.visits++;
      sum = (Math.imul(sum, 31) + node.number + node.name.length) >>> 0;
      node = node.edges[chance(node.edges.length)];
    }
  }
  for (const node of nodes) sum = (sum + node.visits * node.marks[1]) >>> 0;
}
for (const [name, node] of byName) sum = (sum + name.length + node.edges.length) >>> 0;
console.log(`${count} nodes, ${byName.size} names, ${sum.toString(16)}`);
