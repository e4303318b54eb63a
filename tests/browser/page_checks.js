// What the browser test asks of a page.

// A colour as [red, green, blue, alpha], however it was written.
const colours = new Map();
function rgba(text) {
  if (!colours.has(text)) {
    const canvas = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas");
    const context = canvas.getContext("2d", {willReadFrequently: true});
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    colours.set(text, [...context.getImageData(0, 0, 1, 1).data]);
  }
  return colours.get(text);
}

function rgb(text) {
  return rgba(text).slice(0, 3);
}

function axisOf(scale) {
  const ends = scale.isHorizontal() ? [scale.left, scale.right] : [scale.bottom, scale.top];
  const [from, to] = scale.options.reverse ? ends.reverse() : ends;
  return {type: scale.type, min: scale.min, max: scale.max, from, to};
}

function charts() {
  return [...document.querySelectorAll("canvas")].map((canvas, index) => {
    const chart = Chart.getChart(canvas);
    const box = canvas.getBoundingClientRect();
    return {
      index, label: canvas.getAttribute("aria-label"), width: box.width, height: box.height,
      x: axisOf(chart.scales.x), y: axisOf(chart.scales.y),
      legend: chart.legend.legendHitBoxes.map((box) => [box.left + 4, box.top + box.height / 2]),
      datasets: chart.data.datasets.map((dataset, i) => ({
        label: dataset.label,
        shape: `${dataset.pointStyle} ${dataset.pointRotation}`,
        kind: dataset.pointHitRadius === 0 ? "roof" : dataset.type,
        colour: `${rgb(dataset.backgroundColor)}`,
        values: dataset.data.map((value) => (value !== null && typeof value === "object" ? value.y : value)),
        positions: chart.getDatasetMeta(i).data
          .filter((point, j) => chart.config.type === "bar" || dataset.data[j] === null ||
            typeof dataset.data[j] !== "object" || dataset.data[j].y !== null)
          .map((point) => ({x: point.x, y: point.y, base: point.base, height: point.height})),
      })),
    };
  });
}

// What a canvas shows, in a copy made for reading.
function drawing(index) {
  const canvas = document.querySelectorAll("canvas")[index];
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d", {willReadFrequently: true});
  context.drawImage(canvas, 0, 0);
  return {context, ratio: Chart.getChart(canvas).currentDevicePixelRatio};
}

// The colours drawn at places [x, y] of a canvas, in the chart's own pixels.
function pixelsAt(index, places) {
  const {context, ratio} = drawing(index);
  return places.map(([x, y]) => {
    const data = context.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data;
    return `${[...data.slice(0, 3)]}`;
  });
}

// The opaque colours of a canvas, and how many differ.
function pixels(index) {
  const {context} = drawing(index);
  const {width, height} = context.canvas;
  const data = context.getImageData(0, 0, width, height).data;
  const counts = new Map();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 255) continue;
    const key = `${data[i]},${data[i + 1]},${data[i + 2]}`;
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  return {colours: counts.size, all: [...counts.keys()]};
}

function background() {
  return rgb(getComputedStyle(document.documentElement).backgroundColor);
}

// The text of each table's body, by the table's label.
function tableTexts() {
  return Object.fromEntries([...document.querySelectorAll("table")].map((table) => [
    table.getAttribute("aria-label"),
    [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))]));
}

// How far right the verdicts of a table reach, with it scrolled to its left end.
function verdictEdge(label) {
  const table = [...document.querySelectorAll("table")]
    .find((one) => one.getAttribute("aria-label") === label);
  const place = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "verdict");
  return table.tBodies[0].rows[0].cells[place].getBoundingClientRect().right;
}

// The tables of which a part is cut off or has to be scrolled to.
function cutTables() {
  return [...document.querySelectorAll("table")]
    .filter((table) => {
      const box = table.parentElement;
      return box.scrollHeight > box.clientHeight + 2 || box.scrollWidth > box.clientWidth + 2;
    })
    .map((table) => table.getAttribute("aria-label"));
}

function tableHeights() {
  return [...document.querySelectorAll("table")].map((table) => table.getBoundingClientRect().height);
}

