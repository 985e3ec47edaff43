// How numbers are written: four significant digits, and a true minus sign.

function number(value, significant = 4) {
  if (value === null || value === undefined) return "–";
  if (value === 0 || Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "−");
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) {
    const digits = Math.max(0, significant - 1 - Math.floor(Math.log10(size)));
    return value.toFixed(Math.min(digits, significant)).replace("-", "−");
  }
  return value.toExponential(2).replace(/-/g, "−");
}

function spread(column, line) {
  if (column.sd && column.sd[line] !== null && column.sd[line] !== undefined) return `± ${number(column.sd[line], 3)}`;
  const low = column.low ? column.low[line] : null;
  const high = column.high ? column.high[line] : null;
  if (low === null || high === null || low === undefined || high === undefined) return "";
  const mark = column.difference && (low > 0 || high < 0) ? " *" : "";
  return `[${number(low, 3)}, ${number(high, 3)}]${mark}`;
}

function cellText(column, line) {
  const value = column.values[line];
  return column.kind === "number" ? number(value) : column.names[value];
}

// Tables: sorted by a click on a head or by Enter on it, filtered while typing; long ones open in full on request.

const LINES = 40;
const FILTER_FROM = 12;

class DataTable {
  constructor(place, data) {
    this.data = data;
    this.count = data.columns.length ? data.columns[0].values.length : 0;
    this.order = [...Array(this.count).keys()];
    this.lines = this.order;
    this.sorted = { at: -1, up: true };
    this.open = this.count <= LINES + 10;
    this.body = el("tbody");
    this.counter = el("span", { class: "line-count" });
    this.more = el("button", { type: "button", class: "table-more", onclick: () => { this.open = true; this.fill(); } });
    if (data.note) place.append(el("p", { class: "note" }, data.note));
    place.append(this.tools(), el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": data.title },
      el("table", { class: "data" }, el("caption", { class: "unseen" }, data.title), this.head(), this.body)), this.more);
    this.fill();
  }

  tools() {
    const filter = el("input", { type: "search", placeholder: "Filter lines", "aria-label": `Filter the lines of ${this.data.title}` });
    filter.addEventListener("input", () => { this.filter(filter.value); });
    const csv = el("button", { type: "button", class: "copy-csv" }, "Copy as CSV");
    const latex = el("button", { type: "button", class: "copy-latex" }, "Copy as LaTeX");
    csv.addEventListener("click", () => copyText(asCsv(this.data, this.lines), csv));
    latex.addEventListener("click", () => copyText(asLatex(this.data, this.lines), latex));
    return el("div", { class: "table-tools" }, this.count >= FILTER_FROM ? filter : null, csv, latex, this.counter);
  }

  head() {
    const columns = this.data.columns;
    const groups = el("tr");
    for (let i = 0; i < columns.length;) {
      let end = i + 1;
      while (end < columns.length && columns[end].group === columns[i].group) end += 1;
      groups.append(columns[i].group ? el("th", { class: "group", colspan: end - i, scope: "colgroup" }, columns[i].group) : el("td", { colspan: end - i }));
      i = end;
    }
    this.heads = columns.map((column, at) => el("th", { scope: "col", "aria-sort": "none", class: this.classOf(at) },
      el("button", { type: "button", onclick: () => this.sort(at) }, column.name)));
    return el("thead", {}, columns.some((column) => column.group) ? groups : null, el("tr", {}, ...this.heads));
  }

  classOf(at) {
    const columns = this.data.columns;
    const first = at > 0 && columns[at].group && columns[at].group !== columns[at - 1].group ? " first" : "";
    if (columns[at].kind === "number") return `num${first}`;
    return (columns[at].names.every((name) => name.length <= 32) ? "short" : "text") + first;
  }

  sort(at) {
    const again = this.sorted.at === at;
    this.sorted = again && !this.sorted.up ? { at: -1, up: true } : { at, up: !again };
    const { up } = this.sorted;
    this.order = [...Array(this.count).keys()];
    if (this.sorted.at >= 0) this.order.sort((a, b) => this.compare(at, a, b, up));
    this.heads.forEach((head, i) => head.setAttribute("aria-sort", i !== this.sorted.at ? "none" : up ? "ascending" : "descending"));
    this.filter(this.query || "");
    const column = this.data.columns[at].name;
    announce(this.sorted.at < 0 ? "Original order" : `Sorted by ${column}, ${up ? "ascending" : "descending"}`);
  }

  compare(at, a, b, up) {
    const column = this.data.columns[at];
    const [x, y] = [column.values[a], column.values[b]];
    if (column.kind === "text") {
      const compared = column.names[x].localeCompare(column.names[y], "en", { numeric: true });
      return up ? compared : -compared;
    }
    if (x === null || y === null) return (x === null) - (y === null); // unknown values come last either way
    return up ? x - y : y - x;
  }

  filter(text) {
    this.query = text;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const line = (i) => this.data.columns.map((column) => cellText(column, i)).join("\u0000").toLowerCase();
    this.lines = words.length ? this.order.filter((i) => { const whole = line(i); return words.every((word) => whole.includes(word)); }) : this.order;
    this.fill();
  }

  fill() {
    const lines = this.open ? this.lines : this.lines.slice(0, LINES);
    this.body.replaceChildren(...lines.map((line) => el("tr", {}, ...this.data.columns.map((column, at) => this.cell(column, at, line)))));
    const hidden = this.lines.length - lines.length;
    this.more.hidden = hidden === 0;
    this.more.textContent = `Show all ${this.lines.length.toLocaleString("en")} lines`;
    const part = lines.length === this.count ? "" : ` of ${this.count.toLocaleString("en")}`;
    this.counter.textContent = `${lines.length.toLocaleString("en")}${part} ${this.count === 1 ? "line" : "lines"}`;
  }

  cell(column, at, line) {
    const cell = el("td", { class: this.classOf(at) }, cellText(column, line));
    const interval = column.kind === "number" ? spread(column, line) : "";
    if (interval) cell.append(" ", el("span", { class: "spread" }, interval));
    return cell;
  }
}

