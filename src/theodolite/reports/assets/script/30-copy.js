// Copying, with a word on how it went; a file that was opened from disk may have no clipboard of its own.

async function copyText(text, button) {
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const before = button.dataset.label || button.textContent;
  button.dataset.label = before;
  button.textContent = copied ? "Copied" : "Could not copy";
  say(button.textContent);
  clearTimeout(button.waiting);
  button.waiting = setTimeout(() => { button.textContent = before; }, 1600);
}

function startCommands() {
  for (const button of document.querySelectorAll(".copy-command")) {
    button.addEventListener("click", () => copyText(button.parentElement.querySelector("code").textContent, button));
  }
}
