// Appends an order for each buyer to orders.jsonl, with IDs of shardid. Node 18, no packages:
//
//   SHARDID_URLS=http://127.0.0.1:8080 node orders.mjs alice bob
//
// IDs have up to 63 bits, numbers of JavaScript 53: an ID stays a string, or a BigInt where it
// is compared or goes into a BIGINT column.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const urls = (process.env.SHARDID_URLS ?? "http://127.0.0.1:8080").split(",");
const headers = process.env.SHARDID_TOKEN ? { Authorization: `Bearer ${process.env.SHARDID_TOKEN}` } : {};

// take gives count IDs. What was asked for and never came is a gap, so trying again is safe.
async function take(path, count, tries = 6) {
  let error;
  for (let attempt = 0; attempt < tries; attempt++) {
    let wait = 100 * 2 ** attempt;
    try {
      const url = `${urls[attempt % urls.length]}/v1/${path}/ids?count=${count}`;
      const answer = await fetch(url, { method: "POST", headers, signal: AbortSignal.timeout(5000) });
      const body = await answer.text();
      if (answer.ok) return JSON.parse(body).ids.map(BigInt);
      error = new Error(body);
      if (![429, 502, 503, 504].includes(answer.status)) error.final = true; // asking again would not help
      wait = Math.max(wait, 1000 * Number(answer.headers.get("Retry-After")));
    } catch (e) {
      error = e; // refused, reset, timed out
    }
    if (error.final) break;
    await sleep(wait * (1 + Math.random() / 2));
  }
  throw error;
}

const buyers = process.argv.slice(2);
const ids = await take("segment/orders", buyers.length);
ids.forEach((id, i) => {
  appendFileSync("orders.jsonl", JSON.stringify({ id: id.toString(), buyer: buyers[i] }) + "\n");
  console.log(`${id} ${buyers[i]}`);
});
