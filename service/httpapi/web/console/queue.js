// The queue mode: all apps in a list, and one of them in detail.

import { $, KeyedList, describe, draw, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { count, digits, percent, rate, short } from './format.js';
import { Heatmap, summary } from './heatmap.js';
import { Chart } from './charts.js';

/** Less than this share of its indices left is worth a sign, as for the alarm. */
const nearLimit = 0.1;

/** IDs a second of an app; NaN when the server does not tell. */
const rateOf = (app) => app.issuedPerSecond ?? NaN;

function badge(text, kind) {
  return el('span', { class: 'badge', 'data-kind': kind }, text);
}

/** Shows an app's badges; those that stay are left alone. */
function showBadges(place, app) {
  const found = [];
  if (app.exhausted > 0) found.push(badge(text.queue.badges.exhausted, 'critical'));
  if (app.unconfirmed > 0) found.push(badge(text.queue.badges.unconfirmed, 'critical'));
  if (app.scramble) found.push(badge(text.queue.badges.scrambled, 'info'));
  if (app.limitPolicy === 'wrap') found.push(badge(text.queue.badges.wrap, 'warning'));
  if (place.textContent !== found.map((b) => b.textContent).join('')) place.replaceChildren(...found);
}

/** What stands out in an app's lists, in a few words. */
function remark(s) {
  if (s.unknown === 64) return text.queue.unreadable;
  const parts = standingOut(s);
  return parts.length > 0 ? text.together(parts) : text.queue.lowest(short(s.lowest));
}

function standingOut(s) {
  return ['empty', 'unknown', 'low', 'unused'].filter((what) => s[what] > 0).map((what) => text.queue[what](s[what]));
}

const orders = {
  id: () => (a, b) => a.appId - b.appId,
  rate: () => (a, b) => (rateOf(b) || 0) - (rateOf(a) || 0) || a.appId - b.appId,
  low: (apps) => {
    const fill = new Map(apps.map((app) => {
      const s = summary(app);
      return [app, s.unused === 64 ? Infinity : s.lowest / app.step];
    }));
    return (a, b) => (fill.get(a) === fill.get(b) ? a.appId - b.appId : fill.get(a) - fill.get(b));
  },
};

/** The section of the queue mode. */
export class Queue {
  #apps = [];
  #wanted; // appId that was asked for; NaN for none
  #history = null;
  #list = new KeyedList($('app-list'), (id) => this.#create(id), (row, app) => this.#fill(row, app));
  #heatmap = new Heatmap($('heatmap'), $('readout'));
  #chart = new Chart($('app-chart'), text.charts.issued, text.charts.units.ids, rate, 110);
  #changed;

  /** changed(appId) is told when another app is looked at; admin opens the dialogs. */
  constructor(changed, admin) {
    this.#changed = changed;
    $('new-app').addEventListener('click', () => admin.create('app'));
    $('edit-app').addEventListener('click', () => admin.edit('app', this.#current.appId, this.#current.name));
    $('delete-app').addEventListener('click', () => admin.remove('app', this.#current.appId, this.#current.name));
    this.#wanted = Number(/^#app=(\d{1,3})$/.exec(location.hash)?.[1] ?? NaN);
    $('app-search').addEventListener('input', () => draw($('queue'), () => this.#draw()));
    $('app-order').addEventListener('change', () => draw($('queue'), () => this.#draw()));
    $('app-list').addEventListener('keydown', (event) => this.#key(event));
  }

  /** The app that is looked at: the one that was asked for, or the first; NaN for none. */
  get selected() {
    const there = this.#apps.some((app) => app.appId === this.#wanted);
    return there ? this.#wanted : (this.#apps[0]?.appId ?? NaN);
  }

  get #current() {
    return this.#apps.find((app) => app.appId === this.selected);
  }

  show(queue) {
    this.#apps = queue?.apps ?? [];
    setText($('queue-sum'), text.queue.sum(this.#apps.length, count(queue?.issued), count(queue?.held)));
    this.#draw();
  }

  /** Shows the history of one app. */
  showHistory(history) {
    this.#history = history;
    this.#chart.show(history, [['app.issued', text.charts.app]]);
  }

  /** Looks at an app. */
  select(appId, focus = false) {
    this.#wanted = appId;
    history.replaceState(null, '', `#app=${appId}`);
    this.#draw();
    this.showHistory(null);
    const row = this.#list.get(appId);
    row?.scrollIntoView({ block: 'nearest' });
    if (focus) row?.focus();
    this.#changed(appId);
  }

  recolour() {
    this.#chart.recolour();
  }

  #draw() {
    const shown = this.#shown();
    this.#list.show(shown, (app) => app.appId);
    // One row is in the order of the Tab key: the selected one, or the first.
    const current = shown.find((app) => app.appId === this.selected) ?? shown[0];
    for (const app of shown) setAttribute(this.#list.get(app.appId), 'tabindex', app === current ? 0 : -1);
    setAttribute($('app-none'), 'hidden', shown.length > 0);
    setText($('app-none'), this.#apps.length > 0 ? text.queue.noneFound : text.queue.noApp);
    this.#detail();
  }

  #shown() {
    const words = $('app-search').value.trim().toLowerCase();
    const found = this.#apps.filter((app) => String(app.appId) === words || app.name.toLowerCase().includes(words));
    return found.sort(orders[$('app-order').value](found));
  }

  #create(appId) {
    const row = el('li', { role: 'option', class: 'app' },
      el('span', { class: 'id' }, String(appId)),
      el('span', { class: 'name' }),
      el('span', { class: 'badges' }),
      el('span', { class: 'remark' }),
      el('span', { class: 'rate' }));
    row.addEventListener('click', () => this.select(appId));
    return row;
  }

  #fill(row, app) {
    const [, name, marks, note, speed] = row.children;
    const s = summary(app);
    setAttribute(row, 'aria-selected', String(app.appId === this.selected));
    setAttribute(row, 'data-trouble', s.empty > 0 || s.unknown > 0);
    setText(name, app.name);
    setAttribute(name, 'title', app.name);
    showBadges(marks, app);
    setText(note, remark(s));
    setText(speed, Number.isFinite(rateOf(app)) ? rate(rateOf(app)) : '');
  }

  #detail() {
    const app = this.#current;
    setAttribute($('app-detail'), 'hidden', !app);
    if (!app) return;
    setText($('app-name'), `${app.appId} ${app.name}`);
    showBadges($('app-badges'), app);
    this.#heatmap.show(app);
    describe($('app-facts'), facts(app));
    if (!this.#history) this.#chart.show(null, []);
  }

  #key(event) {
    const rows = [...$('app-list').children];
    const at = rows.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: Math.min(at + 8, rows.length - 1), PageUp: Math.max(at - 8, 0) }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    if (rows[to]) this.select(Number(rows[to].firstChild.textContent), true);
  }
}

/** The rows of an app's description. */
function facts(app) {
  const s = summary(app);
  const names = text.queue.facts;
  return [
    [names.rate, rate(rateOf(app))],
    [names.issued, text.queue.ids(count(app.issued))],
    [names.inLists, s.unknown === 64 ? text.unknown : text.queue.indices(count(s.total))],
    [names.held, text.queue.indices(count(app.held))],
    [names.lists, text.queue.ofLists(standingOut(s)), s.empty > 0 ? 'warning' : null],
    [names.refills, text.queue.sinceStart(count(app.refills))],
    [names.step, text.queue.indices(count(app.step))],
    ...limits(app),
  ];
}

/** The rows about how far an app may go. */
function limits(app) {
  const limit = app.maxLimitIdStr ?? '0';
  const wrap = app.limitPolicy === 'wrap';
  const names = text.queue.facts;
  return [
    [names.limit, limit === '0' ? text.queue.noLimit : digits(limit)],
    limit === '0' ? null : [names.beyond, wrap ? text.queue.wraps : text.queue.rejects, wrap ? 'warning' : null],
    [names.highest, app.highestIndex > 0 ? count(app.highestIndex) : text.queue.nothingAllocated],
    [names.left, text.queue.left(percent(app.leftShare)), app.leftShare < nearLimit ? 'warning' : null],
    app.exhausted > 0 ? [names.exhausted, text.queue.of64(app.exhausted), 'critical'] : null,
    app.unconfirmed > 0 ? [names.unconfirmed, text.queue.of64(app.unconfirmed), 'critical'] : null,
  ];
}
