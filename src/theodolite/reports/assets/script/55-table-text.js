// A table as text for other programs.

function asCsv(data, lines) {
  const heads = [];
  const takes = [];
  for (const column of data.columns) {
    const name = column.group ? `${column.group} ${column.name}` : column.name;
    heads.push(name);
    takes.push((i) => (column.kind === "number" ? column.values[i] : guarded(column.names[column.values[i]])));
    for (const beside of ["low", "high", "sd"]) {
      if (!column[beside]) continue;
      heads.push(`${name} ${beside}`);
      takes.push((i) => column[beside][i]);
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
  const beside = spread(column, line);
  const whole = number(column.values[line]) + (beside ? ` ${beside}` : "");
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
