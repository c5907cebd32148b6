// Health at a glance. Each cause of trouble is one tile with its whole message; what only
// follows from it is named without alarm, and what is well is one line. Each state has a
// word and a shape, so that it can be told without its colour.

import { $, KeyedList, el, icon, setAttribute, setIcon, setText } from './dom.js';
import { text } from './text.js';
import { about, instant } from './format.js';

const severities = ['critical', 'warning', 'info'];

/** The alarm of a store that is away, and those that follow from it when they came later. */
const storeAway = 'ShardidStoreAway';
const followers = new Set(['ShardidStarved', 'ShardidRefillFailing', 'ShardidConditionFailing', 'ShardidLeaseNotTrusted', 'ShardidWorkerOffline', 'ShardidRingDry', 'ShardidUIDRunway']);

/** An alarm may be seen this much earlier than its cause, in milliseconds: both are looked for now and then. */
const tolerance = 10000;

/** The section of the runbook about an alarm. */
const runbook = (name) => `${text.health.page}#${name.toLowerCase()}`;

/** The section about what is no alarm. */
const failures = () => `${text.health.page}#${text.health.failures}`;

/**
 * What is wrong, worst first: the alarms, then what none of them is about. A message that
 * another one has in it is no cause of its own.
 */
function causes(status) {
  const all = (status.alarms ?? []).map((alarm) => ({
    name: alarm.name, severity: severities.includes(alarm.severity) ? alarm.severity : 'warning',
    message: alarm.message ?? '', since: alarm.since, over: alarm.over, runbook: runbook(alarm.name), follows: [],
  }));
  const away = all.find(({ name }) => name === storeAway);
  const follows = ({ name, since, over }) => away && !over && followers.has(name) && Date.parse(since) > Date.parse(away.since) - tolerance;
  const found = all.filter((alarm) => !follows(alarm));
  if (away) away.follows = all.filter(follows).map(({ name }) => name);

  const add = (name, severity, message, since) => {
    const told = away || found.some((cause) => cause.severity !== 'info' && (cause.message.includes(message) || message.includes(cause.message)));
    if (!told) found.push({ name, severity, message, since, runbook: failures(), follows: [] });
  };
  for (const store of status.stores ?? []) if (!store.ok) add(store.name, 'critical', store.error ?? '', store.since);
  for (const [name, mode] of Object.entries(status.modes ?? {})) {
    if (mode.enabled && !mode.ready) add(text.mode(name), 'critical', mode.error ?? '', mode.since);
  }
  // With all of these well, it starts or stops.
  if (!status.ready) add(text.health.replica, 'warning', status.message ?? '', null);
  return found.sort((a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity));
}

/**
 * What is looked at, well or not. A mode that could serve is not said to while its replica
 * is not ready: then it gets no requests.
 */
function parts(status) {
  const replica = { name: text.health.replica, state: 'ok', word: text.health.ready };
  if (!status.ready) Object.assign(replica, { state: 'affected', word: text.health.notReady });
  else if (status.message || (status.alarms ?? []).some(({ severity }) => severity === 'critical')) Object.assign(replica, { state: 'affected', word: text.health.degraded });
  const modes = Object.keys(text.modes).map((name) => {
    const mode = status.modes?.[name];
    if (!mode?.enabled) return { name: text.mode(name), state: 'off', word: text.switchedOff };
    if (!mode.ready) return { name: text.mode(name), state: 'affected', word: text.health.notReady, since: mode.since };
    return { name: text.mode(name), state: 'ok', word: status.ready ? text.health.serving : text.health.able };
  });
  const stores = (status.stores ?? []).map(({ name, ok, since }) => ({ name: text.conditions[name] ?? name, state: ok ? 'ok' : 'affected', word: ok ? text.health.works : text.health.fails, since }));
  return [replica, ...modes, ...stores, ...witness(status)];
}

/** Whether Redis vouches for the database; nothing where the database needs nobody to. */
function witness({ witness: w }) {
  if (!w) return [];
  const held = w.state === 'named' && w.heldSince;
  return [{ name: text.health.witness, state: held ? 'ok' : w.state === 'unknown' ? 'unknown' : 'off', word: held ? text.health.held : text.health.witnesses[w.state] ?? w.state, since: w.heldSince }];
}

function createCause() {
  return el('li', {}, icon('warning'), el('strong'), el('p'), el('p', { class: 'message', lang: 'en' }), el('p', { class: 'follows' }),
    el('a', {}, text.health.runbook), el('span', { class: 'since' }));
}

function createTile() {
  return el('li', { class: 'tile' }, icon('unknown'), el('span', { class: 'name' }), el('strong'), el('span', { class: 'since' }));
}

/** The section of health. */
export class Health {
  #now = 0;
  #causes = new KeyedList($('alarm-list'), createCause, (node, cause) => this.#fillCause(node, cause));
  #affected = new KeyedList($('affected-list'), createTile, (node, tile) => this.#fillTile(node, tile));
  #well = new KeyedList($('well-list'), createTile, (node, tile) => this.#fillTile(node, tile));

  show(status, now) {
    this.#now = now;
    const found = causes(status);
    this.#causes.show(found, ({ name }) => name);
    const tiles = parts(status);
    const affected = tiles.filter(({ state }) => state === 'affected');
    const well = tiles.filter(({ state }) => state !== 'affected');
    this.#affected.show(affected, ({ name }) => name);
    this.#well.show(well, ({ name }) => name);
    setText($('well-sum'), text.health.well(well.filter(({ state }) => state === 'ok').map(({ name, word }) => ([text.health.works, text.health.serving, text.health.held].includes(word) ? name : `${name} ${word}`))));
    setIcon($('well-icon').firstElementChild ?? $('well-icon').appendChild(icon('ok')), found.some(({ severity }) => severity === 'critical') ? 'off' : 'ok');
  }

  #fillCause(node, cause) {
    const [sign, name, meaning, message, follows, link, since] = node.children;
    const [title, words] = text.alarms[cause.name] ?? [];
    setAttribute(node, 'data-state', cause.severity);
    setIcon(sign, cause.severity);
    const heading = cause.over ? text.health.over : (title) => text.health.heading(cause.severity, title);
    setText(name, heading(title ? `${title} ${cause.name}` : text.conditions[cause.name] ?? cause.name));
    setText(meaning, words ?? '');
    setText(message, cause.message);
    setText(follows, cause.follows.length > 0 ? text.health.follows(cause.follows.map((alarm) => text.alarms[alarm]?.[0] ?? alarm)) : '');
    setAttribute(link, 'href', cause.runbook);
    setText(since, cause.over ? text.health.until(instant(cause.since), instant(cause.over)) : this.#lasted(cause.since));
  }

  #fillTile(node, tile) {
    const [sign, name, word, since] = node.children;
    setAttribute(node, 'data-state', tile.state);
    setIcon(sign, tile.state === 'affected' ? 'off' : tile.state);
    setText(name, tile.name);
    setText(word, tile.word);
    setText(since, this.#lasted(tile.since));
  }

  #lasted(since) {
    const lasted = since ? about(since, this.#now) : '';
    return lasted && text.since(lasted);
  }
}
