// Folding: sections and cards open where a link leads, all at once by a button, and on paper.

// Folded, a card shows its header alone.
function startCards() {
  const cards = [...document.querySelectorAll("#verdicts .card")];
  for (const card of cards) {
    const header = card.querySelector("header");
    if (!header) continue;
    const button = el("button", { type: "button", class: "quiet card-fold", "aria-expanded": "true" }, "Details");
    button.addEventListener("click", () => foldCard(card, !card.classList.contains("folded")));
    header.append(button);
    foldCard(card, cards.length > 3);
  }
}

function foldCard(card, folded) {
  card.classList.toggle("folded", folded);
  const button = card.querySelector(".card-fold");
  if (button) button.setAttribute("aria-expanded", String(!folded));
}

const folds = () => [...document.querySelectorAll("main details.fold")];

function foldAll(folded) {
  folds().forEach((box) => { box.open = !folded; });
  document.querySelectorAll("#verdicts .card").forEach((card) => foldCard(card, folded));
}

// What a link leads to is shown, with everything around it.
function openTo(id) {
  const target = id && document.getElementById(id);
  if (!target) return;
  target.querySelectorAll(":scope > details.fold").forEach((box) => { box.open = true; });
  for (let at = target; at; at = at.parentElement) {
    if (at.tagName === "DETAILS") at.open = true;
    if (at.classList.contains("card")) foldCard(at, false);
  }
}

function startFolds() {
  startCards();
  const button = document.getElementById("fold");
  const isOpen = () => folds().some((box) => box.open);
  const name = () => { button.textContent = isOpen() ? "Fold all" : "Unfold all"; };
  button.hidden = !folds().length;
  button.addEventListener("click", () => { foldAll(isOpen()); name(); });
  folds().forEach((box) => box.addEventListener("toggle", name));
  name();
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) openTo(link.getAttribute("href").slice(1));
  });
  addEventListener("hashchange", () => openTo(location.hash.slice(1)));
  openTo(location.hash.slice(1));
  let closed = [];
  let folded = [];
  addEventListener("beforeprint", () => {
    closed = folds().filter((box) => !box.open);
    folded = [...document.querySelectorAll("#verdicts .card.folded")];
    foldAll(false);
  });
  addEventListener("afterprint", () => {
    closed.forEach((box) => { box.open = false; });
    folded.forEach((card) => foldCard(card, true));
  });
}
