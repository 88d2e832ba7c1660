"use strict";
// Shows the figures under the pointer. It reads what is drawn and changes nothing of it: without it the page says the same.
for (const figure of document.querySelectorAll("figure.plot")) {
  const drawing = figure.querySelector("svg.drawing");
  const cursor = drawing.querySelector(".cursor");
  const tip = figure.querySelector(".tip");
  if (!cursor) continue;
  const lines = [...drawing.querySelectorAll("g.series")].map((series) => {
    // The second part of a line begins where the first ends.
    const parts = [...series.querySelectorAll("polyline")].map((line, place) => [...line.points].slice(place));
    const points = parts.flat();
    const read = (name) => series.getAttribute(name).split("|");
    const [x, y] = [read("data-x"), read("data-y")];
    const places = points.map((point, place) => ({ x: point.x, y: point.y, shownX: x[place], shownY: y[place] }));
    return { target: series.getAttribute("data-target"), look: series.getAttribute("data-look"), places };
  });
  const nearest = (places, x) =>
    places.reduce((best, place) => (Math.abs(best.x - x) > Math.abs(place.x - x) ? place : best), { x: Infinity });
  const add = (parent, name, text) => {
    const element = parent.appendChild(document.createElement(name));
    element.textContent = text;
    return element;
  };
  const hide = () => { tip.style.visibility = cursor.style.visibility = "hidden"; };
  const show = (event) => {
    const pointer = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse());
    const middle = nearest(lines.flatMap((line) => line.places), pointer.x);
    if (middle.x === Infinity) return;
    tip.replaceChildren();
    add(tip, "span", middle.shownX);
    const rows = new Map();
    for (const { target, look, places } of lines) {
      const place = nearest(places, middle.x);
      // A line that has ended has no figure here.
      if (Math.abs(place.x - middle.x) > 6) continue;
      // The repetitions of a target share a row.
      if (!rows.has(target)) {
        const row = add(tip, "div", "");
        add(row, "i", "").className = look;
        row.append(target + " ");
        rows.set(target, row);
      }
      add(rows.get(target), "b", place.shownY);
    }
    cursor.setAttribute("x1", middle.x);
    cursor.setAttribute("x2", middle.x);
    const box = drawing.getBoundingClientRect();
    const around = figure.getBoundingClientRect();
    const left = box.left - around.left + (middle.x / drawing.viewBox.baseVal.width) * box.width;
    const room = around.width - tip.offsetWidth;
    const beside = left + 14 > room ? left - 14 - tip.offsetWidth : left + 14;
    tip.style.left = Math.max(0, Math.min(beside, room)) + "px";
    tip.style.top = box.top - around.top + 30 + "px";
    tip.style.visibility = cursor.style.visibility = "visible";
  };
  drawing.addEventListener("pointermove", show);
  drawing.addEventListener("pointerdown", show);
  drawing.addEventListener("pointerleave", hide);
}
