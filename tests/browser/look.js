// Looks at a report of the lab in a headless Chromium, and says what is wrong with it.
//
//   CHROMIUM=/usr/bin/chromium node look.js [--views light:400,dark:1600] [--pictures FOLDER] REPORT RUN...
//
//   CHROMIUM=/usr/bin/chromium node look.js --difference DRAWING FUNCTION...
//
// looks at a differential flame graph, in which these functions must be red.
//
// REPORT is the page, RUN the folders of the runs that it is of, in their order. Prints `ok`, or a line for each problem, and ends with
// 1 if there is any. What must be drawn is computed anew from the records: how many points a line has, and where they lie.
'use strict';

const { readFileSync, mkdirSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
const { parseArgs } = require('node:util');
const { chromium } = require('playwright-core');

const HEIGHT = 900;

// How long a flame graph may take to be drawn.
const PATIENCE = 10_000;

// Drawings have one digit after the point.
const PIXELS = 0.16;

// Contrast that letters and lines need (WCAG 2.2, 1.4.3 and 1.4.11).
const LETTERS = 4.5;
const LINES = 3;

// Letters of this height are read without glasses that magnify.
const LETTER_PIXELS = 9.5;

const sum = (figures) => figures.reduce((all, one) => all + one, 0);
const mean = (figures) => Math.exp(sum(figures.map(Math.log)) / figures.length);
const isSound = (one) => one.state === 'complete' && one.errors === 0 && one.operations > 0 && one.unsent === 0;

// Percentiles that have a mark, and how rare what lies beyond them is.
const MARKS = [['p50_us', 2], ['p90_us', 10], ['p99_us', 100], ['p999_us', 1000]];

// Percentiles of each second, where enough requests were slower.
const OVER_TIME = [['p50', 'p50_us', 2], ['p99', 'p99_us', 100], ['p999', 'p999_us', 1000]];

// What the plots of a run must show: kind, threads, and for each series its points and the figures behind them.
function expected(run) {
  const plots = [];
  // A curve of a few answers is none.
  if (run.load.queries.length) return plots;
  const all = (target, threads) => run.measurements.filter((one) => one.target === target && one.threads === threads);
  const sound = (target, threads) => all(target, threads).filter(isSound);
  const targets = run.targets.map((target) => target.name);
  const throughput = (ones) => mean(ones.map((one) => one.operations_per_second));
  const p99 = (ones) => mean(ones.map((one) => one.latency.p99_us));
  if (run.load.threads.length > 1) {
    for (const [kind, figure, least] of [['scaling', throughput, 1], ['scaling-p99', p99, 1000]]) {
      const series = targets.map((target) => {
        const cells = run.load.threads.map((threads) => sound(target, threads).filter((one) => one.operations >= least));
        const figures = cells.filter((ones) => ones.length).map(figure);
        return { name: target, points: figures.length, figures, marks: figures };
      });
      plots.push({ kind, threads: null, logarithmic: kind !== 'scaling', series: series.filter((one) => one.points) });
    }
  }
  for (const threads of run.load.threads) {
    if (run.load.threads.length === 1) {
      const bars = targets.map((target) => sound(target, threads));
      plots.push({ kind: 'bars', threads, bars: bars.filter((ones) => ones.length).map(throughput) });
    }
    const curves = targets.map((target) => {
      const ones = sound(target, threads);
      const operations = sum(ones.map((one) => one.operations));
      let points = 1;
      while (10 ** ((points - 1) / 20) < operations) points += 1;
      const marks = MARKS.map(([name, rarity]) => ones.filter((one) => rarity === 2 || one.operations / rarity >= 10).map((one) => one.latency[name]));
      return { name: target, points: ones.length && points, marks: marks.filter((ones) => ones.length).map(mean) };
    });
    plots.push({ kind: 'percentiles', threads, logarithmic: true, rising: true, series: curves.filter((one) => one.points) });
    const lines = targets.flatMap((target) => all(target, threads)).map((one) => {
      const figures = one.completed_per_second.slice(0, Math.floor(one.measured_seconds));
      return { name: `${one.target}, repetition ${one.repetition}`, points: figures.length, figures, marks: [] };
    });
    plots.push({ kind: 'over-time', threads, logarithmic: false, series: lines });
    for (const [percentile, field, rarity] of OVER_TIME) {
      const series = targets.flatMap((target) => all(target, threads)).map((one) => {
        const seconds = one.latency_per_second.slice(0, Math.floor(one.measured_seconds));
        const figures = seconds.filter((second) => Math.floor(second.operations / rarity) >= 10).map((second) => second[field]);
        return { name: `${one.target}, repetition ${one.repetition}`, points: figures.length, figures, marks: [] };
      });
      const drawn = series.filter((one) => one.points);
      if (drawn.length) plots.push({ kind: `latency-over-time-${percentile}`, threads, logarithmic: true, series: drawn });
    }
  }
  return plots;
}

// Totals of the flame graphs of a run, by target, threads and kind.
function expectedFlames(run) {
  const totals = new Map();
  for (const one of run.measurements.filter(isSound)) {
    for (const { kind, total } of one.profiles) {
      const name = [one.target, one.threads, kind].join();
      totals.set(name, (totals.get(name) ?? 0) + total);
    }
  }
  return [...totals.values()].filter((total) => total).sort((a, b) => a - b);
}

// What the page shows; runs in the browser.
function measured() {
  const box = (element) => {
    const { left, top, right, bottom, width, height } = element.getBoundingClientRect();
    return { left, top, right, bottom, width, height };
  };
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = channels(colour).map((channel) => {
      const part = channel / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const under = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (channels(colour)[3] !== 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const contrast = (element, property) => {
    const [one, other] = [luminance(getComputedStyle(element)[property]), luminance(under(element))];
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  };
  const drawing = (figure) => {
    const svg = figure.querySelector('svg.drawing');
    return {
      kind: figure.dataset.kind,
      threads: figure.dataset.threads ? Number(figure.dataset.threads) : null,
      title: figure.querySelector('h4').textContent,
      box: box(svg),
      legend: figure.querySelector('.legend') && box(figure.querySelector('.legend')),
      texts: [...svg.querySelectorAll('text')].filter(shown).map((text) => ({ text: text.textContent, box: box(text), contrast: contrast(text, 'fill') })),
      grid: [...svg.querySelectorAll('.grid')].length,
      bars: [...svg.querySelectorAll('rect.bar')].map((bar) => ({ width: bar.width.baseVal.value, box: box(bar), shown: shown(bar), contrast: contrast(bar, 'fill') })),
      series: [...svg.querySelectorAll('g.series')].map((series) => ({
        name: series.dataset.name,
        values: series.dataset.y?.split('|').length,
        lines: [...series.querySelectorAll('polyline')].map((line) => ({
          points: [...line.points].map(({ x, y }) => [x, y]),
          length: line.getTotalLength(),
          box: box(line),
          shown: shown(line) && getComputedStyle(line).stroke !== 'none' && parseFloat(getComputedStyle(line).strokeWidth) >= 1,
          contrast: contrast(line, 'stroke'),
        })),
        marks: [...series.querySelectorAll('path.dot')].map((mark) => {
          const { e, f } = mark.transform.baseVal.consolidate().matrix;
          return { x: e, y: f, shown: shown(mark) };
        }),
      })),
    };
  };
  const cell = (element) => ({
    text: element.textContent,
    box: box(element),
    cut: element.scrollWidth > element.clientWidth + 1,
    size: parseFloat(getComputedStyle(element).fontSize),
    contrast: contrast(element, 'color'),
  });
  return {
    width: document.documentElement.scrollWidth,
    letters: [...document.querySelectorAll('h1, h2, h3, h4, p, dt, dd, figcaption, small, a, li, summary')]
      .filter(shown)
      .map((element) => ({ text: element.textContent.slice(0, 40), contrast: contrast(element, 'color') })),
    sections: [...document.querySelectorAll('section')].map((section) => ({
      plots: [...section.querySelectorAll('figure.plot')].map(drawing),
      table: [...section.querySelectorAll(':scope > .wide td')].map(cell),
      titles: [...section.querySelectorAll(':scope > h3:has(+ .wide)')].map((title) => title.textContent),
      scrolled: [...section.querySelectorAll(':scope > .wide')].some((wide) => wide.scrollWidth > wide.clientWidth + 1),
    })),
  };
}

// The titles of the tables that a run must have below its first one.
function expectedTables(run) {
  const sound = run.measurements.filter(isSound);
  const titles = [];
  if (run.load.queries.length) {
    titles.push('mean latency by query');
    if (sound.some((one) => one.server_memory_peak_bytes > one.server_memory_loaded_bytes && one.server_memory_loaded_bytes !== null)) titles.push('peak above the data by query');
    if (sound.some((one) => one.server_memory_peak_bytes)) titles.push('peak memory by query');
    if (sound.some((one) => one.engine_memory_bytes)) titles.push("engine's memory by query");
  }
  if (sound.some((one) => one.kinds.length)) titles.push('Each kind of operations');
  if (sound.some((one) => one.server_parts.length)) titles.push('Server CPU per operation, by process');
  if (sound.some((one) => one.server_live_bytes !== null)) titles.push('Memory of a JVM, which is mostly the heap that it was given');
  return titles;
}

const overlap = (one, other) =>
  one.left < other.right - 0.5 && other.left < one.right - 0.5 && one.top < other.bottom - 0.5 && other.top < one.bottom - 0.5;

// Whether all of these places lie as one scale puts these figures.
function lieOnOneScale(pairs, say) {
  const scaled = [...pairs].sort((a, b) => a[0] - b[0]);
  const [low, high] = [scaled[0], scaled.at(-1)];
  if (high[0] === low[0]) {
    if (Math.abs(high[1] - low[1]) > PIXELS) say('the same figure lies at two heights');
    return;
  }
  const step = (high[1] - low[1]) / (high[0] - low[0]);
  if (!(step < 0)) say('larger figures do not lie higher');
  for (const [figure, place] of scaled) {
    const right = low[1] + step * (figure - low[0]);
    if (!(Math.abs(place - right) <= 2 * PIXELS)) say(`a figure lies at ${place} instead of ${right.toFixed(1)}`);
  }
}

function judgePlot(plot, wanted, width, say) {
  if (plot.box.width < Math.min(300, width - 60) || plot.box.height < (plot.bars.length ? 20 : 120)) say(`is only ${plot.box.width} by ${plot.box.height} pixels`);
  if (plot.box.left < 0 || plot.box.right > width) say('is cut off at the side');
  if (plot.legend && overlap(plot.legend, plot.box)) say('has its legend over the lines');
  for (const text of plot.texts) {
    if (text.box.height < LETTER_PIXELS) say(`has letters of ${text.box.height.toFixed(1)} pixels: ${text.text}`);
    if (text.box.left < 0 || text.box.right > width) say(`has letters off the screen: ${text.text}`);
    if (text.contrast < LETTERS) say(`has letters of contrast ${text.contrast.toFixed(1)}: ${text.text}`);
  }
  plot.texts.forEach((one, place) => {
    for (const other of plot.texts.slice(place + 1)) {
      if (overlap(one.box, other.box)) say(`has letters over letters: ${one.text}, ${other.text}`);
    }
  });
  if (wanted.bars) {
    if (plot.bars.length !== wanted.bars.length) return say(`has ${plot.bars.length} bars instead of ${wanted.bars.length}`);
    const scale = plot.bars[0].width / wanted.bars[0];
    plot.bars.forEach((bar, place) => {
      if (!bar.shown || bar.contrast < LINES) say(`has a bar that is not seen`);
      if (Math.abs(bar.width - wanted.bars[place] * scale) > 2 * PIXELS || bar.width <= 0) say(`has a bar of ${bar.width}, which its figure is not`);
    });
    return undefined;
  }
  if (plot.grid < 4) say('has hardly any grid');
  const names = plot.series.map((series) => series.name).sort();
  const right = wanted.series.map((series) => series.name).sort();
  if (names.join() !== right.join()) return say(`has the lines ${names} instead of ${right}`);
  const places = [];
  for (const series of wanted.series) {
    const drawn = plot.series.find((one) => one.name === series.name);
    const points = drawn.lines.flatMap((line, part) => line.points.slice(part));
    if (points.length !== series.points) say(`has ${points.length} points of ${series.name} instead of ${series.points}`);
    if (drawn.values !== series.points) say(`tells ${drawn.values} figures of ${series.name} instead of ${series.points}`);
    if (drawn.marks.length !== Math.max(series.marks.length, points.length === 1 ? 1 : 0)) say(`has ${drawn.marks.length} marks of ${series.name} instead of ${series.marks.length}`);
    for (const line of drawn.lines) {
      if (line.points.length > 1 && !(line.shown && line.length > 5 && line.contrast >= LINES)) say(`has a line of ${series.name} that is not seen`);
      const { left, top, right, bottom } = line.box;
      if (left < plot.box.left - 1 || right > plot.box.right + 1 || top < plot.box.top - 1 || bottom > plot.box.bottom + 1) say(`has a line of ${series.name} beside itself`);
    }
    if (drawn.marks.some((mark) => !mark.shown)) say(`has a mark of ${series.name} that is not seen`);
    if (wanted.rising && points.some(([, y], place) => place && y > points[place - 1][1] + PIXELS)) say(`has a curve of ${series.name} that falls`);
    if (points.some(([x], place) => place && x < points[place - 1][0])) say(`has points of ${series.name} out of their order`);
    const scaled = (figure) => (wanted.logarithmic ? Math.log(figure) : figure);
    points.forEach(([, y], place) => series.figures?.[place] !== undefined && places.push([scaled(series.figures[place]), y]));
    drawn.marks.forEach((mark, place) => series.marks[place] !== undefined && places.push([scaled(series.marks[place]), mark.y]));
    if (wanted.kind === 'percentiles') {
      // 90 %, 99 % and 99.9 % are as far from each other.
      const [, nine, two, three] = drawn.marks;
      if (three && Math.abs(three.x - two.x - (two.x - nine.x)) > 2 * PIXELS) say('has nines of different width');
    }
  }
  if (places.length) lieOnOneScale(places, say);
  return undefined;
}

function judge(seen, runs, width, say) {
  if (seen.width > width) say(`the page is ${seen.width} pixels wide and scrolls`);
  for (const { text, contrast } of seen.letters) {
    if (contrast < LETTERS) say(`letters of contrast ${contrast.toFixed(1)}: ${text}`);
  }
  if (seen.sections.length !== runs.length) return say(`${seen.sections.length} sections instead of ${runs.length}`);
  seen.sections.forEach(({ plots, table, titles, scrolled }, place) => {
    const wanted = expected(runs[place]);
    for (const plot of wanted) {
      const name = `run ${place + 1}, plot ${plot.kind}${plot.threads === null ? '' : ` of ${plot.threads} threads`}`;
      const found = plots.filter((one) => one.kind === plot.kind && one.threads === plot.threads);
      if (found.length !== 1) say(`${name} is there ${found.length} times`);
      else judgePlot(found[0], plot, width, (what) => say(`${name} ${what}`));
    }
    if (plots.length !== wanted.length) say(`run ${place + 1} has ${plots.length} plots instead of ${wanted.length}`);
    const tables = expectedTables(runs[place]);
    if (titles.join() !== tables.join()) say(`run ${place + 1} has the tables ${titles} instead of ${tables}`);
    const cells = new Set(runs[place].measurements.map((one) => [one.target, one.threads, one.query].join()));
    if (table.length < 10 * cells.size) say(`run ${place + 1} has a table of ${table.length} cells`);
    if (scrolled) say(`run ${place + 1} has a table that scrolls`);
    for (const { text, box, cut, size, contrast } of table) {
      if (box.left < 0 || box.right > width || cut) say(`run ${place + 1} has a table that is cut off at: ${text}`);
      if (box.width === 0 || box.height < 12 || size < 13 || contrast < LETTERS) say(`run ${place + 1} has a table that cannot be read at: ${text}`);
    }
  });
  return undefined;
}

// The pointer over the middle of each plot is told figures of it.
async function hover(page, width, say) {
  const figures = await page.locator('figure.plot:has(.cursor)').all();
  for (const figure of figures) {
    const title = await figure.locator('h4').textContent();
    await figure.scrollIntoViewIfNeeded();
    await figure.locator('svg.drawing').hover();
    const tip = figure.locator('.tip');
    if (!(await tip.isVisible())) {
      say(`nothing is shown under the pointer of: ${title}`);
      continue;
    }
    const told = await tip.locator('b').allTextContents();
    const values = await figure.locator('g.series').evaluateAll((all) => all.flatMap((one) => one.dataset.y.split('|')));
    if (!told.length || told.some((text) => !values.includes(text))) say(`other figures are shown under the pointer of: ${title}`);
    const { x, width: wide } = await tip.boundingBox();
    if (x < 0 || x + wide > width) say(`figures under the pointer are off the screen: ${title}`);
  }
}

// Every flame graph is drawn in its frame, and is zoomed by a click.
async function flames(page, runs, width, say) {
  const wanted = runs.flatMap(expectedFlames).sort((a, b) => a - b);
  await page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
  const elements = await page.locator('iframe').elementHandles();
  const totals = [];
  for (const element of elements) {
    const title = await element.getAttribute('title');
    await element.scrollIntoViewIfNeeded();
    const frame = await element.contentFrame();
    try {
      // The drawing takes the width of its frame when its script has run.
      await frame.waitForFunction(() => Math.abs(document.querySelector('#frames rect')?.parentElement.parentElement.getBoundingClientRect().width - innerWidth + 20) < 2, null, { timeout: PATIENCE });
    } catch (error) {
      say(`the flame graph is not drawn: ${title}: ${error.message.split('\n')[0]}`);
      continue;
    }
    const drawn = await frame.evaluate(() => {
      const all = [...document.querySelectorAll('#frames > g')];
      const wide = (group) => Number(group.querySelector('rect').getAttribute('fg:w'));
      const root = all.reduce((best, one) => (wide(one) > wide(best) ? one : best));
      const other = all.filter((one) => wide(one) < wide(root)).sort((a, b) => wide(b) - wide(a))[0];
      const before = other && other.querySelector('rect').getBoundingClientRect().width;
      other?.querySelector('rect').dispatchEvent(new MouseEvent('click', { bubbles: true }));
      const after = other && other.querySelector('rect').getBoundingClientRect().width;
      return {
        total: Number(document.querySelector('#frames').getAttribute('total_samples')),
        widths: all.map((group) => group.querySelector('rect').getBoundingClientRect().width),
        root: root.querySelector('rect').getBoundingClientRect().width,
        names: all.every((group) => group.querySelector('title').textContent.length > 3),
        written: all.filter((group) => group.querySelector('text').textContent.length > 3).length,
        zoomed: !other || after > before,
        over: document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight + 1,
      };
    });
    totals.push(drawn.total);
    if (drawn.root < width / 2 - 30 || drawn.widths.length < 2) say(`the flame graph is ${drawn.root} wide and has ${drawn.widths.length} boxes: ${title}`);
    if (!drawn.names || !drawn.written) say(`the flame graph has no names: ${title}`);
    if (!drawn.zoomed) say(`the flame graph does not zoom: ${title}`);
    if (drawn.over) say(`the flame graph is larger than its frame: ${title}`);
  }
  totals.sort((a, b) => a - b);
  if (totals.join() !== wanted.join()) say(`flame graphs of ${totals} instead of ${wanted}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) say(`the page with everything open is ${wide} pixels wide and scrolls`);
}

async function look(browser, address, runs, colorScheme, width, pictures) {
  const problems = new Set();
  const say = (what) => problems.add(`${colorScheme}, ${width} pixels: ${what}`);
  const context = await browser.newContext({ colorScheme, viewport: { width, height: HEIGHT } });
  const page = await context.newPage();
  page.on('console', (message) => {
    if (['error', 'warning', 'assert'].includes(message.type())) say(`the console says: ${message.text()}`);
  });
  page.on('pageerror', (error) => say(`uncaught: ${error.message}`));
  page.on('request', (request) => {
    const url = request.url();
    if (url !== address && !url.startsWith('data:') && !url.startsWith('about:')) say(`fetched: ${url}`);
  });
  // What the page's own policy refuses is never asked for; that it was tried is wrong all the same.
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`refused by its policy: ${event.blockedURI}`));
  });
  await page.goto(address, { waitUntil: 'load' });
  judge(await page.evaluate(measured), runs, width, say);
  await hover(page, width, say);
  await page.mouse.move(0, 0);
  if (pictures) await page.screenshot({ path: join(pictures, `${colorScheme}-${width}.png`), fullPage: true });
  await flames(page, runs, width, say);
  if (pictures) await page.screenshot({ path: join(pictures, `${colorScheme}-${width}-open.png`), fullPage: true });
  await context.close();
  return [...problems];
}

// A page of `compare`: it is drawn, what grew is red, and it fetches nothing.
async function lookAtDifference(browser, address) {
  const problems = [];
  const page = await browser.newPage({ viewport: { width: 1600, height: HEIGHT } });
  page.on('console', (message) => problems.push(`the console says: ${message.text()}`));
  page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
  page.on('request', (request) => {
    if (request.url() !== address && !request.url().startsWith('data:')) problems.push(`fetched: ${request.url()}`);
  });
  await page.goto(address, { waitUntil: 'load' });
  const drawn = await page.evaluate(() => {
    const frames = [...document.querySelectorAll('#frames > g')];
    const colour = (frame) => (getComputedStyle(frame.querySelector('rect')).fill.match(/\d+/g) ?? []).map(Number);
    const seen = frames.filter((frame) => frame.querySelector('rect').getBoundingClientRect().width >= 1);
    return {
      frames: seen.length,
      red: seen.filter((frame) => colour(frame)[0] > colour(frame)[2]).map((frame) => frame.querySelector('title').textContent),
    };
  });
  if (drawn.frames < 3) problems.push(`only ${drawn.frames} boxes are seen`);
  if (!drawn.red.some((title) => title.includes('+'))) problems.push(`no box is red: ${drawn.red}`);
  await page.close();
  return { problems: problems.map((what) => `${address}: ${what}`), red: drawn.red };
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { views: { type: 'string', default: 'light:400,light:1600,dark:400,dark:1600' }, pictures: { type: 'string' }, difference: { type: 'boolean', default: false } },
  });
  const [report, ...folders] = positionals;
  const runs = (values.difference ? [] : folders).map((folder) => JSON.parse(readFileSync(join(folder, 'run.json'), 'utf8')));
  if (values.pictures) mkdirSync(values.pictures, { recursive: true });
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  const problems = [];
  try {
    if (values.difference) {
      // FILE FUNCTION...: each of these functions is red in the drawing.
      const { problems: found, red } = await lookAtDifference(browser, pathToFileURL(report).href);
      problems.push(...found);
      problems.push(...folders.filter((name) => !red.some((title) => title.includes(name))).map((name) => `${name} is not red among: ${red.join('; ')}`));
    }
    for (const view of values.difference ? [] : values.views.split(',')) {
      const [scheme, width] = view.split(':');
      problems.push(...(await look(browser, pathToFileURL(report).href, runs, scheme, Number(width), values.pictures)));
    }
  } finally {
    await browser.close();
  }
  console.log(problems.length ? problems.join('\n') : 'ok');
  process.exitCode = problems.length ? 1 : 0;
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 2;
});
