// The modes beside the queue: segment tags, snowflake and UID.

import { $, KeyedList, describe, el, setAttribute, setText } from './dom.js';
import { about, count, duration, instant, percent, rate } from './format.js';

/** Rows that are drawn at most; the search finds the others. */
const mostRows = 200;

/** Less time than this until the IDs end is worth a sign, in seconds. */
const year = 365 * 86400;

/** How many IDs are left in a buffer. They are beyond what a JS number holds, their difference is not. */
function leftOf(tag, buffer) {
  return Number(BigInt(tag[`max${buffer}Str`]) - BigInt(tag[`value${buffer}Str`]));
}

function cell(name, ...children) {
  return el('td', { 'data-name': name }, ...children);
}

function bufferCell(buffer) {
  return cell(`Buffer ${buffer}`, el('div', { class: 'buffer' },
    el('progress', { max: 1, value: 0 }), el('span', { class: 'left' }), el('span', { class: 'next' })));
}

function createRow() {
  const number = (name) => el('td', { 'data-name': name, class: 'number' });
  return el('tr', {}, el('th', { scope: 'row' }), bufferCell(0), bufferCell(1),
    number('Step'), number('Held'), number('Rate'), number('Lasts'), number('Last load'));
}

/** The section of the modes. */
export class Modes {
  #segment = null;
  #now = 0;
  #rows = new KeyedList($('tag-rows'), createRow, (row, tag) => this.#fill(row, tag));
  #ring = el('progress', { max: 1, value: 0, 'aria-label': 'ring' });
  #filled = el('span');
  #gauge = el('span', { class: 'gauge' }, this.#ring, this.#filled);

  constructor() {
    $('tag-search').addEventListener('input', () => this.#tags());
  }

  show(status, now) {
    this.#segment = status.segment ?? null;
    this.#now = now;
    this.#tags();
    describe($('snowflake'), status.snowflake ? this.#snowflake(status.snowflake) : [['State', 'switched off', 'off']]);
    describe($('uid'), status.uid ? this.#uid(status.uid) : [['State', 'switched off', 'off']]);
  }

  #tags() {
    const all = this.#segment?.tags ?? [];
    const words = $('tag-search').value.trim().toLowerCase();
    const found = all.filter((tag) => tag.key.toLowerCase().includes(words)).sort((a, b) => (a.key < b.key ? -1 : 1));
    this.#rows.show(found.slice(0, mostRows), (tag) => tag.key);
    setText($('tag-sum'), this.#segment ? `${count(all.length)} tag${all.length === 1 ? '' : 's'}, ${count(this.#segment.issued)} IDs issued since the start` : 'switched off');
    setText($('tag-none'), remark(all.length, found.length, this.#segment !== null));
    setAttribute($('tag-none'), 'hidden', found.length > 0 && found.length <= mostRows);
    setAttribute($('tag-search'), 'hidden', all.length < 2);
    setAttribute($('tag-rows').parentElement, 'hidden', found.length === 0);
  }

  #fill(row, tag) {
    const [name, first, second, step, held, speed, lasts, loaded] = row.children;
    setText(name, tag.key);
    this.#buffer(first.firstChild, tag, 0);
    this.#buffer(second.firstChild, tag, 1);
    setText(step, count(tag.pos === 0 ? tag.step0 : tag.step1));
    setText(held, count(tag.held));
    setText(speed, rate(tag.rate));
    setText(lasts, tag.initOk ? duration(tag.runwaySeconds) : '–');
    const ago = about(tag.lastLoad, this.#now);
    setText(loaded, ago ? `${ago} ago` : '–');
  }

  /** The bar is what is left of a buffer; the next ID is below it. */
  #buffer(node, tag, buffer) {
    const [bar, left, next] = node.children;
    const inUse = tag.initOk && tag.pos === buffer;
    const ready = inUse || (tag.initOk && tag.nextReady);
    const rest = ready ? leftOf(tag, buffer) : 0;
    setAttribute(node, 'data-use', inUse);
    bar.value = ready ? rest / tag[`step${buffer}`] : 0;
    setAttribute(bar, 'aria-label', `left of buffer ${buffer} of ${tag.key}`);
    setText(left, ready ? `${count(rest)} left` : 'not loaded');
    setText(next, ready ? `${inUse ? 'in use, next' : 'from'} ${tag[`value${buffer}Str`]}` : '');
  }

  #snowflake(s) {
    const states = { serving: null, offline: 'warning', waiting: 'critical' };
    return [
      ['State', s.state, states[s.state] ?? null],
      ['Worker ID', s.workerId < 0 ? 'none' : String(s.workerId), s.workerId < 0 ? 'critical' : null],
      ['Registry', s.mode],
      ['Address', s.address],
      ['Time bound', instant(s.reservedUntil)],
      ['Trusted for', duration(s.trustSeconds), s.trustSeconds <= 0 ? 'critical' : null],
      ['Clock', against(s.clockOffsetSeconds, 'the registry\'s')],
      lifetime(s),
      ['Issued', count(s.issued)],
      s.error ? ['Registry says', s.error, 'warning'] : null,
    ];
  }

  #uid(u) {
    return [
      ['Generator', u.mode],
      ['Worker ID', u.workerId < 0 ? 'none' : String(u.workerId), u.workerId < 0 ? 'critical' : null],
      u.ringSize > 0 ? ['Ring', this.#gaugeOf(u), u.ringFilled === 0 ? 'critical' : null] : null,
      ['Newest ID', instant(u.lastSecond)],
      ['That is', against(u.aheadSeconds, 'the clock')],
      ['Marked until', instant(u.markedUntil)],
      u.discarded > 0 ? ['Discarded', count(u.discarded)] : null,
      lifetime(u),
      ['Issued', count(u.issued)],
    ];
  }

  #gaugeOf(u) {
    this.#ring.value = u.ringFilled / u.ringSize;
    setText(this.#filled, `${percent(u.ringFilled / u.ringSize)}, ${count(u.ringFilled)} of ${count(u.ringSize)}`);
    return this.#gauge;
  }
}

function against(seconds, what) {
  return `${duration(Math.abs(seconds))} ${seconds < 0 ? 'behind' : 'ahead of'} ${what}`;
}

function lifetime(mode) {
  const left = mode.remainingLifetimeSeconds;
  return ['IDs last another', duration(left), left < year ? 'warning' : null];
}

function remark(all, found, enabled) {
  if (!enabled) return 'The segment mode is switched off.';
  if (all === 0) return 'No tag is loaded: one is when it is asked for first, or make one below.';
  if (found === 0) return 'no tag is called so';
  return `and ${count(found - mostRows)} more: search for them`;
}
