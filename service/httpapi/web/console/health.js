// Health at a glance: alarms, the stores and the modes. Each state has a word and a
// shape, so that it can be told without its colour.

import { $, KeyedList, el, icon, setAttribute, setIcon, setText } from './dom.js';
import { about } from './format.js';

const severities = ['critical', 'warning', 'info'];

function severityOf(alarm) {
  return severities.includes(alarm.severity) ? alarm.severity : 'warning';
}

function createAlarm() {
  return el('li', {}, icon('warning'), el('strong'), el('span', { class: 'message' }), el('span', { class: 'since' }));
}

/** What is wrong and how grave it is, worst first. */
export class Alarms {
  #list;
  #now = 0;

  constructor() {
    this.#list = new KeyedList($('alarm-list'), createAlarm, (node, alarm) => this.#fill(node, alarm));
  }

  show(alarms, now) {
    this.#now = now;
    const sorted = [...alarms].sort((a, b) => severities.indexOf(severityOf(a)) - severities.indexOf(severityOf(b)));
    // The message is no part of the key: a figure in it changes all the time.
    const seen = new Map();
    const keys = new Map(sorted.map((alarm) => {
      const times = (seen.get(alarm.name) ?? 0) + 1;
      seen.set(alarm.name, times);
      return [alarm, `${alarm.name} ${times}`];
    }));
    this.#list.show(sorted, (alarm) => keys.get(alarm));
    setAttribute($('alarms'), 'hidden', sorted.length === 0);
  }

  #fill(node, alarm) {
    const [sign, name, message, since] = node.children;
    const severity = severityOf(alarm);
    setAttribute(node, 'data-state', severity);
    setIcon(sign, severity);
    setText(name, `${severity}: ${alarm.name}`);
    setText(message, alarm.message ?? '');
    const lasted = about(alarm.since, this.#now);
    setText(since, lasted && `for ${lasted}`);
  }
}

/** The modes with their titles, in the order of the page. */
const modes = [['queue', 'queue mode'], ['segment', 'segment mode'], ['snowflake', 'snowflake mode'], ['uid', 'UID mode']];

function overall(status) {
  return {
    name: 'replica',
    state: status.ready ? (status.message ? 'warning' : 'ok') : 'critical',
    text: status.ready ? (status.message ? 'ready, degraded' : 'ready') : 'not ready',
    detail: status.message ?? '',
    since: null,
  };
}

function ofMode(name, mode) {
  if (!mode?.enabled) return { name, state: 'off', text: 'switched off', detail: '', since: null };
  return {
    name,
    state: mode.ready ? 'ok' : 'critical',
    text: mode.ready ? 'serving' : 'refusing',
    detail: mode.error ?? '',
    since: mode.ready ? null : mode.since, // readiness is looked at only when somebody asks
  };
}

function ofStore(store) {
  return {
    name: store.name,
    state: store.ok ? 'ok' : 'critical',
    text: store.ok ? 'well' : 'failing',
    detail: store.error ?? '',
    since: store.since,
  };
}

function createTile() {
  return el('li', { class: 'tile' }, icon('unknown'), el('div', {},
    el('span', { class: 'name' }), el('strong'), el('span', { class: 'since' }), el('p', { class: 'message' })));
}

/** One tile each for the replica, its modes, and what they depend on. */
export class Health {
  #modes = this.#tiles('mode-list');
  #stores = this.#tiles('store-list');
  #now = 0;

  #tiles(id) {
    return new KeyedList($(id), createTile, (node, tile) => this.#fill(node, tile));
  }

  show(status, now) {
    this.#now = now;
    const own = modes.map(([name, title]) => ofMode(title, status.modes?.[name]));
    this.#modes.show([overall(status), ...own], (tile) => tile.name);
    this.#stores.show((status.stores ?? []).map(ofStore), (tile) => tile.name);
  }

  #fill(node, tile) {
    const [sign, text] = node.children;
    const [name, state, since, message] = text.children;
    setAttribute(node, 'data-state', tile.state);
    setIcon(sign, tile.state);
    setText(name, tile.name);
    setText(state, tile.text);
    const lasted = tile.since ? about(tile.since, this.#now) : '';
    setText(since, lasted && `for ${lasted}`);
    setText(message, tile.detail);
    setAttribute(message, 'hidden', tile.detail === '');
  }
}
