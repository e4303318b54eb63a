// Bars of the layers' times, dots of their speedups, and the roofline.

function timeOf(arm) {
  return arm && arm.us && isNumber(arm.us.median) && arm.us.median > 0 ? arm.us.median : null;
}

// Names longer than the chart has room for lose their middle; the table has them whole.
function shorten(text, letters) {
  if (text.length <= letters) return text;
  const half = Math.floor((letters - 1) / 2);
  return `${text.slice(0, letters - 1 - half)}…${text.slice(text.length - half)}`;
}

function rowLabelAxis(rows) {
  return {
    grid: {display: false},
    ticks: {
      autoSkip: false,
      color: colour("text"),
      callback(value) {
        const letters = this.chart.width < 500 ? 15 : 26;
        const row = rows[value];
        return [shorten(row.layer || "", letters), shorten(row.pass || "", letters)];
      },
    },
  };
}

// "custom: 2.44 µs by custom_direct"
function timeText(item, rows, arms) {
  const arm = listOf(rows[item.dataIndex].arms)[arms[item.datasetIndex]];
  const by = arm && arm.implementation ? ` by ${arm.implementation}` : "";
  return `${item.dataset.label}: ${shortNumber(item.raw)} µs${by}`;
}

function addLayerBars(parent, results, batch, arms) {
  const rows = listOf(batch.rows).filter((row) =>
    arms.some((arm) => timeOf(listOf(row.arms)[arm]) !== null));
  if (rows.length === 0) return;
  const names = arms.map((arm) => armName(results, arm));
  const title = "Time of each layer and pass";
  const height = 90 + rows.length * Math.max(34, 11 * (arms.length + 1) + 10);
  addChart(parent, title, `${title} at batch ${batch.batch}: ` +
    `bars for ${names.join(", ")} and the floor`, height, () => ({
    type: "bar",
    data: {
      labels: rows.map((row) => `${row.layer} ${row.pass}`),
      datasets: [
        ...arms.map((arm) => ({
          label: armName(results, arm),
          data: rows.map((row) => timeOf(listOf(row.arms)[arm])),
          backgroundColor: armColour(arm),
          pointStyle: "rect",
        })),
        {label: "floor", pointStyle: "rect", backgroundColor: colour("floor"),
          data: rows.map((row) => (row.floor_us > 0 ? row.floor_us : null))},
      ],
    },
    options: {
      indexAxis: "y",
      barPercentage: 0.9,
      categoryPercentage: 0.8,
      plugins: {
        legend: legend({}),
        tooltip: {callbacks: {label: (item) => timeText(item, rows, arms)}},
      },
      // From zero, so that lengths are times and all bars together are the step.
      scales: {x: {...linearAxis("µs"), beginAtZero: true}, y: rowLabelAxis(rows)},
    },
  }));
}

// ---- speedups ----

// The ratios of one pair of arms, a row each; null where there is none.
function ratiosOf(rows, a, b) {
  return rows.map((row) => listOf(row.ratios).find((ratio) =>
    ratio.a === a && ratio.b === b && ratio.speedup > 0) || null);
}

// [a, b] of every pair of arms that some row compares; where all are compared with all, only those
// of the first arm.
function pairsOf(rows, arms) {
  const found = new Map();
  rows.forEach((row) => listOf(row.ratios).forEach((ratio) => {
    if (ratio && ratio.speedup > 0) found.set(`${ratio.a} ${ratio.b}`, [ratio.a, ratio.b]);
  }));
  const pairs = [...found.values()];
  return pairs.length < arms ? pairs : pairs.filter(([a]) => a === 0);
}

// A line at 1, where neither arm is faster.
const evenLine = {
  id: "evenLine",
  beforeDatasetsDraw(chart) {
    const {ctx, chartArea, scales} = chart;
    const x = scales.x.getPixelForValue(1);
    if (x < chartArea.left || x > chartArea.right) return;
    ctx.save();
    ctx.strokeStyle = colour("faint");
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x, chartArea.top);
    ctx.lineTo(x, chartArea.bottom);
    ctx.stroke();
    ctx.restore();
  },
};

// The 95% intervals, behind the dots.
const intervals = {
  id: "intervals",
  beforeDatasetsDraw(chart) {
    const {ctx, scales} = chart;
    chart.data.datasets.forEach((set, i) => {
      if (!chart.isDatasetVisible(i)) return;
      ctx.save();
      ctx.strokeStyle = set.backgroundColor;
      ctx.lineWidth = 3;
      set.data.forEach(({y, low, high}) => {
        if (!(low > 0) || !(high > 0)) return;
        const at = scales.y.getPixelForValue(y);
        ctx.beginPath();
        ctx.moveTo(scales.x.getPixelForValue(low), at);
        ctx.lineTo(scales.x.getPixelForValue(high), at);
        ctx.stroke();
      });
      ctx.restore();
    });
  },
};

function ratioAxis(values) {
  const [low, high] = logBounds([1, ...values], 1.15);
  const axis = logAxis("", low, high);
  axis.title.text = "times as fast, logarithmic; right of 1: the arm named first is faster";
  return axis;
}

