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

// The reader chooses the x-axis and the smoothing of the plots of a card. All axes have places for the same states.
function moved(place, axis) {
  const from = data.axes[0].places, to = data.axes[axis].places;
  const at = from.findIndex((known) => known >= place);
  if (at < 1) return to[at < 0 ? to.length - 1 : 0];
  return to[at - 1] + ((place - from[at - 1]) / (from[at] - from[at - 1])) * (to[at] - to[at - 1]);
}

// The exponential moving average of dashboards/charts/smoothing.py, which says its formula.
function smoothed(points, weight) {
  let total = 0;
  return points.map(([x, y], i) => {
    total = weight * total + (1 - weight) * y;
    return [x, total / (1 - weight ** (i + 1))];
  });
}

const pairs = (text) => [...text.matchAll(/([\d.-]+)[ ,]([\d.-]+)/g)].map((pair) => [+pair[1], +pair[2]]);
const text = (points) => points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

// A curve with the values that it was drawn with; draws itself anew for an axis and a weight.
function curve(group) {
  const line = group.querySelector("polyline:not(.raw)"), end = group.querySelector(".end"), area = group.querySelector("polygon");
  let raw = group.querySelector(".raw");
  if (!raw) {
    raw = line.cloneNode();
    raw.setAttribute("class", "raw");
    line.before(raw);
  }
  const values = pairs(raw.getAttribute("points")), around = area && pairs(area.getAttribute("points"));
  return (axis, weight) => {
    const across = ([x, y]) => [1000 * moved(x / 1000, axis), y];
    const drawn = values.map(across), shown = weight === null ? drawn : smoothed(drawn, weight);
    raw.setAttribute("points", text(drawn));
    line.setAttribute("points", text(shown));
    if (area) area.setAttribute("points", text(around.map(across)));
    if (end) end.setAttribute("d", `M${shown.at(-1)[0].toFixed(1)} ${shown.at(-1)[1].toFixed(1)}h0`);
  };
}

// The marks, ticks and title of a plot for an axis.
function frame(plot) {
  const lines = [...plot.querySelectorAll("line.mark")], names = [...plot.querySelectorAll("text.mark")];
  const places = lines.map((line) => line.getAttribute("x1") / 1000);
  const below = plot.querySelector(".below"), title = below.querySelector(".across"), tick = below.querySelector("text:not(.across)");
  return (axis) => {
    const at = places.map((place) => moved(place, axis));
    lines.forEach((line, i) => { line.setAttribute("x1", 1000 * at[i]); line.setAttribute("x2", 1000 * at[i]); });
    names.forEach((name, i) => name.setAttribute("x", `${100 * at[i]}%`));
    const ticks = data.axes[axis].ticks.map(([place, label]) => {
      const made = tick.cloneNode();
      made.setAttribute("x", `${100 * place}%`);
      made.setAttribute("text-anchor", place < .03 ? "start" : place > .97 ? "end" : "middle");
      made.textContent = label;
      return made;
    });
    title.textContent = data.axes[axis].title;
    below.replaceChildren(...ticks, title);
  };
}

for (const choice of document.querySelectorAll(".choice")) {
  const card = choice.closest(".card"), weight = choice.querySelector("input"), x = choice.querySelector("select");
  const frames = [...card.querySelectorAll(".plot")].map(frame);
  const curves = [...card.querySelectorAll(".field g")].map((group) => [curve(group), !group.closest("[data-plain]")]);
  choice.addEventListener("input", () => {
    const axis = x?.selectedIndex ?? 0;
    card.dataset.axis = axis;
    choice.querySelector("output").value = (+weight.value).toFixed(2);
    for (const draw of frames) draw(axis);
    for (const [draw, smooths] of curves) draw(axis, smooths ? +weight.value : null);
  });
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
    const places = data.places.map((place) => moved(place, +(field.closest(".card").dataset.axis ?? 0)));
    let near = 0;
    places.forEach((place, i) => { if (Math.abs(place - wanted) < Math.abs(places[near] - wanted)) near = i; });
    position.value = data.names[near];
    for (const { plot, cursor, figures } of plots) {
      cursor.setAttribute("x1", 1000 * places[near]);
      cursor.setAttribute("x2", 1000 * places[near]);
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
