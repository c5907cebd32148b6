// Asks a server for 2,000 IDs by a Redis client for Node: node.js PORT LIBRARY OPTIONS COMMAND.
// Prints what came as JSON: how many distinct IDs, of which type, or the error.
const [port, library, options, command] = process.argv.slice(2);
const module_ = require(library), calls = 2000, atOnce = 50;

const connect = async () => {
  const o = JSON.parse(options);
  if (library.startsWith("io")) return new module_({ port, ...o });
  if (library === "glide") {
    module_.Logger.init("off"); // its lines would be among what is printed
    return module_.GlideClient.createClient({ addresses: [{ host: "127.0.0.1", port: +port }], ...o });
  }
  const client = module_.createClient({ url: `redis://127.0.0.1:${port}`, ...o });
  client.on("error", () => {});
  await client.connect();
  return client;
};
const ways = {
  INCR: (c) => c.incr("snowflake"),
  LPOP: (c) => (c.lPop ? c.lPop("snowflake") : c.lpop("snowflake")),
  MULTI: async (c) => {
    if (library === "glide") return (await c.exec(new module_.Batch(true).incr("snowflake"), true))[0];
    return [(await c.multi().incr("snowflake").exec())[0]].flat().pop(); // ioredis: [error, ID]
  },
};

(async () => {
  const seen = new Set(), said = {};
  try {
    const c = await connect();
    for (let i = 0; i < calls; i += atOnce)
      for (const id of await Promise.all(Array.from({ length: atOnce }, () => ways[command](c)))) {
        if (id instanceof Error) throw id;
        said.type = typeof id;
        seen.add(String(id));
      }
  } catch (e) {
    said.error = String(e.replies?.find((r) => r instanceof Error)?.message ?? e.message);
  }
  console.log(JSON.stringify({ ...said, distinct: seen.size }));
  process.exit(0);
})();
