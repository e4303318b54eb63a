// Puts a training into the page, section by section.

const run = JSON.parse(document.getElementById("results").textContent);
const epochs = listOf(run.curves.epochs);
const loggedSteps = listOf(run.curves.steps);

// A line over epochs or steps; `scale` is 100 for a percentage.
function curve(place, label, list, x, key, scale = 1) {
  const data = list.filter((entry) => isNumber(entry[key]))
    .map((entry) => ({x: entry[x], y: scale * entry[key]}));
  return lineStyle(place, {label, data, pointRadius: data.length < 30 ? 3 : 0});
}

// Adds a chart of those curves that have points.
function addCurves(parent, title, x, curves, axis) {
  const drawnCurves = curves.filter((set) => set.data.length > 0);
  if (drawnCurves.length === 0) return;
  const points = drawnCurves.flatMap((set) => set.data);
  const part = make("div", {});
  addChart(part, title, `${title}, by ${x}: ${drawnCurves.map((set) => set.label).join(", ")}`, 300, () => {
    const xAxis = stepAxis(Math.max(...points.map((point) => point.x)));
    xAxis.title = axisTitle(x);
    // Colours are read again: those of the screen may have changed.
    const sets = drawnCurves.map((set, i) => ({...set, ...lineStyle(i, {})}));
    return lineChart(sets, {x: xAxis, y: axis(points.map((point) => point.y))});
  });
  parent.append(part);
}

// Logarithmic where values differ much.
function lossAxis(values) {
  return Math.max(...values) < 5 * Math.min(...values) ? linearAxis("loss") : valueAxis("loss", values);
}

function fillSummary(content) {
  if (run.cut_short) {
    content.append(make("p", {class: "note"},
      "The last line of metrics.jsonl is cut short and left out: the training still runs, or was killed."));
  }
  addFigures(content, run.tables.figures);
}

function fillCurves(content) {
  const pair = make("div", {class: "pair"});
  const percent = () => ({...linearAxis("accuracy, %"), grace: 0, max: 100});
  addCurves(pair, "Loss", "epoch", [
    curve(0, "training", epochs, "epoch", "train_loss"),
    curve(1, "validation", epochs, "epoch", "val_loss")], lossAxis);
  addCurves(pair, "Accuracy", "epoch", [
    curve(0, "training", epochs, "epoch", "train_accuracy", 100),
    curve(1, "validation", epochs, "epoch", "val_accuracy", 100),
    curve(2, "validation, top 5", epochs, "epoch", "val_top5", 100)], percent);
  for (const {name} of listOf((epochs[0] ?? {}).metrics)) {
    const values = epochs.map((entry) => ({epoch: entry.epoch,
      ...listOf(entry.metrics).find((metric) => metric.name === name)}));
    addCurves(pair, name, "epoch", [
      curve(0, "training", values, "epoch", "train"),
      curve(1, "validation", values, "epoch", "validation")], () => linearAxis(name));
  }
  addCurves(pair, "Loss of single steps", "step", [
    curve(0, "training", loggedSteps, "step", "loss")], lossAxis);
  const [list, x] = loggedSteps.length > 1 ? [loggedSteps, "step"] : [epochs, "epoch"];
  addCurves(pair, "Learning rate", x, [curve(0, "learning rate", list, x, "learning_rate")],
    () => ({...linearAxis("learning rate"), beginAtZero: true}));
  if (pair.childElementCount > 0) content.append(pair);
  addFolded(content, run.tables.epochs, "Every epoch");
}

// The matrix, each cell shaded by its share of the row.
function addMatrix(parent, classes, rows) {
  if (listOf(rows).length === 0) return;
  const columns = [{name: "is \\ predicted", number: false},
    ...classes.map((name) => ({name, number: true}))];
  const cells = rows.map((row, i) =>
    [{text: classes[i]}, ...row.map((images) => ({text: `${images}`}))]);
  const table = makeTable({columns, rows: cells}, "Confusion matrix");
  table.querySelectorAll("tbody tr").forEach((line, i) => {
    const sum = rows[i].reduce((a, b) => a + b, 0);
    line.querySelectorAll("td").forEach((cell, j) => {
      const share = sum > 0 ? rows[i][j] / sum : 0;
      const name = i === j ? "good" : "bad";
      cell.style.background =
        `color-mix(in srgb, var(--${name}) ${Math.round(40 * Math.sqrt(share))}%, var(--page))`;
    });
  });
  parent.append(make("h3", {}, "Confusion matrix"), table);
}

function fillClasses(content) {
  addMatrix(content, run.confusion.classes, run.confusion.rows);
  if (hasRows(run.tables.confusions)) content.append(make("h3", {}, "Most frequent confusions"));
  addTable(content, run.tables.confusions, "Most frequent confusions");
  if (hasRows(run.tables.classes)) {
    content.append(make("h3", {}, `Each class, after epoch ${run.confusion.epoch}`));
  }
  addTable(content, run.tables.classes, "Precision and recall of each class");
}

function fillFilters(content) {
  if (!run.filters.picture) return;
  content.append(make("figure", {}, make("figcaption", {}, run.filters.name),
    make("img", {class: "filters", src: run.filters.picture, alt: `The filters of ${run.filters.name}`})));
}

function fillNetwork(content) {
  addTable(content, run.tables.network, "Network");
}

function fillMachine(content) {
  addTable(content, run.tables.machine, "Machine and run");
  addFoldedText(content, run.config, "Configuration");
}

document.getElementById("about").textContent = run.about.filter(Boolean).join(" · ");
fill("summary", fillSummary);
fill("curves", fillCurves);
fill("classes", fillClasses);
fill("filters", fillFilters);
fill("network", fillNetwork);
fill("machine", fillMachine);
