// Tables: sorted by a click on a head or by Enter on it, filtered as one types, long ones opened in full when asked.

const LINES = 40;
const FILTER_FROM = 12;

class DataTable {
  constructor(place, data) {
    this.data = data;
    this.count = data.columns.length ? data.columns[0].values.length : 0;
    this.order = [...Array(this.count).keys()];
    this.kept = this.order;
    this.sorted = { at: -1, up: true };
    this.open = this.count <= LINES + 10;
    this.body = el("tbody");
    this.shown = el("span", { class: "shown" });
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
    csv.addEventListener("click", () => copyText(asCsv(this.data, this.kept), csv));
    latex.addEventListener("click", () => copyText(asLatex(this.data, this.kept), latex));
    return el("div", { class: "table-tools" }, this.count >= FILTER_FROM ? filter : null, csv, latex, this.shown);
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
    this.filter(this.wanted || "");
    const column = this.data.columns[at].name;
    say(this.sorted.at < 0 ? "In the first order again" : `Sorted by ${column}, ${up ? "ascending" : "descending"}`);
  }

  compare(at, a, b, up) {
    const column = this.data.columns[at];
    const [x, y] = [column.values[a], column.values[b]];
    if (column.kind === "text") {
      const compared = column.names[x].localeCompare(column.names[y], "en", { numeric: true });
      return up ? compared : -compared;
    }
    if (x === null || y === null) return (x === null) - (y === null); // what is not known comes last either way
    return up ? x - y : y - x;
  }

  filter(text) {
    this.wanted = text;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const line = (i) => this.data.columns.map((column) => cellText(column, i)).join("\u0000").toLowerCase();
    this.kept = words.length ? this.order.filter((i) => { const whole = line(i); return words.every((word) => whole.includes(word)); }) : this.order;
    this.fill();
  }

  fill() {
    const lines = this.open ? this.kept : this.kept.slice(0, LINES);
    this.body.replaceChildren(...lines.map((line) => el("tr", {}, ...this.data.columns.map((column, at) => this.cell(column, at, line)))));
    const hidden = this.kept.length - lines.length;
    this.more.hidden = hidden === 0;
    this.more.textContent = `Show all ${this.kept.length.toLocaleString("en")} lines`;
    const part = this.kept.length === this.count ? "" : ` of ${this.count.toLocaleString("en")}`;
    this.shown.textContent = `${this.kept.length.toLocaleString("en")}${part} ${this.count === 1 ? "line" : "lines"}`;
  }

  cell(column, at, line) {
    const cell = el("td", { class: this.classOf(at) }, cellText(column, line));
    const beside = column.kind === "number" ? spread(column, line) : "";
    if (beside) cell.append(" ", el("span", { class: "spread" }, beside));
    return cell;
  }
}

function startTables() {
  for (const place of document.querySelectorAll(".table-place[data-table]")) new DataTable(place, dataOf(place.dataset.table));
  for (const box of document.querySelectorAll("details.table-box")) {
    box.addEventListener("toggle", () => {
      const place = box.querySelector(".table-place");
      if (box.open && !place.hasChildNodes()) new DataTable(place, dataOf(box.dataset.table));
    });
  }
}
