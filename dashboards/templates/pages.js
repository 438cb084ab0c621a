"use strict";
// A button that copies names the element whose text it takes, or `address`; the output beside it says how it went.
function copied(button) {
  const source = button.dataset.copy === "address" ? null : document.getElementById(button.dataset.copy);
  const said = button.parentElement.querySelector("output");
  const say = (words) => {
    said.textContent = words;
    setTimeout(() => { if (said.textContent === words) said.textContent = ""; }, 4000);
  };
  // Only pages of this machine, or over https, may write to the clipboard.
  const written = navigator.clipboard?.writeText(source ? source.textContent : address());
  if (written) written.then(() => say("Copied"), () => select(source, say));
  else select(source, say);
}

// The page with all that it shows, without the path that lets its owner in.
function address() {
  const here = new URL(location);
  here.pathname = here.pathname.replace(/^\/[0-9a-f]{32}(?=\/)/, "");
  return here.href;
}

function select(source, say) {
  if (!source) return say("Copy the address from the address bar.");
  source.closest("details")?.setAttribute("open", "");
  getSelection().selectAllChildren(source);
  say("Selected. Press Ctrl+C to copy.");
}

document.addEventListener("click", (event) => {
  const button = event.composedPath().find((each) => each.dataset?.copy);
  if (button) copied(button);
});
