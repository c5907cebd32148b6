// A panel with a table of things: how many there are, a button for a new one, a search, and a row for each with what
// an administrator may do with it. All tables of the console are made by it. A click on the head of a column sorts
// them. What was read last stays while it cannot be read again: grey, and with its age.

import { KeyedList, draw, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { duration } from './format.js';

/** A column whose cells are what of(item) says; by is the field of the items by which it sorts them. */
export function column(name, of, { number = false, by = null } = {}) {
  return { name, number, by, fill: (cell, item) => setText(cell, of(item)) };
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

export class Table {
  #panel;
  #columns;
  #texts;
  #keyOf;
  #sorted;
  #rows;
  #title = el('h3');
  #sum;
  #search;
  #away;
  #table;
  #none;
  #shown = []; // what was shown last
  #at = 0; // when that was

  /** The field by which the things are sorted, with - before it from the highest down; '' for their own order. */
  sort = '';

  /**
   * Builds it in a panel. id begins the ids of its parts, and texts has columns, none and noneFound. Of the columns
   * the first is the head of a row; make(key) gives what is in a cell, and fill(cell, item) fills it. With a search
   * there is a box for it. With a kind there are the buttons that open admin's dialogs for such things: for a new one,
   * for which propose() has values, and with edits for each. asks() is called when something else is searched, or
   * another order is wanted of whoever gives the things; without it they are sorted here.
   */
  constructor(panel, { id, title = '', texts, columns, keyOf, search, kind, add, admin, propose = () => ({}), edits = Boolean(kind), asks }) {
    this.#columns = columns;
    this.#panel = panel;
    this.#texts = texts;
    this.#keyOf = keyOf;
    this.#sorted = asks;
    setText(this.#title, title);
    this.#sum = el('p', { id: `${id}-sum`, class: 'sum' });
    this.#search = el('input', { id: `${id}-search`, type: 'search', placeholder: search, 'aria-label': search, autocomplete: 'off', spellcheck: 'false', hidden: true });
    if (asks) this.#search.addEventListener('change', asks);
    this.#away = el('p', { id: `${id}-away`, class: 'error', role: 'alert', hidden: true }, el('span'), ' ', el('span', { lang: 'en' }));
    this.#none = el('p', { id: `${id}-none`, class: 'hint', hidden: true });
    const create = kind && el('button', { id: `new-${id}`, type: 'button', class: 'quiet admin' }, add);
    create?.addEventListener('click', () => admin.create(kind, propose()));
    const body = el('tbody', { id: `${id}-rows` });
    const heads = columns.map((column) => this.#createHead(column));
    if (edits) heads.push(el('th', { scope: 'col', class: 'admin' }, text.admin.column));
    this.#table = el('table', { class: 'cards', hidden: true }, el('thead', {}, el('tr', {}, ...heads)), body);
    panel.prepend(el('div', { class: 'heading' }, title && this.#title, this.#sum, create, search && this.#search), this.#away);
    panel.append(el('div', { class: 'rows' }, this.#table), this.#none);
    this.#rows = new KeyedList(body, (key) => this.#createRow(key, edits && kind, admin), (row, item) => {
      for (const [i, { fill }] of columns.entries()) fill(row.children[i], item);
    });
  }

  #createHead({ name, number, by }) {
    const words = this.#texts.columns[name];
    const head = el('th', { scope: 'col', class: number && 'number' }, by ? el('button', { type: 'button', class: 'sort' }, words) : words);
    if (by) head.firstChild.addEventListener('click', () => this.#sortBy(by, number));
    return head;
  }

  /** Sorts by a field: numbers from the highest down at first, then the other way round, then not any more. */
  #sortBy(by, number) {
    const orders = number ? [`-${by}`, by, ''] : [by, `-${by}`, ''];
    this.sort = orders[(orders.indexOf(this.sort) + 1) % orders.length];
    for (const [i, column] of this.#columns.entries()) {
      setAttribute(this.#table.tHead.rows[0].children[i], 'aria-sort', { [column.by]: 'ascending', [`-${column.by}`]: 'descending' }[this.sort]);
    }
    if (this.#sorted) this.#sorted();
    else this.#fill(this.#shown);
  }

  #createRow(key, kind, admin) {
    const cells = this.#columns.map(({ name, number, make }, i) => {
      const children = make ? make(key) : [];
      if (i === 0) return el('th', { scope: 'row' }, ...children);
      return el('td', { 'data-name': this.#texts.columns[name], class: number && 'number' }, ...children);
    });
    const button = (words, label, open) => {
      const made = el('button', { type: 'button', class: 'quiet', 'aria-label': label(text.admin[kind](key, key)) }, words);
      made.addEventListener('click', open);
      return made;
    };
    if (kind) {
      cells.push(el('td', { class: 'admin', 'data-name': text.admin.column }, el('span', { class: 'buttons' },
        button(text.admin.edit, text.admin.editOf, () => admin.edit(kind, key)),
        button(text.admin.remove, text.admin.removeOf, () => admin.remove(kind, key)))));
    }
    return el('tr', {}, ...cells);
  }

  #fill(items) {
    const [field, sign] = this.sort.startsWith('-') ? [this.sort.slice(1), -1] : [this.sort, 1];
    this.#shown = items;
    this.#rows.show(this.#sorted || !field ? items : items.toSorted((a, b) => sign * compare(a[field], b[field])), this.#keyOf);
  }

  /** What is searched. */
  get searched() {
    return this.#search.value.trim();
  }

  /**
   * Shows items, of which there are many, with a sum beside the title and a note where there is nothing else to say;
   * away is why they are old, and for how long.
   */
  show(items, { many = items.length, sum = null, note = '', away = null } = {}) {
    draw(this.#panel, () => {
      this.#at = Date.now();
      this.#fill(items);
      if (sum !== null) setText(this.#sum, sum);
      const none = this.searched ? this.#texts.noneFound : this.#texts.none;
      setText(this.#none, items.length > 0 ? note : none);
      setAttribute(this.#none, 'hidden', this.#none.textContent === '');
      setAttribute(this.#search, 'hidden', !this.searched && many < 2);
      setAttribute(this.#table, 'hidden', items.length === 0);
      this.fail(away, away?.lasts);
    });
  }

  /** Hides a column, or shows it. */
  hide(name, hidden) {
    const at = this.#columns.findIndex((column) => column.name === name);
    for (const row of this.#table.rows) setAttribute(row.children[at], 'hidden', hidden);
  }

  /** Says above what was read why it cannot be read again, and how old it is; '' for what is not. With null it can. */
  fail(err, lasts = this.#at && duration(Math.round((Date.now() - this.#at) / 1000), 1)) {
    setText(this.#away.firstElementChild, err && lasts ? text.away(lasts) : '');
    setText(this.#away.lastElementChild, err ? err.message : '');
    setAttribute(this.#away, 'hidden', err === null);
    setAttribute(this.#table, 'data-old', Boolean(err && lasts));
  }
}
