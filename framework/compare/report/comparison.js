// Puts the results of a comparison into the page, section by section. A section without content goes away.

const {results, tables} = JSON.parse(document.getElementById("results").textContent);
const arms = tables.arms.map((name, index) => index);

function fillHeader() {
  const list = make("ul", {id: "arms", "aria-label": "Arms"});
  document.getElementById("about").before(list);
  arms.forEach((index) => {
    const arm = listOf(results.arms)[index] || {};
    const swatch = make("span", {class: "swatch", "aria-hidden": "true"});
    swatch.style.background = `var(--arm-${index % 6})`;
    const asked = arm.request && arm.request !== arm.name ? ` (${arm.request})` : "";
    const device = arm.device ? ` on the ${arm.device.toUpperCase()}` : "";
    list.append(make("li", {}, swatch, make("strong", {}, tables.arms[index]),
      make("span", {class: "note"}, `${asked}${device}`)));
  });
  const environment = results.environment || {};
  const said = [environment.gpu || environment.cpu, results.math, results.quick ? "quick run" : "",
    environment.duet ? `Duet ${environment.duet}` : "", results.date];
  document.getElementById("about").textContent = said.filter(Boolean).join(" · ");
}

function addVerdict(content) {
  if (tables.stopped) {
    content.append(make("p", {class: "verdict bad", role: "alert"},
      make("strong", {}, "Stopped before its end"), tables.stopped));
  }
  const summary = results.summary;
  if (!summary) return;
  const mismatch = summary.first_mismatch;
  if (mismatch) {
    content.append(make("p", {class: "verdict bad", role: "alert"},
      make("strong", {}, "First mismatch"), mismatch.text || "an arm is wrong"));
  } else if (summary.ok === false) {
    content.append(make("p", {class: "verdict bad", role: "alert"},
      make("strong", {}, "The comparison failed")));
  } else if (summary.ok === true && !tables.stopped && listOf(results.layers).length > 0) {
    content.append(make("p", {class: "verdict good"}, make("strong", {}, "No mismatch"),
      "Every arm agrees with the reference in every layer and pass."));
  }
}

function fillSummary(content) {
  addVerdict(content);
  addFigures(content, tables.figures);
  const headlines = listOf(results.summary && results.summary.headlines);
  if (headlines.length > 0) {
    content.append(make("ul", {class: "headlines"},
      ...headlines.map((line) => make("li", {}, String(line)))));
  }
  if (hasRows(tables.faults)) content.append(make("h3", {}, "What is wrong"));
  addTable(content, tables.faults, "What is wrong");
}

// Calls add(content, batch, its tables) for each batch size, under a heading where there are many.
function eachBatch(content, add) {
  const batches = listOf(results.layers);
  batches.forEach((batch, i) => {
    const part = make("div", {});
    add(part, batch, tables.layers[i]);
    if (part.childElementCount === 0) return;
    if (batches.length > 1) content.append(make("h3", {}, `Batch ${batch.batch}`));
    content.append(part);
  });
}

function fillLayers(content) {
  eachBatch(content, (part, batch, own) => {
    addSpeedupDots(part, results, batch);
    addTable(part, own.layers, `Times of the layers, batch ${batch.batch}`);
    addLayerBars(part, results, batch, arms);
    addFolded(part, own.rates, `Spread and rates, batch ${batch.batch}`);
    addFolded(part, own.implementations, `Implementations, errors and workspace, batch ${batch.batch}`);
  });
}

function fillTotals(content) {
  eachBatch(content, (part, batch, own) => {
    addTable(part, own.totals, `The whole step, batch ${batch.batch}`);
    addTable(part, own.step_ratios, `The step of each arm against another, batch ${batch.batch}`);
  });
}

function fillErrors(content) {
  eachBatch(content, (part, batch, own) => {
    addTable(part, own.worst_errors, `Largest error of each arm, batch ${batch.batch}`);
    addFolded(part, own.errors, `Errors of every output, batch ${batch.batch}`);
    addFolded(part, own.error_ratios, `Errors of one arm over another's, batch ${batch.batch}`);
  });
}

function fillRoofline(content) {
  eachBatch(content, (part, batch, own) => {
    addRoofline(part, results, batch, arms);
    addFolded(part, own.roofline, `Intensity and rates, batch ${batch.batch}`);
  });
}

function fillTraining(content) {
  if (!results.training) return;
  const curves = make("div", {class: "pair"});
  const left = make("div", {}), right = make("div", {});
  addLossChart(left, results);
  addDifferenceChart(right, results);
  [left, right].filter((part) => part.childElementCount > 0).forEach((part) => curves.append(part));
  if (curves.childElementCount > 0) content.append(curves);
  addFolded(content, tables.loss, "Loss and differences at every step");
  addAccuracyChart(content, results);
  addTable(content, tables.seeds, "Accuracy and loss by seed");
  addTable(content, tables.training, "Training of each arm");
  addTable(content, tables.differences, "Training of each arm against another");
}

function fillThroughput(content) {
  const charts = make("div", {class: "pair"});
  ["training", "inference"].forEach((what) => {
    const part = make("div", {});
    addThroughputChart(part, results, what);
    if (part.childElementCount > 0) charts.append(part);
  });
  if (charts.childElementCount > 0) content.append(charts);
  ["training", "inference"].forEach((what) => {
    const table = tables.throughput[what];
    if (hasRows(table)) content.append(make("h3", {}, what === "training" ? "Training" : "Inference"));
    const words = what === "inference" ? `: ${tables.throughput.inference_words}` : "";
    addTable(content, table, `Throughput of ${what} by batch size${words}`);
  });
  if (hasRows(tables.throughput.not_run)) content.append(make("h3", {}, "What could not run"));
  addTable(content, tables.throughput.not_run, "What could not run");
}

function fillNetworks(content) {
  arms.forEach((index) => {
    addFolded(content, tables.networks[index], `Network of ${tables.arms[index]}`);
    const arm = listOf(results.arms)[index];
    addFoldedText(content, arm && arm.config, `Configuration of ${tables.arms[index]}`);
  });
}

function fillEnvironment(content) {
  addTable(content, tables.environment, "Machine, versions, ceilings and clocks");
}

function fillRepeat(content) {
  if (results.command) content.append(make("pre", {class: "command"}, results.command));
  eachBatch(content, (part, batch, own) => {
    addFolded(part, own.repeat, `One layer and pass alone, batch ${batch.batch}`);
  });
}

fillHeader();
fill("summary", fillSummary);
fill("layers", fillLayers);
fill("totals", fillTotals);
fill("errors", fillErrors);
fill("roofline", fillRoofline);
fill("training", fillTraining);
fill("throughput", fillThroughput);
fill("networks", fillNetworks);
fill("environment", fillEnvironment);
fill("repeat", fillRepeat);
