// The curves of the last 15 minutes, drawn by uPlot. Their figures are also text: the
// legend of each chart shows the latest ones, or those under the pointer.

import { $, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { clock, rate, short } from './format.js';

/** What a chart shows, in seconds: all that the server keeps, but no less than the shortest. */
const longest = 15 * 60;
const shortest = 60;

const milliseconds = (n) => (Number.isFinite(n) ? text.milliseconds(n < 10 ? n.toFixed(2) : short(n)) : text.unknown);

/** The charts of the section; a series without a value, such as one of a disabled mode, is left out. */
const layout = [
  { title: text.charts.issued, unit: text.charts.units.ids, write: rate, of: ofModes('issued') },
  { title: text.charts.p99, unit: text.charts.units.milliseconds, write: milliseconds, of: ofModes('p99Ms') },
  { title: text.charts.refused, unit: text.charts.units.requests, write: rate, of: [['refused.caller', text.charts.byCaller], ['refused.service', text.charts.byService]] },
];

/** The same series of each mode. */
function ofModes(name) {
  return Object.entries(text.modes).map(([mode, label]) => [`${mode}.${name}`, label]);
}

/** Each curve of a chart has a colour and dashes of its own. */
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3], [12, 3]];

/** The time of day below a chart, in UTC, in whole minutes where they are apart. */
function times(_, ticks, axis, space, increment) {
  return ticks.map((t) => clock(new Date(t * 1000)).slice(0, increment < 60 ? 8 : 5));
}

/** The colour that a custom property of the style sheet has in the present theme. */
function colour(name) {
  const probe = el('span', { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function legendEntry(index, label) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  for (const [name, value] of [['viewBox', '0 0 24 4'], ['class', 'dash'], ['data-curve', index], ['aria-hidden', 'true']]) svg.setAttribute(name, value);
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  line.setAttribute('d', 'M0 2h24');
  line.setAttribute('stroke-dasharray', dashes[index].join(' '));
  svg.append(line);
  return el('li', {}, svg, el('span', {}, label), el('strong'));
}

/** One chart in a figure. Safe to show() before the page has a size. */
export class Chart {
  #axis;
  #height;
  #write;
  #plot = null;
  #place = el('div', { class: 'plot', 'aria-hidden': 'true' });
  #legend = el('ul', { class: 'legend' });
  #when = el('span', { class: 'when' });
  #none = el('p', { class: 'hint' }, text.charts.none);
  #curves = []; // those that are drawn
  #data = null;

  /** The values are in unit, which stands at the axis; write() writes one. */
  constructor(figure, title, unit, write, height) {
    this.#write = write;
    this.#height = height;
    this.#axis = el('span', { class: 'unit' }, unit);
    figure.append(el('figcaption', {}, title, this.#when), this.#axis, this.#place, this.#none, this.#legend);
    new ResizeObserver(() => this.#resize()).observe(this.#place);
  }

  /** Shows the curves of a history; keys is a list of [series, label], in the order of the colours. */
  show(history, keys) {
    const curves = keys.map(([key, label], index) => ({ index, label, values: history?.series?.[key] ?? [] }));
    const found = curves.filter(({ values }) => values.some((value) => value !== null));
    const times = history?.times ?? [];
    const any = times.length > 0 && found.length > 0;
    setAttribute(this.#none, 'hidden', any);
    setAttribute(this.#place, 'hidden', !any);
    setAttribute(this.#axis, 'hidden', !any);
    setAttribute(this.#legend, 'hidden', !any);
    if (!any) return;
    this.#data = [times, ...found.map(({ values }) => values)];
    if (this.#curves.map(({ index }) => index).join() !== found.map(({ index }) => index).join()) this.#build(found);
    else this.#plot?.setData(this.#data);
    this.#tell();
  }

  /** Draws anew when the system has another theme. */
  recolour() {
    if (this.#data) this.#build(this.#curves);
  }

  #build(curves) {
    this.#curves = curves;
    this.#legend.replaceChildren(...curves.map(({ index, label }) => legendEntry(index, label)));
    this.#plot?.destroy();
    this.#plot = null;
    this.#resize();
  }

  /** uPlot wants a width, so it is made when there is one. */
  #resize() {
    const width = this.#place.clientWidth;
    if (width === 0 || !this.#data) return;
    if (this.#plot) this.#plot.setSize({ width, height: this.#height });
    else this.#plot = new uPlot(this.#options(width), this.#data, this.#place);
  }

  #options(width) {
    const text = colour('--dim');
    const grid = { stroke: colour('--line'), width: 1 };
    const font = '11px system-ui, sans-serif';
    return {
      width,
      height: this.#height,
      padding: [8, 20, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { setScale: false }, sync: { key: 'shardid' } },
      scales: { x: { range: (_, min, max) => [Math.max(max - longest, Math.min(min, max - shortest)), max] }, y: { range: (_, min, max) => [0, Math.max(max ?? 0, this.#write === milliseconds ? 0.1 : 1) * 1.1] } },
      axes: [
        { stroke: text, grid, ticks: grid, font, space: 70, size: 26, values: times },
        { stroke: text, grid, ticks: grid, font, space: 28, size: 44, values: (_, ticks) => ticks.map((n) => short(n)) },
      ],
      series: [{}, ...this.#curves.map(({ index }) => this.#curve(index))],
      hooks: { setCursor: [() => this.#tell()] },
    };
  }

  #curve(index) {
    return { stroke: colour(`--curve-${index}`), width: 1.8, dash: dashes[index], spanGaps: false, points: { show: false } };
  }

  /** Writes the figures under the pointer, or the latest. */
  #tell() {
    const [times, ...curves] = this.#data;
    const pointed = this.#plot?.cursor.idx;
    const at = pointed ?? times.length - 1;
    setText(this.#when, pointed == null ? '' : `${clock(new Date(times[at] * 1000))} UTC`);
    for (const [i, entry] of [...this.#legend.children].entries()) {
      const value = curves[i]?.[at];
      setText(entry.lastChild, value == null ? text.unknown : this.#write(value));
    }
  }
}

/** The charts of the section of rates. */
export class Rates {
  #charts = layout.map(({ title, unit, write, of }) => {
    const figure = el('figure', { class: 'chart panel' });
    $('charts').append(figure);
    return [new Chart(figure, title, unit, write, 140), of];
  });

  show(history) {
    for (const [chart, keys] of this.#charts) chart.show(history, keys);
  }

  recolour() {
    for (const [chart] of this.#charts) chart.recolour();
  }
}
