// The queue mode: its apps, and how full their lists are.

import { $, el, setText } from './dom.js';
import { text } from './text.js';
import { count, digits, percent, rate, short } from './format.js';
import { Table, column } from './table.js';

/** A list with this part of a step or less is low: it is refilled. */
const low = 1 / 5;

/**
 * How many lists of an app are unknown, unused, empty and low; the lowest depth of those in use, -1 without any. A list
 * that never had an index is no trouble: it is filled when it is asked for, or by the next sweep.
 */
function summary(app) {
  const unused = new Set(app.unused ?? []);
  const many = (is) => app.depths.filter(is).length;
  const used = app.depths.filter((depth, shard) => depth > 0 || (depth === 0 && !unused.has(shard)));
  return {
    unknown: many((depth) => depth < 0),
    unused: many((depth, shard) => depth === 0 && unused.has(shard)),
    empty: used.filter((depth) => depth === 0).length,
    low: many((depth) => depth > 0 && depth <= app.step * low),
    lowest: used.length > 0 ? Math.min(...used) : -1,
  };
}

/** What stands out in an app's lists, in a few words. */
function remark(app) {
  const s = summary(app);
  if (s.unknown === 64) return text.queue.unreadable;
  const found = ['empty', 'unknown', 'low', 'unused'].filter((what) => s[what] > 0).map((what) => text.queue[what](s[what]));
  return text.together(found) || text.queue.lowest(short(s.lowest));
}

/** Shows an app's badges; those that stay are left alone. */
function showBadges(place, app) {
  const found = [
    [app.exhausted > 0, 'exhausted', 'critical'], [app.unconfirmed > 0, 'unconfirmed', 'critical'],
    [app.scramble, 'scrambled', 'info'], [app.limitPolicy === 'wrap', 'wrap', 'warning'],
  ].filter(([is]) => is).map(([, name, kind]) => el('span', { class: 'badge', 'data-kind': kind }, text.queue.badges[name]));
  if (place.textContent !== found.map((badge) => badge.textContent).join('')) place.replaceChildren(...found);
}

/** The table of apps. */
export class Queue {
  #table;

  /** admin opens the dialogs. */
  constructor(admin) {
    this.#table = new Table($('apps'), {
      id: 'app', title: text.page.apps, texts: text.queue, keyOf: ({ appId }) => appId, calledOf: ({ name }) => name,
      add: text.page.newApp, kind: 'app', admin,
      columns: [
        column('id', ({ appId }) => appId),
        { name: 'name', make: () => [el('span'), ' ', el('span')], fill: (cell, app) => { setText(cell.firstChild, app.name); showBadges(cell.lastChild, app); } },
        column('lists', remark),
        column('rate', (app) => rate(app.issuedPerSecond ?? NaN), true),
        column('step', ({ step }) => count(step), true),
        column('limit', ({ maxLimitIdStr: limit = '0' }) => (limit === '0' ? text.queue.noLimit : digits(limit)), true),
        column('left', ({ leftShare }) => percent(leftShare), true),
      ],
    });
  }

  show(queue) {
    const apps = queue?.apps ?? [];
    this.#table.show(apps, { sum: text.queue.sum(apps.length, count(queue?.issued), count(queue?.held)) });
  }
}
