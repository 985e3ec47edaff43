// Everything that the page does begins here.

function startContents() {
  const box = document.getElementById("toc-box");
  const narrow = matchMedia("(max-width: 62rem)");
  const fit = () => { box.open = !narrow.matches; };
  narrow.addEventListener("change", fit);
  fit();
  const links = new Map([...document.querySelectorAll(".toc a")].map((link) => [link.getAttribute("href").slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.get(entry.target.id);
      if (entry.isIntersecting) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) observer.observe(target);
  }
}

function start() {
  startTheme();
  startFolds();
  startContents();
  startCommands();
  startTables();
  startCloud();
}

start();
startFigures();
document.documentElement.dataset.ready = "yes";
