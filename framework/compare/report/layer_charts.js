// Bars of the layers' times, and the roofline.

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

// A few times apart, bars start at zero; farther apart they need a logarithmic axis.
function timeAxis(rows, arms) {
  const times = rows.flatMap((row) => arms.map((arm) => timeOf(listOf(row.arms)[arm])))
    .filter((value) => value !== null);
  const floors = rows.map((row) => row.floor_us).filter((value) => value > 0);
  const low = Math.min(...times, ...floors), high = Math.max(...times, ...floors);
  if (high <= 20 * low) return {...linearAxis("µs"), beginAtZero: true};
  // A floor far below every time would take the room in which the arms differ: its bar is left out.
  return logAxis("µs, logarithmic", Math.max(low / 1.5, Math.min(...times) / 30), high * 1.1);
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
      scales: {x: timeAxis(rows, arms), y: rowLabelAxis(rows)},
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
