// All replicas of the deployment, as each reports itself to the Redis that they share.

import { $, KeyedList, el, icon, setAttribute, setIcon, setText } from './dom.js';
import { text } from './text.js';
import { age, duration, rate } from './format.js';

/** A record is written every three seconds: one that is older than this was missed twice, in seconds. */
const late = 8;

const modes = Object.keys(text.modes);

function createRow() {
  const cell = (name, ...children) => el('td', { 'data-name': name }, ...children);
  const number = (name) => el('td', { 'data-name': name, class: 'number' });
  const { columns } = text.fleet;
  return el('tr', {},
    el('th', { scope: 'row' }, el('a'), el('span', { class: 'badge', 'data-kind': 'info' }, text.fleet.self), el('span', { class: 'host' })),
    cell(columns.state, el('span', { class: 'state' }, icon('unknown'), el('span'))),
    ...modes.map((mode) => number(text.modes[mode])),
    number(columns.worker), cell(columns.alarms), cell(columns.version), number(columns.up));
}

/** What a replica's link may lead to: the record is another process's word. */
function consoleOf(url) {
  try {
    const { protocol, host } = new URL(url);
    return protocol === 'http:' || protocol === 'https:' ? { href: `${protocol}//${host}/`, name: host } : null;
  } catch {
    return null;
  }
}

/** The section of replicas. */
export class Fleet {
  #now = 0;
  #self = '';
  #used = []; // by mode: whether a replica has it enabled
  #rows = new KeyedList($('replica-rows'), createRow, (row, replica) => this.#fill(row, replica));

  show(view, now) {
    this.#now = now;
    this.#self = view.self;
    this.#used = modes.map((mode) => view.replicas.some((replica) => replica.modes[mode]?.enabled));
    const heads = $('replica-rows').parentElement.querySelectorAll('th[scope=col].number');
    for (const [i, used] of this.#used.entries()) setAttribute(heads[i], 'hidden', !used);
    this.#rows.show(view.replicas, ({ instance }) => instance);
    const all = view.replicas.flatMap((replica) => modes.map((mode) => replica.modes[mode]?.idsPerSecond ?? 0));
    setText($('fleet-sum'), text.fleet.sum(view.replicas.length, view.replicas.filter(({ ready }) => ready).length, rate(all.reduce((sum, n) => sum + n, 0))));
    const note = view.message ? text.fleet.away(view.message) : view.shared ? '' : text.fleet.alone;
    setText($('fleet-note'), note);
    setAttribute($('fleet-note'), 'hidden', note === '');
  }

  #fill(row, replica) {
    const [name, state, ...rest] = row.children;
    const [worker, alarms, version, up] = rest.slice(modes.length);
    const [link, self, host] = name.children;
    const console = consoleOf(replica.url);
    setAttribute(link, 'href', console?.href);
    setText(link, console?.name ?? replica.url);
    setAttribute(self, 'hidden', replica.instance !== this.#self);
    setText(host, replica.host);
    this.#state(state.firstChild, replica);
    for (const [i, mode] of modes.entries()) {
      setText(rest[i], ofMode(replica.modes[mode]));
      setAttribute(rest[i], 'hidden', !this.#used[i]);
    }
    setText(worker, replica.workerId < 0 ? text.fleet.none : String(replica.workerId));
    const on = Object.keys(text.health.severity).filter((severity) => replica.alarms?.[severity] > 0);
    setText(alarms, text.together(on.map((severity) => text.fleet.alarm(severity, replica.alarms[severity]))) || text.fleet.none);
    setText(version, replica.version);
    setText(up, age(replica.startedAt, this.#now));
  }

  #state(node, replica) {
    const [sign, word] = node.children;
    const missed = replica.ageSeconds > late;
    const trouble = replica.alarms?.critical > 0 || modes.some((mode) => replica.modes[mode]?.enabled && !replica.modes[mode].ready);
    const state = missed ? 'unknown' : !replica.ready ? 'critical' : trouble || replica.alarms?.warning > 0 ? 'warning' : 'ok';
    setAttribute(node, 'data-state', state);
    setIcon(sign, state);
    setText(word, missed ? text.fleet.heard(duration(Math.round(replica.ageSeconds))) : !replica.ready ? text.fleet.notReady : trouble ? text.health.degraded : text.fleet.ready);
  }
}

/** What a mode of a replica does, in a few characters. */
function ofMode(mode) {
  if (!mode?.enabled) return text.fleet.off;
  return mode.ready ? rate(mode.idsPerSecond) : text.fleet.notReady;
}
