// Health at a glance: a sentence about who is hit and who continues, then a tile for each cause with its
// whole message. What only follows from a cause is named without alarm; what works is one line. What
// fails is red, what is degraded amber, and each state has a word and a shape, so that it can be told
// without its colour.

import { $, KeyedList, el, icon, setAttribute, setIcon, setText } from './dom.js';
import { text } from './text.js';
import { about, digits } from './format.js';

const stores = ['database', 'redis', 'zookeeper'];

const severities = ['critical', 'warning', 'info'];

/** The alarm of a store that is unreachable, and those that follow from it when they came later. */
const storeAway = 'ShardidStoreAway';
const followers = new Set(['ShardidStarved', 'ShardidConditionFailing', 'ShardidWorkerID']);

/** An alarm may be seen this much earlier than its cause, in milliseconds: both are looked for now and then. */
const tolerance = 10000;

/** Conditions that depend on no store. */
const ownFiles = ['tokens', 'tls'];

/** The section of the runbook about an alarm. */
const runbook = (name) => `${text.health.page}#${name.toLowerCase()}`;

/** The section about what is no alarm. */
const failures = () => `${text.health.page}#${text.health.failures}`;

/** The code that callers of a mode get while it cannot issue. */
const codes = { queue: -4, segment: -4, sequence: -4, snowflake: -8, uid: -8 };
const starting = /not initialised yet/; // then it is -1

/** The address in the error of a store, '' without one. */
const addressIn = (error) => /(?:dial tcp |->| at )([\w.[\]:-]+:\d+)/.exec(error ?? '')?.[1] ?? '';

/** Who is hit now and who continues, as a sentence and its state; null while nobody is and no store is unreachable. */
function impact(status) {
  const away = (status.stores ?? []).filter(({ name, ok }) => !ok && stores.includes(name));
  const modes = Object.keys(text.modes).map((name) => ({ name, ...status.modes?.[name] })).filter(({ enabled }) => enabled);
  const hit = Map.groupBy(modes.filter(({ ready }) => !ready), ({ name, error }) => (starting.test(error) ? -1 : codes[name]));
  if (away.length + hit.size === 0) return null;
  const { impact: words } = text.health;
  const names = (group) => group.map(({ name }) => text.modes[name]);
  const well = modes.filter(({ ready }) => ready);
  const parts = [...hit].map(([code, group]) => words.hit(names(group), code));
  if (hit.size === 0) parts.push(words.none);
  else if (well.length > 0) parts.push(words.on(names(well), away.some(({ name }) => name !== 'redis')));
  const silent = away.every(({ error }) => /dial|timeout|deadline/.test(error));
  const cause = away.length > 0 ? words.away(away.map(({ name, error }) => words.store(name, addressIn(error))), silent) : '';
  return { state: hit.size > 0 ? 'critical' : 'warning', words: words.whole(cause, parts) };
}

/**
 * What is wrong, worst first: the alarms, then what none of them is about. A message that
 * another one has in it is no cause of its own.
 */
