// How numbers and times are written. Numbers above 2^53 stay the strings that the server
// sent; digits() alone takes these.

import { text } from './text.js';

const whole = new Intl.NumberFormat(text.locale, { maximumFractionDigits: 0 });
const toTenth = new Intl.NumberFormat(text.locale, { maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat(text.locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat(text.locale, { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat(text.locale, { notation: 'compact' });

/** 12,345; a dash for what is not known. */
export function count(n) {
  return Number.isFinite(n) ? whole.format(n) : text.unknown;
}

/** The same of a decimal string, however long: 9,007,199,254,740,993. */
export function digits(decimal) {
  return decimal && whole.format(BigInt(decimal));
}

/** A few characters: 812, 1.2K, 34K, 5.6M, 0.05; in Chinese 1.2万. */
export function short(n) {
  return Number.isFinite(n) ? compact.format(n) : text.unknown;
}

/** A rate: 0.5 /s, 1,234 /s. */
export function rate(perSecond) {
  if (!Number.isFinite(perSecond)) return text.unknown;
  return text.rate((perSecond > 0 && perSecond < 9.95 ? tenths : whole).format(perSecond));
}

/** A share of 1 in per cent. Neither a little nor all but a little is rounded away. */
export function percent(share) {
  if (!Number.isFinite(share)) return text.unknown;
  if (share > 0 && share < 0.01) return text.percent('< 1');
  if (share > 0.9999 && share < 1) return text.percent('> 99.99');
  return text.percent(share > 0.99 ? hundredths.format(Math.floor(share * 10000) / 100) : Math.floor(share * 100));
}

const units = [
  ['year', 365.25 * 86400],
  ['day', 86400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

const one = (n, unit) => `${n}\u00a0${text.units[unit]}`;

/** A duration in its two largest units, or in fewer: 3 d 4 h. */
export function duration(seconds, most = 2) {
  if (!Number.isFinite(seconds)) return text.unknown;
  if (seconds < 0) return `-${duration(-seconds, most)}`;
  if (seconds < 10) return one(toTenth.format(seconds), 'second');
  const first = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[first];
  const major = Math.floor(seconds / size);
  const next = units[first + 1];
  const minor = next ? Math.floor((seconds - major * size) / next[1]) : 0;
  return minor > 0 && major < 100 && most > 1 ? `${one(major, name)} ${one(minor, next[0])}` : one(whole.format(major), name);
}

/** How long ago an instant was by the server's clock; '' without one. */
export function age(time, now, most = 2) {
  const at = Date.parse(time);
  return Number.isNaN(at) ? '' : duration(Math.max(0, Math.round((now - at) / 1000)), most);
}

/** The same in the largest unit only: 3 d. */
export function about(time, now) {
  return age(time, now, 1);
}

/** An instant, as all times in UTC: 2026-11-20 08:18:00 UTC, which is how logs have it; a dash without one. */
export function instant(time) {
  const at = new Date(time);
  if (!time || Number.isNaN(at.getTime())) return text.unknown;
  return `${at.toISOString().slice(0, 10)} ${clock(at)} UTC`;
}

/** The time of day of a Date in UTC: 08:18:00. */
export function clock(at) {
  return at.toISOString().slice(11, 19);
}