function startTables() {
  for (const place of document.querySelectorAll(".table-place[data-table]")) new DataTable(place, dataOf(place.dataset.table));
  const boxes = [...document.querySelectorAll("details.table-box")];
  const fill = (box) => {
    const place = box.querySelector(".table-place");
    if (box.open && !place.hasChildNodes()) new DataTable(place, dataOf(box.dataset.table));
  };
  boxes.forEach((box) => box.addEventListener("toggle", () => fill(box)));
  addEventListener("beforeprint", () => boxes.forEach(fill)); // the event of a box that opens for paper comes too late
}

// Tables as text for other programs.

function asCsv(data, lines) {
  const heads = [];
  const takes = [];
  for (const column of data.columns) {
    const name = column.group ? `${column.group} ${column.name}` : column.name;
    heads.push(name);
    takes.push((i) => (column.kind === "number" ? column.values[i] : guarded(column.names[column.values[i]])));
    for (const part of ["low", "high", "sd"]) {
      if (!column[part]) continue;
      heads.push(`${name} ${part}`);
      takes.push((i) => column[part][i]);
    }
  }
  const rows = [heads, ...lines.map((i) => takes.map((take) => take(i)))];
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

// A spreadsheet would run a text that begins like a formula.
function guarded(text) {
  return /^[=+\-@\t]/.test(text) ? `'${text}` : text;
}

function csvCell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

const LATEX = {
  "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "$": "\\$", "&": "\\&", "#": "\\#", "%": "\\%", "_": "\\_",
  "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "<": "\\textless{}", ">": "\\textgreater{}",
};

function latexText(text) {
  return text.replace(/[\\{}$&#%_^~<>]/g, (letter) => LATEX[letter]);
}

function latexCell(column, line) {
  if (column.kind !== "number") return latexText(column.names[column.values[line]]);
  const interval = spread(column, line);
  const whole = number(column.values[line]) + (interval ? ` ${interval}` : "");
  return column.values[line] === null ? "--" : `$${whole.replace(/−/g, "-").replace("±", "\\pm")}$`;
}

function asLatex(data, lines) {
  const heads = data.columns.map((column) => latexText(column.group ? `${column.group}: ${column.name}` : column.name));
  return [
    "% needs \\usepackage{booktabs}",
    `\\begin{tabular}{${data.columns.map((column) => (column.kind === "number" ? "r" : "l")).join("")}}`,
    "\\toprule",
    `${heads.join(" & ")} \\\\`,
    "\\midrule",
    ...lines.map((line) => `${data.columns.map((column) => latexCell(column, line)).join(" & ")} \\\\`),
    "\\bottomrule",
    "\\end{tabular}",
    "",
  ].join("\n");
}
