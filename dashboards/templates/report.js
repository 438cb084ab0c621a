"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const sheets = [...document.querySelectorAll("article")], rows = [...document.querySelectorAll(".phases tbody tr")];
const folded = [...document.querySelectorAll("details")];

// The phase that the address names, here and in the table.
function chosen() {
  const name = decodeURIComponent(location.hash.slice(1));
  return sheets.findIndex((sheet) => sheet.id === name);
}

function mark() {
  const at = chosen();
  sheets.forEach((sheet, i) => sheet.classList.toggle("on", i === at));
  rows.forEach((row, i) => row.classList.toggle("on", i === at));
}

function step(by) {
  const at = chosen();
  const next = at < 0 ? (by > 0 ? 0 : sheets.length - 1) : Math.max(0, Math.min(sheets.length - 1, at + by));
  if (!sheets.length) return;
  history.replaceState(null, "", "#" + encodeURIComponent(sheets[next].id));
  sheets[next].scrollIntoView({ block: "start" });
  mark();
}

// Pointing at a plot of val_bpb shows the figures of the nearest evaluation in all of them.
const plots = [...document.querySelectorAll("#val_bpb .plot")].map((plot) => {
  const field = plot.querySelector(".field"), names = [...plot.querySelectorAll(".right g")];
  const cursor = field.appendChild(document.createElementNS(field.namespaceURI, "line"));
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y2", 1000);
  const figures = names.map((name) => name.querySelector(".figure"));
  return { plot, field, cursor, figures, last: figures.map((figure) => figure.textContent) };
});
for (const { field } of plots) {
  const position = document.getElementById("at");
  field.addEventListener("mousemove", (event) => {
    const box = field.getBoundingClientRect(), wanted = (event.clientX - box.left) / box.width;
    let near = 0;
    data.places.forEach((place, i) => { if (Math.abs(place - wanted) < Math.abs(data.places[near] - wanted)) near = i; });
    position.value = data.names[near];
    for (const { plot, cursor, figures } of plots) {
      cursor.setAttribute("x1", 1000 * data.places[near]);
      cursor.setAttribute("x2", 1000 * data.places[near]);
      plot.classList.add("over");
      figures.forEach((figure, i) => {
        const value = data.curves[i][near];
        figure.textContent = value === null ? "–" : value.toFixed(3);
      });
    }
  });
  field.addEventListener("mouseleave", () => {
    position.value = "";
    for (const { plot, figures, last } of plots) {
      plot.classList.remove("over");
      figures.forEach((figure, i) => { figure.textContent = last[i]; });
    }
  });
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "o") {
    const open = !folded.every((list) => list.open);
    for (const list of folded) list.open = open;
  } else return;
  event.preventDefault();
});
addEventListener("beforeprint", () => { for (const list of folded) list.open = true; });
addEventListener("hashchange", mark);
document.documentElement.classList.add("live");
mark();
