// Asks a server for IDs by fetch or axios, with their defaults, in every way that
// docs/api.md shows. Prints, by name of the way, how many distinct IDs 2,000 calls gave: all, but where the page
// warns that they are rounded.
const [url, client] = process.argv.slice(2);
const axios = client === "axios" && require("axios");
const calls = 2000, atOnce = 20;

const json = async (path) => (axios ? (await axios.get(url + path)).data : (await fetch(url + path)).json());
const text = async (path) =>
  axios ? (await axios.get(url + path, { responseType: "text" })).data : (await fetch(url + path)).text();
const post = async (path, data) =>
  axios
    ? (await axios.post(url + path, data)).data
    : (await fetch(url + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) })).json();

const ways = {
  "/v1/queue": async () => (await json("/v1/queue/1/ids?gatePass=alice")).ids[0],
  "/v1/segment": async () => (await json("/v1/segment/leaf-segment-test/ids")).ids[0],
  "/v1/snowflake": async () => (await json("/v1/snowflake/ids")).ids[0],
  "/v1/uid": async () => (await json("/v1/uid/ids")).ids[0],
  "/v1/uid, JSON": async () => (await post("/v1/uid/ids", { count: 1 })).ids[0],
  "/get, idStr": async () => (await json("/get?appId=1&gatePass=alice")).idStr,
  "/get, stringify": async () => (await json("/get?appId=1&gatePass=alice&count=1&stringify=true")).ids[0],
  "/get, text": async () => text("/get?appId=1&gatePass=alice&format=text"),
  "/api/segment, text": async () => text("/api/segment/get/leaf-segment-test"),
  "/api/snowflake, text": async () => text("/api/snowflake/get/test"),
  "/api/uid, text": async () => text("/api/uid/get"),
  "/tinyid, text": async () => text("/tinyid/id/nextIdSimple?bizType=leaf-segment-test"),
  rounded: async () => String(await json("/api/uid/get")), // what the page warns of
};

(async () => {
  const distinct = {};
  for (const [name, ask] of Object.entries(ways)) {
    const seen = new Set();
    for (let i = 0; i < calls; i += atOnce)
      for (const id of await Promise.all(Array.from({ length: atOnce }, ask))) {
        if (typeof id !== "string" || !/^\d+\s*$/.test(id)) throw new Error(`${name}: ${typeof id} ${id}`);
        seen.add(id);
      }
    distinct[name] = seen.size;
    if (name === "rounded" ? seen.size > calls / 2 : seen.size !== calls) throw new Error(`${name}: ${seen.size} distinct IDs`);
  }
  console.log(JSON.stringify(distinct));
})();
