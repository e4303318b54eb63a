// Loss, accuracy and throughput of whole networks.

function positive(values) {
  return listOf(values).map((value) => (isNumber(value) && value > 0 ? value : null));
}

function steps(values) {
  return values.map((y, i) => ({x: i + 1, y}));
}

function addLossChart(parent, results) {
  const arms = listOf(results.training.arms).filter((arm) => listOf(arm.loss).length > 0);
  if (arms.length === 0) return;
  const count = Math.max(...arms.map((arm) => arm.loss.length));
  const names = arms.map((arm) => armName(results, arm.arm)).join(", ");
  addChart(parent, "Loss, step by step", `Loss of each step of ${names}`, 320, () =>
    lineChart(
      // The first arm lies on top and is thinner, so that those below stay visible.
      arms.map((arm, i) => lineStyle(arm.arm, {label: armName(results, arm.arm),
        data: steps(arm.loss), pointRadius: 0, borderWidth: 1.5 + 3 * i})),
      {x: stepAxis(count), y: valueAxis("loss", arms.flatMap((arm) => arm.loss))}));
}

// What parts arms, and what parts an arm from itself.
function lossDifferences(results) {
  const between = listOf(results.training.differences).map((difference) => ({
    label: `${armName(results, difference.a)} and ${armName(results, difference.b)}`,
    values: positive(difference.loss), arm: difference.a, dash: []}));
  const within = listOf(results.training.arms)
    .filter((arm) => listOf(arm.repeat_loss).length > 0)
    .map((arm) => ({
      label: `${armName(results, arm.arm)} and itself`,
      values: positive(arm.repeat_loss.map((again, i) =>
        (isNumber(again) && isNumber(arm.loss[i]) ? Math.abs(again - arm.loss[i]) : null))),
      arm: arm.arm, dash: [3, 3]}));
  return [...between, ...within];
}

// Whether some value has no neighbour to draw a line to.
function alone(values) {
  return values.some((y, i) => y !== null && (values[i - 1] ?? null) === null &&
    (values[i + 1] ?? null) === null);
}

function addDifferenceChart(parent, results) {
  const all = lossDifferences(results);
  const equal = all.filter((set) => set.values.length && set.values.every((y) => y === null));
  const parted = all.filter((set) => set.values.some((y) => y !== null));
  if (parted.length > 0) {
    const count = Math.max(...parted.map((set) => set.values.length));
    const values = parted.flatMap((set) => set.values).filter((value) => value !== null);
    const title = "Difference of the losses";
    const names = parted.map((set) => set.label).join("; ");
    addChart(parent, title, `${title} at each step: ${names}`, 320, () =>
      lineChart(
        parted.map((set) => lineStyle(set.arm, {label: set.label, data: steps(set.values),
          pointRadius: alone(set.values) ? 2 : 0, borderWidth: set.dash.length ? 1 : 2,
          borderDash: set.dash})),
        {x: stepAxis(count), y: logAxis("|difference|, logarithmic", ...logBounds(values, 1.3))}));
  }
  if (parted.some((set) => set.values.includes(null))) {
    parent.append(make("p", {class: "note"}, "Where a line is missing, the losses are equal to the bit."));
  }
  if (equal.length > 0) {
    parent.append(make("p", {class: "note"},
      `Equal to the bit at every step: ${equal.map((set) => set.label).join("; ")}.`));
  }
}

// Places 0, 1, 2, ... under the names of the seeds.
function seedAxis(seeds) {
  return {type: "linear", min: -0.5, max: seeds.length - 0.5, title: axisTitle("seed"),
    grid: {display: false},
    afterBuildTicks: (axis) => { axis.ticks = seeds.map((seed, value) => ({value})); },
    ticks: {color: colour("faint"), maxRotation: 0, callback: (place) => `${seeds[place]}`}};
}

function addAccuracyChart(parent, results) {
  const seeds = listOf(results.training.seeds);
  const arms = listOf(results.training.arms).filter((arm) => listOf(arm.accuracy).some(isNumber));
  if (seeds.length === 0 || arms.length === 0) return;
  const names = arms.map((arm) => armName(results, arm.arm)).join(", ");
  addChart(parent, "Accuracy by seed", `Accuracy after training from each seed, of ${names}`, 280,
    () => ({
      type: "scatter",
      data: {
        // The arms stand side by side, so that equal ones do not hide each other.
        datasets: arms.map((arm, i) => pointsStyle(arm.arm, {label: armName(results, arm.arm),
          data: arm.accuracy.map((value, seed) => ({x: seed + 0.08 * (i - (arms.length - 1) / 2),
            y: isNumber(value) ? 100 * value : null}))})),
      },
      options: {
        plugins: {legend: legend({}), tooltip: {callbacks: {
          label: (item) => `${item.dataset.label}: ${item.parsed.y.toFixed(2)}%`}}},
        scales: {
          x: seedAxis(seeds),
          y: {title: axisTitle("accuracy, %"), grace: "15%", ticks: {color: colour("faint")}},
        },
      },
    }));
}

// ---- throughput ----

function addThroughputChart(parent, results, what) {
  const key = `${what}_images_per_s`;
  const entries = listOf(results.throughput).filter((entry) => entry.batch > 0);
  const byArm = new Map();
  entries.forEach((entry) => listOf(entry.arms).forEach((arm) => {
    if (!arm || !(arm[key] > 0)) return;
    if (!byArm.has(arm.arm)) byArm.set(arm.arm, []);
    byArm.get(arm.arm).push({x: entry.batch, y: arm[key]});
  }));
  if (byArm.size === 0) return;
  const arms = [...byArm.keys()].sort((a, b) => a - b);
  const points = arms.flatMap((arm) => byArm.get(arm));
  const batches = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const title = what === "training" ? "Training" : "Inference";
  const names = arms.map((arm) => armName(results, arm)).join(", ");
  addChart(parent, title, `${title}: images per second by batch size, of ${names}`, 340, () => ({
    type: "line",
    data: {datasets: arms.map((arm) => lineStyle(arm, {label: armName(results, arm),
      data: byArm.get(arm), pointRadius: 5, pointHoverRadius: 7}))},
    options: {
      interaction: {mode: "x", intersect: false},
      plugins: {legend: legend({})},
      scales: {
        x: {
          ...logAxis("batch, logarithmic", ...logBounds(batches, 1.2)),
          afterBuildTicks: (axis) => { axis.ticks = batches.map((value) => ({value})); },
          ticks: {color: colour("faint"), maxRotation: 0, autoSkipPadding: 6,
            callback: (value) => String(value)},
        },
        y: logAxis("images/s, logarithmic", ...logBounds(points.map((point) => point.y), 1.3)),
      },
    },
  }));
}
