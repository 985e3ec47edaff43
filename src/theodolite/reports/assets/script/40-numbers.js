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
  return `[${number(low, 3)}, ${number(high, 3)}]`;
}

function cellText(column, line) {
  const value = column.values[line];
  return column.kind === "number" ? number(value) : column.names[value];
}
