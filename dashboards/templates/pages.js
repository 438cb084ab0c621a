"use strict";
// A button that copies names the element whose text, or whose address, it takes; the output beside it says how it went.
function copied(button) {
  const source = document.getElementById(button.dataset.copy);
  const said = button.parentElement.querySelector("output");
  const say = (words) => {
    said.textContent = words;
    setTimeout(() => { if (said.textContent === words) said.textContent = ""; }, 4000);
  };
  // Only pages of this machine, or over https, may write to the clipboard.
  const written = navigator.clipboard?.writeText(source.href ?? source.textContent);
  if (written) written.then(() => say("Copied"), () => select(source, say));
  else select(source, say);
}

function select(source, say) {
  source.closest("details")?.setAttribute("open", "");
  getSelection().selectAllChildren(source);
  say("Selected: Ctrl+C copies it");
}

document.addEventListener("click", (event) => {
  const button = event.composedPath().find((each) => each.dataset?.copy);
  if (button) copied(button);
});
