// Plotly's figures, each drawn when it comes near the window, and in the colours of the theme.

const PANEL = 225; // pixels that a panel needs to be legible; if there is less room, the figure scrolls sideways
const NARROW = 560; // pixels below which long names of lines are above the lines, not next to them
const STACKED = 4; // panels that are put below each other on a narrow page; more of them scroll sideways
const FRAME = 100; // pixels of a figure besides its panels
const ABOVE = 14; // pixels that such a name takes
// Plotly's own button to share a chart would upload it; a page of ours sends nothing.
const CONFIG = {
  responsive: true, displaylogo: false, showTips: false, showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d", "sendChartToCloud"],
};

function panelsAcross(layout) {
  const starts = Object.keys(layout).filter((key) => /^(xaxis|scene)\d*$/.test(key)).map((key) => layout[key].domain)
    .map((domain) => (Array.isArray(domain) ? domain[0] : domain && domain.x ? domain.x[0] : 0));
  return Math.max(1, new Set(starts.map((start) => start.toFixed(3))).size);
}

// Plotly waits compressed, as text, until it is needed or the browser is idle: the page can be read before.
let plotly = null;
function startPlotly() {
  plotly ??= (async () => {
    const holder = document.getElementById("plotly");
    const packed = Uint8Array.from(atob(holder.textContent), (letter) => letter.charCodeAt(0));
    holder.remove();
    const script = document.createElement("script");
    script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(script);
  })();
  return plotly;
}

// The names of categories inside the panels, each above its line: on a phone the axis has all the width.
function putNamesAbove(layout) {
  const axes = Object.entries(layout).filter(([key, axis]) => /^yaxis\d*$/.test(key) && axis.ticktext);
  const lines = Math.max(...axes.map(([, axis]) => axis.ticktext.length));
  const panels = new Set(axes.map(([, axis]) => axis.domain[0])).size;
  layout.annotations = (layout.annotations || []).concat(axes.flatMap(([key, axis]) => axis.ticktext.map((text, at) => ({
    text, x: 0, xref: `${axis.anchor} domain`, xanchor: "left", y: axis.tickvals[at], yref: key.replace("axis", ""), yanchor: "bottom",
    yshift: 4, showarrow: false, font: { size: 11 },
  }))));
  for (const [, axis] of axes) Object.assign(axis, { showticklabels: false, ticks: "", title: { text: "" } });
  layout.margin = { ...layout.margin, l: 12 };
  layout.height += ABOVE * lines * panels;
}

// A few panels that are too narrow side by side are below each other instead; false if there are too many for that.
function stackPanels(layout) {
  const start = (key) => layout[`yaxis${key}`].domain[1];
  const keys = Object.keys(layout).filter((key) => /^yaxis\d*$/.test(key)).map((key) => key.slice(5))
    .sort((a, b) => start(b) - start(a) || layout[`xaxis${a}`].domain[0] - layout[`xaxis${b}`].domain[0]);
  if (keys.length > STACKED) return false;
  const deep = new Set(keys.map(start)).size;
  const title = layout[`yaxis${keys[0]}`].title;
  const gap = 0.3 / keys.length;
  const high = (1 - gap * (keys.length - 1)) / keys.length;
  keys.forEach((key, at) => {
    const [x, y] = [layout[`xaxis${key}`], layout[`yaxis${key}`]];
    const top = 1 - at * (high + gap);
    for (const note of layout.annotations || []) {
      if (note.xref !== "paper" || note.yref !== "paper" || Math.abs(note.x - (x.domain[0] + x.domain[1]) / 2) > 1e-6) continue;
      if (Math.abs(note.y - y.domain[1]) < 1e-6 && !note.moved) Object.assign(note, { x: 0.5, y: top, moved: true });
    }
    x.domain = [0, 1];
    y.domain = [Math.max(0, top - high), top];
    Object.assign(y, { showticklabels: true, title: y.title || title });
  });
  layout.height = ((layout.height - FRAME) / deep) * keys.length + FRAME;
  return true;
}

const drawings = new WeakMap(); // of each place, when it is drawn
function drawFigure(place) {
  if (!drawings.has(place)) drawings.set(place, plotFigure(place));
  return drawings.get(place);
}

async function plotFigure(place) {
  place.dataset.drawn = "yes";
  try {
    if (!window.Plotly) await startPlotly();
    const figure = dataOf(place.dataset.figure);
    const { names, panel } = figure.layout.meta || {};
    let across = panelsAcross(figure.layout);
    const needed = across * (panel || PANEL);
    figure.layout.template = LOOK.templates[theme()];
    if (across > 1 && place.clientWidth < needed && stackPanels(figure.layout)) across = 1;
    if (names === "above" && place.clientWidth < NARROW) putNamesAbove(figure.layout);
    const least = across * (panel || PANEL);
    if ((across > 1 || panel) && place.clientWidth < least) figure.layout.width = least;
    else figure.layout.autosize = true;
    figure.config = { ...CONFIG, responsive: !figure.layout.width };
    await Plotly.newPlot(place, figure);
    place.dataset.ready = "yes";
  } catch {
    place.classList.add("failed");
    place.textContent = "This figure could not be drawn here; its numbers are in the table below.";
  }
}

// A figure as a file: dark on white whatever the theme, as for a paper.
async function saveFigure(button) {
  const place = document.querySelector(`.plot[data-figure="${button.dataset.figure}"]`);
  await drawFigure(place);
  const { format } = button.dataset;
  const layout = { ...place.layout, template: LOOK.templates.light, paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff" };
  const size = { width: place.clientWidth || 1000, height: place.layout.height, scale: format === "png" ? 2 : 1 };
  const url = await Plotly.toImage({ data: place.data, layout }, { format, ...size });
  el("a", { href: url, download: `${button.dataset.name}.${format}` }).click();
}

function startSaving() {
  for (const button of document.querySelectorAll(".save-figure")) button.addEventListener("click", () => saveFigure(button));
}

function dressFigures(name) {
  for (const place of document.querySelectorAll(".plot[data-ready]")) Plotly.relayout(place, { template: LOOK.templates[name] });
}

function startFigures() {
  const places = [...document.querySelectorAll(".plot")];
  if (!places.length) return;
  startSaving();
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      drawFigure(entry.target);
    }
  }, { rootMargin: "500px 0px" });
  places.forEach((place) => {
    place.style.minHeight = `${place.dataset.height}px`; // before it is drawn, so that nothing below it jumps
    near.observe(place);
  });
  addEventListener("load", () => (window.requestIdleCallback || setTimeout)(startPlotly));
  themeListeners.push(dressFigures);
  addEventListener("beforeprint", () => places.forEach(drawFigure));
}
