// The curves of the last hour, drawn by uPlot: of all replicas together, of the app and of the tag that are chosen.
// Their figures are also text: the legend of each chart shows those under the pointer, or the latest.

import { $, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { clock, count, duration, rate, short } from './format.js';

/** What a chart shows, in seconds: all that the server keeps, but no less than the shortest. */
const longest = 3600;
const shortest = 60;

/** The height of a chart, in pixels. */
const height = 140;

/** 0.25 ms, 812 ms, 2.5 s. */
const milliseconds = (n) => (n < 1000 ? text.milliseconds(n < 10 ? n.toFixed(2) : count(n)) : duration(n / 1000));

/** The charts of the section; a series without a value, such as one of a disabled mode, is not drawn. */
const layout = [
  { title: text.charts.issued, unit: text.charts.units.ids, write: rate, of: ofModes('issued') },
  { title: text.charts.p99, unit: text.charts.units.milliseconds, write: milliseconds, of: ofModes('p99Ms') },
  { title: text.charts.refused, unit: text.charts.units.requests, write: rate, of: [['refused.caller', text.charts.byCaller], ['refused.service', text.charts.byService]] },
];

/** The same series of each mode. */
function ofModes(name) {
  return Object.entries(text.modes).map(([mode, label]) => [`${mode}.${name}`, label]);
}

/** Each curve of a chart has a colour and dashes of its own, and the legend signs like them. */
const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3], [12, 3]];
const signs = ['solid', 'dashed', 'dotted', 'double', 'groove'];

/** The time of day below a chart, in UTC, in whole minutes where they are apart. */
function times(_, ticks, axis, space, increment) {
  return ticks.map((t) => clock(new Date(t * 1000)).slice(0, increment < 60 ? 8 : 5));
}

/** Gives the colour that a custom property of the style sheet has in the theme at the time of a drawing. */
const colour = (name) => () => {
  const probe = el('span', { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
};

/** One chart in a figure. Safe to show() before the page has a size. */
class Chart {
  #title = el('figcaption');
  #axis;
  #write;
  #plot = null;
  #place = el('div', { class: 'plot' });
  #none = el('p', { class: 'hint' }, text.charts.none);
  #curves = []; // those that are drawn
  #data = null;

  /** The values are in unit, which stands at the axis; write() writes one. They are IDs a second unless it is said. */
  constructor(figure, unit = text.charts.units.ids, write = rate) {
    this.#write = write;
    this.#axis = el('span', { class: 'unit' }, unit);
    figure.append(this.#title, this.#axis, this.#place, this.#none);
    new ResizeObserver(() => this.#resize()).observe(this.#place);
  }

  /** Shows the curves of a history; keys is a list of [series, label], in the order of the colours. */
  show(history, title, keys) {
    setText(this.#title, title);
    const curves = keys.map(([key, label], index) => ({ index, label, values: history.series[key] ?? [] }));
    const found = curves.filter(({ values }) => values.some((value) => value !== null));
    const any = found.length > 0;
    setAttribute(this.#none, 'hidden', any);
    setAttribute(this.#place, 'hidden', !any);
    setAttribute(this.#axis, 'hidden', !any);
    if (!any) return;
    this.#data = [history.times, ...found.map(({ values }) => values)];
    if (this.#curves.map(({ label }) => label).join() === found.map(({ label }) => label).join()) {
      this.#plot?.setData(this.#data);
      return;
    }
    this.#curves = found;
    this.#plot?.destroy();
    this.#plot = null;
    this.#resize();
  }

  /** uPlot wants a width, so it is made when there is one. */
  #resize() {
    const width = this.#place.clientWidth;
    if (width === 0 || !this.#data) return;
    if (this.#plot) this.#plot.setSize({ width, height });
    else this.#plot = new uPlot(this.#options(width), this.#data, this.#place);
  }

  #options(width) {
    const text = colour('--dim');
    const grid = { stroke: colour('--line'), width: 1 };
    const font = '11px system-ui, sans-serif';
    return {
      width,
      height,
      padding: [8, 20, 0, 0],
      legend: { markers: { dash: (_, i) => signs[this.#curves[i - 1].index] } },
      cursor: { y: false, points: { size: 6 }, drag: { setScale: false }, sync: { key: 'shardid' } },
      scales: { x: { range: (_, min, max) => [Math.max(max - longest, Math.min(min, max - shortest)), max] }, y: { range: (_, min, max) => [0, Math.max(max ?? 0, this.#write === milliseconds ? 0.1 : 1) * 1.1] } },
      axes: [
        { stroke: text, grid, ticks: grid, font, space: 70, size: 26, values: times },
        { stroke: text, grid, ticks: grid, font, space: 28, size: 44, values: (_, ticks) => ticks.map((n) => short(n)) },
      ],
      series: [{ label: 'UTC', value: (plot, _, i, at) => clock(new Date(valueAt(plot, i, at) * 1000)) }, ...this.#curves.map((curve) => this.#curve(curve))],
    };
  }

  #curve({ index, label }) {
    const value = (plot, _, i, at) => { const n = valueAt(plot, i, at); return n == null ? text.unknown : this.#write(n); };
    return { label, value, stroke: colour(`--curve-${index}`), width: 1.8, dash: dashes[index], spanGaps: false, points: { show: isSingle } };
  }
}

/** Whether a curve has one value so far: no line can be drawn, but a point can. */
const isSingle = (plot, i) => plot.data[i].filter((value) => value !== null).length === 1;

/** What the legend shows of a curve: the value under the pointer, or the latest. */
function valueAt(plot, i, at) {
  return plot.data[i].at(at ?? -1);
}

/** The section of rates, which is of all replicas. */
export class Rates {
  #charts = layout.map(({ title, unit, write, of }) => {
    const figure = el('figure', { class: 'chart panel' });
    $('charts').append(figure);
    return [new Chart(figure, unit, write), title, of];
  });

  show(history) {
    const latest = (series) => history.series[series]?.at(-1) ?? 0;
    const all = ofModes('issued').reduce((sum, [series]) => sum + latest(series), 0);
    setText($('rates-sum'), history.times.length > 0 ? text.charts.sum(rate(all), latest('replicas'), history.message) : '');
    for (const [chart, title, keys] of this.#charts) chart.show(history, title, keys);
  }
}

/** The curve of one thing that is chosen, in a figure that is shown while something is. */
export class Chosen {
  #figure;
  #chart;

  constructor(figure) {
    this.#figure = figure;
    this.#chart = new Chart(figure);
  }

  /** Shows a series of the history under the name of the thing; nothing, while the history lacks it. */
  show(history, series, name) {
    setAttribute(this.#figure, 'hidden', !history.series[series]);
    if (history.series[series]) this.#chart.show(history, text.charts.issuedOf(name), [[series, name]]);
  }
}
