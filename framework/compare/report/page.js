// The page's elements. Text from the results reaches the page only as text, never as HTML.

// An element with attributes and children; strings become text.
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== "") node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Text that may go on in the next line after +, _, / and commas, where its box is narrow.
function breakable(text) {
  return text.split(/(?<=[+_/,])/).flatMap((part, i) => (i > 0 ? [make("wbr"), part] : [part]));
}

const kLongWord = 24;  // characters from which a word may break anywhere on paper
const kLongText = 40;  // characters from which a cell may wrap

// Rows whose first cell repeats the one above belong together; the repeated words step back.
function tableRow(columns, cells, above) {
  const row = make("tr", {class: above && above[0].text === cells[0].text ? "" : "group"});
  let alike = above !== null;
  cells.forEach((cell, i) => {
    alike = alike && !columns[i].number && i < 2 && above[i].text === cell.text;
    const classes = [
      columns[i].number ? "number" : "",
      columns[i].number && cell.text.includes(" (") ? "ratio" : "",
      cell.tone || "",
      alike ? "again" : "",
      cell.text.length > kLongText && !columns[i].number ? "long" : "",
      cell.text.split(/[\s+_/,-]/).some((word) => word.length > kLongWord) ? "unbroken" : "",
    ];
    const head = i === 0 && !columns[0].number;
    row.append(make(head ? "th" : "td",
      {class: classes.filter(Boolean).join(" "), scope: head ? "row" : ""},
      ...(columns[i].number ? [cell.text] : breakable(cell.text))));
  });
  return row;
}

// A table in a box of its own, in which it scrolls where it is wider than the page.
function makeTable(table, label) {
  const head = make("tr", {}, ...table.columns.map((column) =>
    make("th", {scope: "col", class: column.number ? "number" : ""}, column.name)));
  const body = make("tbody", {});
  table.rows.forEach((cells, i) =>
    body.append(tableRow(table.columns, cells, i > 0 ? table.rows[i - 1] : null)));
  return make("div",
    {class: table.rows.length > 40 ? "scroll tall" : "scroll", tabindex: "0", role: "region",
     "aria-label": label},
    make("table", {"aria-label": label}, make("thead", {}, head), body));
}

function hasRows(table) {
  return Boolean(table) && table.rows.length > 0;
}

// Adds the table, if it has rows.
function addTable(parent, table, label) {
  if (hasRows(table)) parent.append(makeTable(table, label));
}

// Adds the table behind a line to open it, if it has rows.
function addFolded(parent, table, label) {
  if (!hasRows(table)) return;
  parent.append(make("details", {}, make("summary", {}, label), makeTable(table, label)));
}

function addFoldedText(parent, text, label) {
  if (!text) return;
  parent.append(make("details", {}, make("summary", {}, label), make("pre", {}, text)));
}

// Numbers that sum up much, large.
function addFigures(parent, figures) {
  if (figures.length === 0) return;
  parent.append(make("div", {class: "figures"}, ...figures.map((figure) =>
    make("div", {class: "figure"},
      make("p", {class: "label"}, figure.label),
      make("p", {class: `value ${figure.tone || ""}`.trim()}, figure.value),
      make("p", {class: "note"}, figure.note)))));
}

// ---- sections ----

// Fills a section; one that cannot be read says so, and leaves the others standing.
function fill(id, add) {
  const section = document.getElementById(id);
  const content = section.querySelector(".content");
  try {
    add(content);
  } catch (error) {
    console.error(error);
    content.append(make("p", {class: "verdict bad"}, `This part could not be shown: ${error}`));
  }
  if (content.childElementCount === 0) {
    section.remove();
    return;
  }
  const heading = section.querySelector("h2");
  if (heading) {
    document.getElementById("contents").append(
      make("li", {}, make("a", {href: `#${id}`}, heading.textContent)));
  }
}

// ---- reading results, any part of which may be missing ----

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function listOf(value) {
  return Array.isArray(value) ? value : [];
}

function armName(results, index) {
  const arm = listOf(results.arms)[index];
  return (arm && arm.name) || `arm ${index + 1}`;
}
