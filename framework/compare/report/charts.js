// Charts by Chart.js, drawn in the colours of the style sheet, and drawn again when those change or
// the page is printed.

Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;
Chart.defaults.font.family = getComputedStyle(document.documentElement).fontFamily;

// Of each arm; all can be filled, and turned ones count as others.
const kShapes = ["circle", "triangle", "rect", "rectRot", "triangle", "triangle"];
const kShapeTurns = [0, 0, 0, 0, 180, 90];
const kShapeSizes = [5.5, 7, 7, 7, 7, 7];  // radii at which they look equally large
const drawn = [];  // {canvas, describe}: describe() gives what Chart.js draws

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function armColour(index) {
  return colour(`arm-${index % 6}`);
}

function draw(canvas, describe) {
  const existing = Chart.getChart(canvas);
  if (existing) existing.destroy();
  Chart.defaults.color = colour("text");
  Chart.defaults.borderColor = colour("grid");
  const description = describe();
  // Paper has finer dots than the screen.
  const printing = document.documentElement.classList.contains("printing");
  if (printing) description.options.devicePixelRatio = 2;
  new Chart(canvas, description);
}

function drawAll() {
  drawn.forEach(({canvas, describe}) => draw(canvas, describe));
}

// Adds a chart of the given height. `label` tells what it shows to those who cannot see it; the
// numbers follow it in a table.
function addChart(parent, title, label, height, describe) {
  const canvas = make("canvas", {role: "img", "aria-label": label}, label);
  const plot = make("div", {class: "plot"}, canvas);
  plot.style.height = `${height}px`;
  parent.append(make("figure", {}, make("figcaption", {}, title), plot));
  draw(canvas, describe);
  drawn.push({canvas, describe});
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

// On paper everything is open, and charts are light and as wide as the paper.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((details) => { details.open = true; });
  document.documentElement.classList.add("printing");
  drawAll();
});
addEventListener("afterprint", () => {
  opened.forEach((details) => { details.open = false; });
  document.documentElement.classList.remove("printing");
  drawAll();
});

// Room between the legend and the labels of the axis below it.
Chart.register({
  id: "legendRoom",
  beforeInit(chart) {
    const fit = chart.legend.fit;
    chart.legend.fit = function () {
      fit.call(this);
      this.height += 8;
    };
  },
});

// ---- axes ----

function shortNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9) return `${Number((value / 1e9).toPrecision(3))}G`;
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (size < 1e-3) return Number(value.toPrecision(3)).toExponential();
  return String(Number(value.toPrecision(3)));
}

// Whether `value` is 1, 2 or 5 times a power of ten, or only such a power where there are many.
function isRoundTick(value, low, high) {
  const power = Math.pow(10, Math.floor(Math.log10(value) + 1e-9));
  const digit = Math.round(value / power);
  if (Math.abs(value / power - digit) > 1e-6) return false;
  return digit === 1 || (Math.log10(high / low) < 2.5 && (digit === 2 || digit === 5));
}

function axisTitle(text) {
  return {display: true, text, color: colour("faint")};
}

function logAxis(title, low, high) {
  return {
    type: "logarithmic",
    min: low,
    max: high,
    title: axisTitle(title),
    ticks: {
      color: colour("faint"),
      maxRotation: 0,
      callback(value) {
        return isRoundTick(value, this.min, this.max) ? shortNumber(value) : null;
      },
    },
  };
}

function linearAxis(title) {
  return {type: "linear", title: axisTitle(title), grace: "5%",
    ticks: {color: colour("faint"), maxRotation: 0, callback: (value) => shortNumber(value)}};
}

// Bounds of a logarithmic axis with some room around the values, which are above 0.
function logBounds(values, room) {
  return [Math.min(...values) / room, Math.max(...values) * room];
}

function legend(sizes) {
  return {position: "top", align: "start",
    labels: {sort: (a, b) => a.datasetIndex - b.datasetIndex, usePointStyle: true, boxWidth: 8, boxHeight: 8, padding: 14, ...sizes}};
}

function lineStyle(index, more) {
  return {borderColor: armColour(index), backgroundColor: armColour(index), borderWidth: 2,
    pointStyle: kShapes[index % 6], pointRotation: kShapeTurns[index % 6], ...more};
}

// Points without a line, with a rim that sets them off from those below.
function pointsStyle(index, more) {
  return lineStyle(index, {showLine: false, pointRadius: kShapeSizes[index % 6],
    pointHoverRadius: 9, borderColor: colour("page"), borderWidth: 1, ...more});
}

// ---- lines over steps ----

function stepAxis(count) {
  return {type: "linear", min: 1, max: Math.max(2, count), title: axisTitle("step"),
    ticks: {color: colour("faint"), precision: 0, maxRotation: 0}};
}

function lineChart(sets, axes) {
  return {
    type: "line",
    // Turned points would turn the lines of the legend.
    data: {datasets: sets.map((set) => ({...set, pointRotation: 0}))},
    options: {
      interaction: {mode: "index", intersect: false},
      plugins: {legend: legend({pointStyle: "line", pointStyleWidth: 26})},
      scales: axes,
    },
  };
}

// A logarithmic axis where all values are above 0, else an ordinary one.
function valueAxis(title, values) {
  const found = values.filter(isNumber);
  if (found.some((value) => value <= 0)) return linearAxis(title);
  return logAxis(`${title}, logarithmic`, ...logBounds(found, 1.15));
}