function addSpeedupDots(parent, results, batch) {
  const rows = listOf(batch.rows);
  const pairs = pairsOf(rows, listOf(results.arms).length);
  const against = pairs.every(([a]) => a === 0) && pairs.length > 1 ? 1 : 0;  // which tells pairs apart
  const compared = rows.filter((row) => listOf(row.ratios).some((ratio) => ratio && ratio.speedup > 0));
  if (compared.length === 0) return;
  const sets = pairs.map(([a, b], i) => ({
    a, b, label: `${armName(results, a)} against ${armName(results, b)}`,
    // Pairs stand side by side in a row.
    data: ratiosOf(compared, a, b).flatMap((ratio, row) => (ratio === null ? [] : [{
      x: ratio.speedup, y: row + 0.22 * (i - (pairs.length - 1) / 2),
      low: ratio.low, high: ratio.high, verdict: ratio.verdict, row: compared[row]}])),
  }));
  const values = sets.flatMap((set) => set.data.flatMap((dot) => [dot.x, dot.low, dot.high]))
    .filter((value) => value > 0);
  const labels = rowLabelAxis(compared);
  const height = 90 + compared.length * Math.max(34, 14 * pairs.length + 10);
  addChart(parent, "Speedup of each layer and pass",
    `Speedup of each layer and pass at batch ${batch.batch}, with 95% intervals: ` +
    sets.map((set) => set.label).join(", "), height, () => ({
      type: "scatter",
      data: {datasets: sets.map((set) => pointsStyle([set.a, set.b][against],
        {label: set.label, data: set.data}))},
      plugins: [evenLine, intervals],
      options: {
        plugins: {
          legend: legend({}),
          tooltip: {callbacks: {label: ({raw, dataset}) =>
            `${raw.row.layer} ${raw.row.pass}, ${dataset.label}: ${shortNumber(raw.x)}x ` +
            `(${shortNumber(raw.low)} to ${shortNumber(raw.high)}), ${raw.verdict}`}},
        },
        scales: {
          x: ratioAxis(values),
          y: {
            type: "linear", min: -0.5, max: compared.length - 0.5, reverse: true,
            ...labels,
            grid: {color: colour("grid")},
            afterBuildTicks: (axis) => { axis.ticks = compared.map((row, value) => ({value})); },
          },
        },
      },
    }));
}

// ---- roofline ----

function rooflinePoints(batch, arm) {
  return listOf(batch.rows).flatMap((row) => {
    const found = listOf(row.arms)[arm];
    const rate = found && found.gflop_per_s;
    if (!(row.flops > 0) || !(row.bytes > 0) || !(rate > 0)) return [];
    return [{x: row.flops / row.bytes, y: rate, text: `${row.layer} ${row.pass}`}];
  });
}

// The peaks that were measured; the one of the arithmetic in use first.
function peaksOf(ceilings, math) {
  const peaks = [["fp32", ceilings.fp32_gflop_per_s], ["tf32", ceilings.tf32_gflop_per_s]]
    .filter(([, rate]) => rate > 0)
    .map(([name, rate]) => ({name, rate}));
  return peaks.sort((a, b) => (b.name === math) - (a.name === math));
}

function roofLine(peak, first, bandwidth, low, high) {
  const y = (x) => Math.min(peak.rate, x * bandwidth);
  const ridge = peak.rate / bandwidth;
  const xs = [low, ...(ridge > low && ridge < high ? [ridge] : []), high];
  return {
    type: "line",
    label: `${peak.name} peak and bandwidth, measured`,
    data: xs.map((x) => ({x, y: y(x)})),
    borderColor: colour("floor"),
    backgroundColor: colour("floor"),
    borderDash: first ? [] : [6, 5],
    borderWidth: 2,
    pointRadius: 0,
    pointHitRadius: 0,
    pointStyle: "line",
  };
}

function addRoofline(parent, results, batch, arms) {
  const ceilings = (results.environment && results.environment.ceilings) || {};
  const sets = arms.map((arm) => ({arm, points: rooflinePoints(batch, arm)}))
    .filter((set) => set.points.length > 0);
  if (sets.length === 0) return;
  const points = sets.flatMap((set) => set.points);
  const bandwidth = ceilings.copy_gb_per_s > 0 ? ceilings.copy_gb_per_s : null;
  const peaks = bandwidth ? peaksOf(ceilings, batch.math || results.math) : [];
  const ridges = peaks.slice(0, 1).map((peak) => peak.rate / bandwidth);
  const [left, right] = logBounds([...points.map((point) => point.x), ...ridges], 2);
  const ceilingRates = peaks.flatMap((peak) => [peak.rate, Math.min(peak.rate, left * bandwidth)]);
  const [bottom, top] = logBounds([...points.map((point) => point.y), ...ceilingRates], 1.6);
  const title = "Speed against arithmetic intensity of each layer and pass";
  const names = sets.map((set) => armName(results, set.arm)).join(", ");
  addChart(parent, title, `Roofline at batch ${batch.batch}: ` +
    `GFLOP/s against FLOP per byte for ${names}`, 420, () => ({
    type: "scatter",
    data: {
      datasets: [
        ...sets.map(({arm, points: data}) => pointsStyle(arm, {label: armName(results, arm), data})),
        ...peaks.map((peak, i) => roofLine(peak, i === 0, bandwidth, left, right)),
      ],
    },
    options: {
      plugins: {
        legend: legend({}),
        tooltip: {
          filter: (item) => Boolean(item.raw.text),
          callbacks: {
            label: (item) => `${item.raw.text}, ${item.dataset.label}: ` +
              `${shortNumber(item.raw.y)} GFLOP/s at ${shortNumber(item.raw.x)} FLOP/byte`,
          },
        },
      },
      scales: {
        x: logAxis("FLOP/byte", left, right),
        y: logAxis("GFLOP/s", bottom, top),
      },
    },
  }));
}
