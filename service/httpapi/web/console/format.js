// How numbers and times are written. Numbers above 2^53 stay the strings that the server
// sent; digits() alone takes these.

import { text } from './en.js';

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** 12,345; a dash for what is not known. */
export function count(n) {
  return Number.isFinite(n) ? whole.format(n) : text.unknown;
}

/** The same of a decimal string, however long: 9,007,199,254,740,993. */
export function digits(decimal) {
  return decimal.replace(/\B(?=(\d{3})+$)/g, ',');
}

/** The first text of a pattern on today's date in a time zone; '' when the browser does not know the zone. */
export function firstNumber(pattern, zone) {
  let date;
  try {
    date = new Intl.DateTimeFormat('en-CA', { timeZone: zone || 'UTC', year: 'numeric', month: '2-digit', day: '2-digit' }).format(new Date());
  } catch {
    return '';
  }
  const [yyyy, MM, dd] = date.split('-');
  const fields = { yyyyMMdd: yyyy + MM + dd, yyyyMM: yyyy + MM, yyyy, MM, dd };
  return pattern.replace(/\{(?:seq:(\d{1,2})|(\w+))\}/g, (whole, width, field) => (width ? '1'.padStart(Number(width), '0') : fields[field] ?? whole));
}

/** At most four characters: 812, 1.2k, 34k, 5.6M, 0.05. */
export function short(n) {
  if (!Number.isFinite(n)) return text.unknown;
  const units = ['', 'k', 'M', 'G', 'T', 'P'];
  let unit = 0;
  for (; Math.abs(n) >= 999.5 && unit < units.length - 1; unit++) n /= 1000;
  const digits = Math.abs(n) >= 9.95 || (unit === 0 && n % 1 === 0) ? 0 : Math.abs(n) < 1 ? 2 : 1;
  return n.toFixed(digits).replace(/\.0$/, '') + units[unit];
}

/** A rate: 0.5 /s, 1,234 /s. */
export function rate(perSecond) {
  if (!Number.isFinite(perSecond)) return text.unknown;
  return `${perSecond > 0 && perSecond < 9.95 ? perSecond.toFixed(1) : count(perSecond)} /s`;
}

/** A share of 1 in per cent. Neither a little nor all but a little is rounded away. */
export function percent(share) {
  if (!Number.isFinite(share)) return text.unknown;
  if (share > 0 && share < 0.01) return '< 1 %';
  if (share > 0.9999 && share < 1) return '> 99.99 %';
  return share > 0.99 ? `${Math.floor(share * 10000) / 100} %` : `${Math.floor(share * 100)} %`;
}

const units = [
  ['y', 365.25 * 86400],
  ['d', 86400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
];

/** A duration in its two largest units: 3 d 4 h. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return text.unknown;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const first = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[first];
  const major = Math.floor(seconds / size);
  const next = units[first + 1];
  const minor = next ? Math.floor((seconds - major * size) / next[1]) : 0;
  return minor > 0 && major < 100 ? `${major} ${name} ${minor} ${next[0]}` : `${whole.format(major)} ${name}`;
}

/** How long ago an instant was by the server's clock; '' without one. */
export function age(time, now) {
  const at = Date.parse(time);
  return Number.isNaN(at) ? '' : duration(Math.max(0, Math.round((now - at) / 1000)));
}

/** The same in the largest unit only: 3 d. */
export function about(time, now) {
  return age(time, now).split(' ').slice(0, 2).join(' ');
}

/** An instant in the browser's time zone: 2026-11-20 08:18:00; a dash without one. */
export function instant(time) {
  const at = new Date(time);
  if (!time || Number.isNaN(at.getTime())) return text.unknown;
  const two = (n) => String(n).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at)}`;
}

/** The time of day of a Date: 08:18:00. */
export function clock(at) {
  const two = (n) => String(n).padStart(2, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
