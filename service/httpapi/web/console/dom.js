// The page's only way to make and fill elements. What a server or a user wrote
// becomes a text node or the value of an attribute; nothing here reads HTML.

import { text } from './text.js';

/** The element with this id. */
export const $ = (id) => document.getElementById(id);

const svgNamespace = 'http://www.w3.org/2000/svg';

/** Makes an element; children are nodes or texts, null is none. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(node, name, value);
  node.append(...children.filter((child) => child != null));
  return node;
}

/** Sets an attribute if it differs; null and false remove it. */
export function setAttribute(node, name, value) {
  if (value == null || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? '' : value);
}

/** Sets a text if it differs, so that a selection in the page survives a poll. */
export function setText(node, words) {
  if (node.textContent !== String(words)) node.textContent = words;
}

/** A sign whose shape tells the state too: ok, warning, critical, info, off, unknown. */
export function icon(state) {
  const svg = fill(document.createElementNS(svgNamespace, 'svg'), { class: 'icon', 'data-state': state, 'aria-hidden': 'true' }, []);
  svg.append(fill(document.createElementNS(svgNamespace, 'use'), { href: `#icon-${state}` }, []));
  return svg;
}

/** Changes what an icon of icon() shows. */
export function setIcon(svg, state) {
  setAttribute(svg, 'data-state', state);
  setAttribute(svg.firstChild, 'href', `#icon-${state}`);
}

/**
 * Draws one part of the page. An error that stops it is shown at the top of its place and keeps no
 * other part from being drawn.
 */
export function draw(place, part) {
  place.querySelector(':scope > .failed')?.remove();
  try {
    part();
  } catch (err) {
    console.error(err);
    place.prepend(el('p', { class: 'error failed', role: 'alert' }, text.failed(String(err))));
  }
}

/**
 * A list whose elements stay the same while their keys do: focus, scroll position
 * and selection survive a poll.
 */
export class KeyedList {
  #parent;
  #create;
  #update;
  #nodes = new Map();

  /** create(key) makes an element, update(element, item) fills it. */
  constructor(parent, create, update) {
    this.#parent = parent;
    this.#create = create;
    this.#update = update;
  }

  /** Shows the items, each with a key of its own, in this order. */
  show(items, keyOf) {
    const focused = this.#parent.contains(document.activeElement) ? document.activeElement : null;
    const keys = new Set(items.map(keyOf));
    for (const key of [...this.#nodes.keys()]) if (!keys.has(key)) this.#drop(key);
    let place = this.#parent.firstElementChild;
    for (const item of items) {
      const node = this.#node(keyOf(item));
      this.#update(node, item);
      if (node === place) place = place.nextElementSibling;
      else this.#parent.insertBefore(node, place);
    }
    // An element that is moved loses the focus.
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  #node(key) {
    if (!this.#nodes.has(key)) this.#nodes.set(key, this.#create(key));
    return this.#nodes.get(key);
  }

  #drop(key) {
    this.#nodes.get(key).remove();
    this.#nodes.delete(key);
  }
}

/**
 * Fills a description list with [term, text, state] rows; null is no row,
 * and a state puts its sign before the text.
 */
export function describe(list, rows) {
  if (!lists.has(list)) lists.set(list, new KeyedList(list, createTerm, fillTerm));
  lists.get(list).show(rows.filter((row) => row !== null), ([term]) => term);
}

const lists = new WeakMap();

function createTerm(term) {
  return el('div', {}, el('dt', {}, term), el('dd', {}, icon('unknown'), el('span')));
}

function fillTerm(row, [, value, state = null]) {
  const [sign, words] = row.lastChild.children;
  setAttribute(row.lastChild, 'data-state', state);
  setAttribute(sign, 'hidden', state === null);
  if (state !== null) setIcon(sign, state);
  setText(words, value);
}
