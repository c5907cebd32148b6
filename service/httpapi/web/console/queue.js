// The queue mode: all apps in a table, and one of them in detail. The address chooses it: #app=7.

import { $, describe, draw, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { about, count, digits, percent, rate, short } from './format.js';
import { Table, column } from './table.js';

/** Levels of a list, a fifth of the step each. So the lowest ends where a list is refilled: at 0.2. */
const levels = 5;

/** Less than this share of its indices left is worth a sign, as for the alarm. */
const nearLimit = 0.1;

/**
 * The levels of an app's lists: unknown, unused, empty, or 1 (low) to 5. A list that never
 * had an index is no trouble: it is filled when it is asked for, or by the next sweep.
 */
function levelsOf(app) {
  const unused = new Set(app.unused ?? []);
  return app.depths.map((depth, shard) => {
    if (depth < 0) return 'unknown';
    if (depth === 0) return unused.has(shard) ? 'unused' : 'empty';
    return String(Math.min(levels, Math.max(1, Math.ceil((depth * levels) / app.step))));
  });
}

/** How many lists of an app are unknown, unused, empty and low; the lowest depth of those in use, -1 without any. */
function summary(app) {
  const found = levelsOf(app);
  const many = (which) => found.filter((level) => level === which).length;
  const known = app.depths.filter((_, shard) => found[shard] !== 'unknown' && found[shard] !== 'unused');
  return {
    unknown: many('unknown'),
    unused: many('unused'),
    empty: many('empty'),
    low: many('1'),
    lowest: known.length > 0 ? Math.min(...known) : -1,
    total: known.reduce((sum, depth) => sum + depth, 0),
  };
}

/** What stands out in an app's lists. */
function standingOut(s) {
  return ['empty', 'unknown', 'low', 'unused'].filter((what) => s[what] > 0).map((what) => text.queue[what](s[what]));
}

/** The same in a few words. */
function remark(app) {
  const s = summary(app);
  if (s.unknown === 64) return text.queue.unreadable;
  return text.together(standingOut(s)) || text.queue.lowest(short(s.lowest));
}

/** Shows an app's badges; those that stay are left alone. */
function showBadges(place, app) {
  const found = [
    [app.exhausted > 0, 'exhausted', 'critical'], [app.unconfirmed > 0, 'unconfirmed', 'critical'],
    [app.scramble, 'scrambled', 'info'], [app.limitPolicy === 'wrap', 'wrap', 'warning'],
  ].filter(([is]) => is).map(([, name, kind]) => el('span', { class: 'badge', 'data-kind': kind }, text.queue.badges[name]));
  if (place.textContent !== found.map((badge) => badge.textContent).join('')) place.replaceChildren(...found);
}

/** IDs a second of an app; NaN when the server does not tell. */
const rateOf = (app) => app.issuedPerSecond ?? NaN;

/** The section of the queue mode. */
export class Queue {
  #apps = [];
  #chosen = NaN; // by the address, as far as it chose an app
  #sum = '';
  #away = null; // for how long the lists cannot be read
  #table;
  #cells = Array.from({ length: 64 }, (_, shard) => el('li', { class: 'cell', 'data-shard': shard }));

  /** admin opens the dialogs. */
  constructor(admin) {
    this.#table = new Table($('apps'), {
      id: 'app', title: text.page.apps, texts: text.queue, keyOf: ({ appId }) => appId,
      add: text.page.newApp, kind: 'app', admin, edits: false, propose: () => ({ id: this.#free }),
      columns: [
        { name: 'id', by: 'appId', make: (id) => [el('a', { href: `#app=${id}` }, String(id))], fill: (cell, { appId }) => setAttribute(cell.firstChild, 'aria-current', appId === this.selected ? 'true' : null) },
        { name: 'name', by: 'name', make: () => [el('span'), ' ', el('span')], fill: (cell, app) => { setText(cell.firstChild, app.name); showBadges(cell.lastChild, app); } },
        column('lists', remark),
        column('rate', (app) => rate(rateOf(app)), { number: true, by: 'issuedPerSecond' }),
      ],
    });
    $('heatmap').append(...this.#cells);
    $('edit-app').addEventListener('click', () => admin.edit('app', this.#current.appId, this.#current.name));
    $('delete-app').addEventListener('click', () => admin.remove('app', this.#current.appId, this.#current.name));
    window.addEventListener('hashchange', () => this.#choose());
    this.#choose();
  }

  #choose() {
    this.#chosen = Number(/^#app=(\d{1,3})$/.exec(location.hash)?.[1] ?? this.#chosen);
    this.#draw();
  }

  /** The app that is looked at: the one that the address chose last, or the first; NaN for none. */
  get selected() {
    return this.#current?.appId ?? NaN;
  }

  /** An ID for a new app: the one after the highest, or the first that is free; '' for none. */
  get #free() {
    const ids = this.#apps.map(({ appId }) => appId);
    return String([Math.max(0, ...ids) + 1, ...Array(256).keys()].find((id) => id < 256 && !ids.includes(id)) ?? '');
  }

  get #current() {
    return this.#apps.find(({ appId }) => appId === this.#chosen) ?? this.#apps[0];
  }

  /** The name of the app that is looked at, with its ID; '' for none. */
  get called() {
    return this.#current ? `${this.#current.appId} ${this.#current.name}` : '';
  }

  /** Shows the queue of a status. While Redis is unreachable, that is what the lists held before. */
  show({ queue, stores = [], modes = {} }, now) {
    const apps = queue?.apps ?? [];
    const unread = apps.length === 0 && modes.queue?.ready === false; // the replica has started without its database
    if (unread && this.#apps.length === 0) return;
    const redis = stores.find(({ name, ok }) => name === 'redis' && !ok);
    const since = unread ? modes.queue.since : redis?.since;
    this.#away = since ? { message: '', lasts: about(since, now) } : null; // the alarm has the message
    if (!unread) {
      this.#apps = apps;
      this.#sum = text.queue.sum(apps.length, count(queue?.issued), count(queue?.held));
    }
    this.#draw();
  }

  #draw() {
    this.#table.show(this.#apps, { sum: this.#sum, away: this.#away });
    draw($('app-detail'), () => this.#detail());
  }

  #detail() {
    const app = this.#current;
    setAttribute($('app-detail'), 'hidden', !app);
    setAttribute($('app-detail'), 'data-old', this.#away !== null);
    if (!app) return;
    setText($('app-name'), this.called);
    showBadges($('app-badges'), app);
    for (const [shard, level] of levelsOf(app).entries()) {
      const depth = app.depths[shard];
      const words = text.list.cell(shard, { unknown: text.list.unknown, unused: text.list.unused }[level] ?? text.queue.indices(count(depth)));
      for (const [name, value] of [['data-level', level], ['aria-label', words], ['title', words]]) setAttribute(this.#cells[shard], name, value);
      setText(this.#cells[shard], { unknown: '?', unused: '·' }[level] ?? short(depth));
    }
    describe($('app-facts'), facts(app, this.#away));
  }
}

/** The rows of an app's description; what the lists held has its age while they cannot be read. */
function facts(app, away) {
  const aged = (words) => (away ? text.together([words, text.ago(away.lasts)]) : words);
  const s = summary(app);
  const names = text.queue.facts;
  const limit = app.maxLimitIdStr ?? '0';
  const wrap = app.limitPolicy === 'wrap';
  return [
    [names.rate, rate(rateOf(app))],
    [names.issued, text.queue.ids(count(app.issued))],
    [names.inLists, s.unknown === 64 ? text.unknown : aged(text.queue.indices(count(s.total)))],
    [names.held, text.queue.indices(count(app.held))],
    [names.lists, aged(text.queue.ofLists(standingOut(s))), s.empty > 0 ? 'warning' : null],
    [names.refills, text.queue.sinceStart(count(app.refills))],
    [names.step, text.queue.indices(count(app.step))],
    [names.limit, limit === '0' ? text.queue.noLimit : digits(limit)],
    limit === '0' ? null : [names.beyond, wrap ? text.queue.wraps : text.queue.rejects, wrap ? 'warning' : null],
    [names.highest, app.highestIndex > 0 ? count(app.highestIndex) : text.queue.nothingAllocated],
    [names.left, text.queue.left(percent(app.leftShare)), app.leftShare < nearLimit ? 'warning' : null],
    app.exhausted > 0 ? [names.exhausted, text.queue.of64(app.exhausted), 'critical'] : null,
    app.unconfirmed > 0 ? [names.unconfirmed, text.queue.of64(app.unconfirmed), 'critical'] : null,
  ];
}
