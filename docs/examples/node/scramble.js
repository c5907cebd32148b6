// Computes the ID of an index in a scrambled app (docs/modes.md). The index is a BigInt.
const crypto = require("node:crypto");

function scramble(secret, app, shard, index) {
  const key = crypto.createHmac("sha256", secret).update(`shardid scramble app ${app}`).digest().subarray(0, 16);
  const aes = (block) => crypto.createCipheriv("aes-128-ecb", key, null).setAutoPadding(false).update(block);
  const p = aes(Buffer.from([1, 2, 1, 0, 0, 2, 10, 24, 0, 0, 0, 49, 0, 0, 0, 1]));
  let [left, right] = [index >> 25n, index & 0x1ffffffn];
  for (let i = 0; i < 10; i++) {
    const q = Buffer.from(p);
    const half = Buffer.alloc(4);
    half.writeUInt32BE(Number(i % 2 ? left : right));
    q[0] ^= shard;
    q[11] ^= i;
    for (let j = 0; j < 4; j++) q[12 + j] ^= half[j];
    const y = aes(q).readBigUInt64BE();
    if (i % 2) right = (right + y) & 0x1ffffffn;
    else left = (left + y) & 0xffffffn;
  }
  const image = (left << 25n) | right;
  if (image === 0n) return scramble(secret, app, shard, image);
  return (image << 14n) | BigInt((shard << 8) | app);
}
