// Writes an ID in each format of docs/modes.md and reads it again.
const DIGITS = {
  dec: "0123456789",
  hex: "0123456789abcdef",
  base36: "0123456789abcdefghijklmnopqrstuvwxyz",
  base62: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
  crockford: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
};
const LAST = 2n ** 63n - 1n;

function encode(number, format, padded = false) { // of a BigInt: 63 bits do not fit a number
  const digits = DIGITS[format], base = BigInt(digits.length);
  let text = "";
  for (let width = padded ? LAST : 0n; number || width || !text; number /= base, width /= base) {
    text = digits[Number(number % base)] + text;
  }
  return text;
}

function decode(text, format) {
  const digits = DIGITS[format], base = BigInt(digits.length);
  const wrong = () => new RangeError("not an ID: " + text);
  let given = text;
  if (format === "crockford") {
    if (/^-|-$/.test(text)) throw wrong();
    given = text.replace(/-/g, "").toUpperCase().replace(/[IL]/g, "1").replace(/O/g, "0");
  } else if (format !== "base62") {
    given = text.toLowerCase();
  }
  let number = 0n;
  for (const c of given) {
    const value = digits.indexOf(c);
    if (value < 0) throw wrong();
    number = number * base + BigInt(value);
  }
  if (!given || number > LAST) throw wrong();
  return number;
}