function firstInMain() {
  const box = document.querySelector("main .verdict");
  const first = document.querySelector("main section .content").firstElementChild;
  if (box !== first) throw new Error("the verdict is not first");
  return {text: box.textContent, colour: rgb(getComputedStyle(box).color),
    top: box.getBoundingClientRect().top};
}

// ---- contrast, as WCAG 2 defines it ----

function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : Math.pow((share + 0.055) / 1.055, 2.4);
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// What lies behind an element's text: backgrounds may be translucent. `known` remembers elements.
function behind(element, known = new Map()) {
  if (!element) return [255, 255, 255];
  if (!known.has(element)) {
    const layer = rgba(getComputedStyle(element).backgroundColor);
    const share = layer[3] / 255;
    const below = share === 1 ? layer : behind(element.parentElement, known);
    known.set(element, [0, 1, 2].map((i) => below[i] + (layer[i] - below[i]) * share));
  }
  return known.get(element);
}

// Colours change at once from now on.
function withoutTransitions() {
  document.head.append(Object.assign(document.createElement("style"),
    {textContent: "* { transition: none !important }"}));
}

// [contrast, text] of every element that has text of its own.
function contrasts() {
  const known = new Map();
  return [...document.querySelectorAll("body *")]
    .filter((element) => !element.closest("script,canvas") && [...element.childNodes].some((node) =>
      node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== ""))
    .map((element) => [contrast(rgb(getComputedStyle(element).color), behind(element, known)),
      element.textContent.slice(0, 60)]);
}

// [contrast, name] of what charts draw, and of their text.
function chartContrasts() {
  return [...document.querySelectorAll("canvas")].flatMap((canvas) => {
    const chart = Chart.getChart(canvas), page = behind(canvas);
    return [
      ...chart.data.datasets.map((set) => [contrast(rgb(set.backgroundColor), page), set.label]),
      ...Object.values(chart.scales).map((scale) =>
        [contrast(rgb(scale.options.ticks.color), page) / 1.5, `${scale.id} axis`]),
    ];
  });
}

// ---- layout ----

// The elements that stick out of a page of that width, but for those in a box that scrolls.
function beyond(width) {
  return [...document.querySelectorAll("body *")].filter((element) => {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.right <= width + 1) return false;
    for (let node = element.parentElement; node; node = node.parentElement) {
      const overflow = getComputedStyle(node).overflowX;
      if (overflow === "auto" || overflow === "scroll") return false;
    }
    return true;
  }).map((element) => `${element.tagName} ${element.className} ${element.textContent.slice(0, 40)}`);
}

// How wide the page is, and what the boxes of a selector hold.
function widths(selector) {
  return [document.documentElement, ...document.querySelectorAll(selector)].map((box) => box.scrollWidth);
}

// [source, whether it was loaded] of every picture.
function pictures() {
  return [...document.images].map((image) => [image.src, image.complete && image.naturalWidth > 0]);
}

// A chart that is the whole document: texts, in its own units, and how bars and they stand out.
function drawn() {
  const fill = (element) => rgb(getComputedStyle(element).fill);
  const page = fill(document.querySelector(".page"));
  const texts = [...document.querySelectorAll("text")].map((text) => {
    const box = text.getBBox();
    return {words: text.textContent, size: parseFloat(getComputedStyle(text).fontSize),
      contrast: contrast(fill(text), page), left: box.x, right: box.x + box.width,
      middle: box.y + box.height / 2, height: box.height};
  });
  const overlaps = texts.flatMap((a, i) => texts.slice(i + 1)
    .filter((b) => a.left < b.right && b.left < a.right &&
      Math.abs(a.middle - b.middle) < 0.3 * (a.height + b.height))
    .map((b) => `${a.words} and ${b.words}`));
  return {texts, overlaps, width: document.documentElement.viewBox.baseVal.width,
    bars: [...document.querySelectorAll("rect:not(.page)")].map((bar) => contrast(fill(bar), page))};
}

// Notes how the page is when it is printed.
function watchPrinting() {
  addEventListener("beforeprint", () => {
    window.printed = {closed: document.querySelectorAll("details:not([open])").length,
      background: background()};
  });
}
