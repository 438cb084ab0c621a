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

// Pointing at the plot says the figures at the nearest evaluation.
const curves = document.querySelector(".field");
if (curves) {
  const plot = document.querySelector(".plot");
  const cursor = curves.appendChild(document.createElementNS(curves.namespaceURI, "line"));
  cursor.id = "cursor";
  cursor.setAttribute("y2", 1000);
  const said = document.getElementById("at"), names = [...document.querySelectorAll(".right g")];
  const figures = names.map((name) => name.querySelector(".figure"));
  const last = figures.map((figure) => figure.textContent);
  curves.addEventListener("mousemove", (event) => {
    const box = curves.getBoundingClientRect();
    const wanted = (event.clientX - box.left) / box.width;
    let near = 0;
    data.places.forEach((place, i) => { if (Math.abs(place - wanted) < Math.abs(data.places[near] - wanted)) near = i; });
    cursor.setAttribute("x1", 1000 * data.places[near]);
    cursor.setAttribute("x2", 1000 * data.places[near]);
    plot.classList.add("over");
    said.value = data.names[near];
    names.forEach((name, i) => {
      const figure = data.curves[i][near];
      figures[i].textContent = figure === null ? "–" : figure.toFixed(3);
    });
  });
  curves.addEventListener("mouseleave", () => {
    plot.classList.remove("over");
    said.value = "";
    figures.forEach((figure, i) => { figure.textContent = last[i]; });
  });
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "o") {
    const open = !folded.every((each) => each.open);
    for (const each of folded) each.open = open;
  } else return;
  event.preventDefault();
});
addEventListener("beforeprint", () => { for (const each of folded) each.open = true; });
addEventListener("hashchange", mark);
document.documentElement.classList.add("live");
mark();
