// A panel with a table of things: how many there are, a button for a new one, a search, and a row for each with what
// an administrator may do with it. All tables of the console are made by it. What was read last stays while it cannot
// be read again.

import { KeyedList, draw, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { count } from './format.js';

/** Rows that are drawn at most: as many as there may be apps. The search finds the others. */
export const mostRows = 256;

/** A column whose cells are what of(item) says. */
export function column(name, of, number = false) {
  return { name, number, of, fill: (cell, item) => setText(cell, of(item)) };
}

export class Table {
  #panel;
  #columns;
  #texts;
  #keyOf;
  #rows;
  #title = el('h3');
  #sum;
  #search;
  #away;
  #table;
  #none;

  /**
   * Builds it in a panel. id begins the ids of its parts, and texts has columns, none and noneFound. Of the columns
   * the first is the head of a row; make(key) gives what is in a cell, and fill(cell, item) fills it. With a search
   * there is a box for it. With a kind there are the buttons that open admin's dialogs for such things: for a new one,
   * and with edits for each.
   */
  constructor(panel, { id, title = '', texts, columns, keyOf, search, kind, add, admin, edits = Boolean(kind) }) {
    this.#columns = columns;
    this.#panel = panel;
    this.#texts = texts;
    this.#keyOf = keyOf;
    setText(this.#title, title);
    this.#sum = el('p', { id: `${id}-sum`, class: 'sum' });
    this.#search = el('input', { id: `${id}-search`, type: 'search', placeholder: search, 'aria-label': search, autocomplete: 'off', spellcheck: 'false', hidden: true });
    this.#away = el('p', { id: `${id}-away`, class: 'error', role: 'alert', hidden: true }, el('span'), ' ', el('span', { lang: 'en' }));
    this.#none = el('p', { id: `${id}-none`, class: 'hint', hidden: true });
    const create = kind && el('button', { id: `new-${id}`, type: 'button', class: 'quiet admin' }, add);
    create?.addEventListener('click', () => admin.create(kind));
    const body = el('tbody', { id: `${id}-rows` });
    const heads = columns.map(({ name, number }) => el('th', { scope: 'col', class: number && 'number' }, texts.columns[name]));
    if (edits) heads.push(el('th', { scope: 'col', class: 'admin' }, text.admin.column));
    this.#table = el('table', { class: 'cards', hidden: true }, el('thead', {}, el('tr', {}, ...heads)), body);
    panel.append(el('div', { class: 'heading' }, title && this.#title, this.#sum, create, search && this.#search), this.#away, el('div', { class: 'rows' }, this.#table), this.#none);
    this.#rows = new KeyedList(body, (key) => this.#createRow(key, edits && kind, admin), (row, item) => {
      for (const [i, { fill }] of columns.entries()) fill(row.children[i], item);
    });
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

  /** What is searched. */
  get searched() {
    return this.#search.value.trim();
  }

  /** Calls told when another thing is searched. */
  onSearch(told) {
    this.#search.addEventListener('change', told);
  }

  /**
   * Shows items, of which there are many, with a sum beside the title and a note where there is nothing else to say;
   * away is why they may be old.
   */
  show(items, { many = items.length, sum = null, title, note = '', away = null } = {}) {
    draw(this.#panel, () => {
      const shown = items.slice(0, mostRows);
      this.#rows.show(shown, this.#keyOf);
      if (title) setText(this.#title, title);
      if (sum !== null) setText(this.#sum, sum);
      const none = this.searched ? this.#texts.noneFound : this.#texts.none;
      setText(this.#none, many > shown.length ? (this.#texts.more ?? text.tags.more)(count(many - shown.length)) : shown.length > 0 ? note : none);
      setAttribute(this.#none, 'hidden', this.#none.textContent === '');
      setAttribute(this.#search, 'hidden', !this.searched && many < 2);
      setAttribute(this.#table, 'hidden', shown.length === 0);
      this.fail(away);
    });
  }

  /** Hides a column, or shows it. */
  hide(name, hidden) {
    const at = this.#columns.findIndex((column) => column.name === name);
    for (const row of this.#table.rows) setAttribute(row.children[at], 'hidden', hidden);
  }

  /** Says above what was read why it cannot be read again; with null it can. */
  fail(err) {
    setText(this.#away.firstElementChild, err ? text.away : '');
    setText(this.#away.lastElementChild, err ? err.message : '');
    setAttribute(this.#away, 'hidden', err === null);
  }
}
