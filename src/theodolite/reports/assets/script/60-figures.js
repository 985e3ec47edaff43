// Plotly's figures, each drawn when it comes near the window, and in the colours of the theme.

const PANEL = 250; // pixels that a panel of a figure needs to be read; below that the figure scrolls sideways
const CONFIG = { responsive: true, displaylogo: false, showTips: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };

function panelsAcross(layout) {
  const starts = Object.keys(layout).filter((key) => /^(xaxis|scene)\d*$/.test(key)).map((key) => layout[key].domain)
    .map((domain) => (Array.isArray(domain) ? domain[0] : domain && domain.x ? domain.x[0] : 0));
  return Math.max(1, new Set(starts.map((start) => start.toFixed(3))).size);
}

// Plotly's five megabytes wait as text until they are needed, or nothing else is left to do: the page can be read before.
function startPlotly() {
  const holder = document.getElementById("plotly");
  if (window.Plotly || holder === null) return;
  const script = document.createElement("script");
  script.textContent = holder.textContent;
  document.head.append(script);
  holder.remove();
}

function drawFigure(place) {
  if (place.dataset.drawn) return;
  place.dataset.drawn = "yes";
  startPlotly();
  const figure = dataOf(place.dataset.figure);
  const wanted = panelsAcross(figure.layout) * PANEL;
  figure.layout.template = LOOK.templates[theme()];
  if (panelsAcross(figure.layout) > 1 && place.clientWidth < wanted) figure.layout.width = wanted;
  else figure.layout.autosize = true;
  figure.config = { ...CONFIG, responsive: !figure.layout.width };
  Plotly.newPlot(place, figure).then(() => { place.dataset.ready = "yes"; }, () => {
    place.classList.add("failed");
    place.textContent = "This figure could not be drawn here; its numbers are in the table below.";
  });
}

function dressFigures(name) {
  for (const place of document.querySelectorAll(".plot[data-ready]")) Plotly.relayout(place, { template: LOOK.templates[name] });
}

function startFigures() {
  const places = [...document.querySelectorAll(".plot")];
  if (!places.length) return;
  const near = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (!one.isIntersecting) continue;
      near.unobserve(one.target);
      drawFigure(one.target);
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