function causes(status) {
  const all = (status.alarms ?? []).map((alarm) => ({
    name: alarm.name, severity: severities.includes(alarm.severity) ? alarm.severity : 'warning',
    message: alarm.message ?? '', facts: (alarm.facts ?? []).map((fact) => (/^\d+$/.test(fact) ? digits(fact) : fact)), since: alarm.since, runbook: runbook(alarm.name), follows: [],
  }));
  const away = all.find(({ name }) => name === storeAway);
  const follows = ({ name, since }) => away && followers.has(name) && Date.parse(since) > Date.parse(away.since) - tolerance;
  const found = all.filter((alarm) => !follows(alarm));
  if (away) away.follows = all.filter(follows).map(({ name }) => name);

  const add = (name, severity, message, since) => {
    const told = (away && !ownFiles.includes(name)) || found.some((cause) => cause.severity !== 'info' && (cause.message.includes(message) || message.includes(cause.message)));
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
  if (!status.ready) Object.assign(replica, { state: 'critical', word: text.health.notReady });
  else if (status.message || (status.alarms ?? []).some(({ severity }) => severity === 'critical')) Object.assign(replica, { state: 'warning', word: text.health.degraded });
  const modes = Object.keys(text.modes).filter((name) => status.modes?.[name]?.enabled).map((name) => {
    const mode = status.modes[name];
    if (!mode.ready) return { name: text.mode(name), state: 'critical', word: text.health.notReady, since: mode.since };
    return { name: text.mode(name), state: 'ok', word: status.ready ? text.health.serving : text.health.able };
  });
  const away = (status.stores ?? []).some(({ name, ok }) => !ok && stores.includes(name));
  const conditions = (status.stores ?? []).map(({ name, ok, since }) => ({
    name: text.conditions[name] ?? name, since,
    ...(ok ? { state: 'ok', word: text.health.works } : away && ![...stores, ...ownFiles].includes(name) ? { state: 'warning', word: text.health.waits } : { state: 'critical', word: text.health.fails }),
  }));
  return [replica, ...modes, ...conditions, ...witness(status)];
}

/** Whether Redis vouches for the database; nothing where the database needs nobody to. */
function witness({ witness: w }) {
  if (!w) return [];
  const held = w.state === 'named' && w.heldSince;
  return [{ name: text.health.witness, state: held ? 'ok' : w.state === 'unknown' ? 'unknown' : 'off', word: held ? text.health.held : text.health.witnesses[w.state] ?? w.state, since: w.heldSince }];
}

function createCause() {
  return el('li', {}, icon('warning'), el('strong'), el('p'), el('p', { class: 'message' }), el('p', { class: 'follows' }),
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
    const hit = impact(status);
    setText($('impact'), hit?.words ?? '');
    setAttribute($('impact'), 'data-state', hit?.state);
    this.#causes.show(causes(status), ({ name }) => name);
    const tiles = parts(status);
    const isAffected = ({ state }) => state === 'critical' || state === 'warning';
    const affected = tiles.filter(isAffected);
    const well = tiles.filter((tile) => !isAffected(tile));
    this.#affected.show(affected, ({ name }) => name);
    this.#well.show(well, ({ name }) => name);
    setText($('well-sum'), affected.length === 0 ? text.health.allWell : text.health.well(well.filter(({ state }) => state === 'ok').map(({ name }) => name)));
  }

  /** An alarm has its own words, and its facts; all else is the whole message in English. */
  #fillCause(node, cause) {
    const [sign, name, meaning, message, follows, link, since] = node.children;
    const [title, words, tell] = text.alarms[cause.name] ?? [];
    setAttribute(node, 'data-state', cause.severity);
    setIcon(sign, cause.severity);
    const heading = title ? `${title} · ${cause.name}` : text.conditions[cause.name] ?? cause.name;
    setText(name, text.health.heading(cause.severity, heading));
    setText(meaning, words ?? '');
    setText(message, tell ? tell(...cause.facts) : title ? text.together(cause.facts) : cause.message);
    setAttribute(message, 'lang', tell ? undefined : 'en'); // the server's own words
    setText(follows, cause.follows.length > 0 ? text.health.follows(cause.follows.map((alarm) => text.alarms[alarm]?.[0] ?? alarm)) : '');
    setAttribute(link, 'href', cause.runbook);
    setText(since, this.#lasted(cause.since));
  }

  #fillTile(node, tile) {
    const [sign, name, word, since] = node.children;
    setAttribute(node, 'data-state', tile.state);
    setIcon(sign, tile.state);
    setText(name, tile.name);
    setText(word, tile.word);
    setText(since, this.#lasted(tile.since));
  }

  #lasted(since) {
    const lasted = since ? about(since, this.#now) : '';
    return lasted && text.since(lasted);
  }
}
