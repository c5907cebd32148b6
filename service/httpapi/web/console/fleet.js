// All replicas of the deployment, as each reports itself to the Redis that they share.

import { $, el, icon, setAttribute, setIcon, setText } from './dom.js';
import { text } from './text.js';
import { age, duration, rate } from './format.js';
import { Table, column } from './table.js';

/** A record is written every five seconds: one that is older than this was missed twice, in seconds. */
const late = 12;

const modes = Object.keys(text.modes);

/** What a replica's link may lead to: the record is another process's word. */
function consoleOf(url) {
  try {
    const { protocol, host } = new URL(url);
    return protocol === 'http:' || protocol === 'https:' ? { href: `${protocol}//${host}/`, name: host } : null;
  } catch {
    return null;
  }
}

/** What a mode of a replica does, in a few characters. */
function ofMode(mode) {
  if (!mode?.enabled) return text.fleet.off;
  return mode.ready ? rate(mode.idsPerSecond) : text.fleet.notReady;
}

/** The alarms of a replica, by severity. */
function alarmsOf({ alarms }) {
  const on = Object.keys(text.health.severity).filter((severity) => alarms?.[severity] > 0);
  return text.together(on.map((severity) => text.fleet.alarm(severity, alarms[severity]))) || text.fleet.none;
}

/** The state of a replica, and its word. */
function stateOf(replica) {
  if (replica.isOld || replica.ageSeconds > late) return ['unknown', text.fleet.heard(duration(Math.round(replica.ageSeconds)))];
  if (!replica.ready) return ['critical', text.fleet.notReady];
  const trouble = replica.alarms?.critical > 0 || modes.some((mode) => replica.modes[mode]?.enabled && !replica.modes[mode].ready);
  if (trouble) return ['warning', text.health.degraded];
  return [replica.alarms?.warning > 0 ? 'warning' : 'ok', text.fleet.ready];
}

/** The section of replicas. */
export class Fleet {
  #now = 0;
  #self = '';
  #known = { at: 0, replicas: [] }; // of all, when their records were read last
  #table = new Table($('fleet'), {
    id: 'replica', texts: { ...text.fleet, columns: { ...text.fleet.columns, ...text.modes } }, keyOf: ({ instance }) => instance,
    columns: [
      {
        name: 'replica',
        make: () => [el('a'), el('span', { class: 'badge', 'data-kind': 'info' }, text.fleet.self), el('span', { class: 'host' })],
        fill: (cell, replica) => {
          const [link, self, host] = cell.children;
          setAttribute(cell.parentElement, 'data-old', replica.isOld);
          const console = consoleOf(replica.url);
          setAttribute(link, 'href', console?.href);
          setText(link, console?.name ?? replica.url);
          setAttribute(self, 'hidden', replica.instance !== this.#self);
          setText(host, replica.host);
        },
      },
      {
        name: 'state',
        make: () => [el('span', { class: 'state' }, icon('unknown'), el('span'))],
        fill: (cell, replica) => {
          const [state, word] = stateOf(replica);
          setAttribute(cell.firstChild, 'data-state', state);
          setIcon(cell.firstChild.firstChild, state);
          setText(cell.firstChild.lastChild, word);
        },
      },
      ...modes.map((mode) => column(mode, (replica) => ofMode(replica.modes[mode]), { number: true })),
      column('worker', ({ workerId }) => (workerId < 0 ? text.fleet.none : String(workerId)), { number: true }),
      column('alarms', alarmsOf),
      column('version', ({ version }) => version),
      column('up', ({ startedAt }) => age(startedAt, this.#now), { number: true }),
    ],
  });

  /** Shows the replicas; those whose records cannot be read now as they were. */
  show({ self, shared, message, replicas }, now) {
    this.#now = now;
    this.#self = self;
    if (!message) this.#known = { at: now, replicas };
    const read = new Set(replicas.map(({ instance }) => instance));
    const old = this.#known.replicas.filter(({ instance }) => !read.has(instance))
      .map((replica) => ({ ...replica, isOld: true, ageSeconds: replica.ageSeconds + (now - this.#known.at) / 1000 }));
    this.#table.show([...replicas, ...old], {
      sum: text.fleet.sum(replicas.length, replicas.filter(({ ready, ageSeconds }) => ready && ageSeconds <= late).length),
      note: message ? text.fleet.away(message) : shared ? '' : text.fleet.alone,
    });
    for (const mode of modes) this.#table.hide(mode, !replicas.some((replica) => replica.modes[mode]?.enabled));
  }
}
