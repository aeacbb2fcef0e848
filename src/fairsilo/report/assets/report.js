"use strict";
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);

  const hide = () => { tip.hidden = true; };
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - box.width / 2), innerWidth - box.width - 8);
    const top = y - box.height - 12 > 8 ? y - box.height - 12 : y + 16;
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  };
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // Marks: the native tooltip becomes ours, and the arrow keys walk from mark to mark.
  const dressMarks = (root) => { for (const svg of root.querySelectorAll(".plot > svg")) {
    const marks = [...svg.querySelectorAll(".mark")];
    marks.forEach((mark, k) => {
      const title = mark.querySelector("title");
      const text = title ? title.textContent : "";
      if (title) title.remove();
      const above = () => {
        const shape = (mark.querySelector("path, .bar") || mark).getBoundingClientRect();
        show(text, shape.left + shape.width / 2, shape.top);
      };
      mark.setAttribute("tabindex", k ? "-1" : "0");
      mark.addEventListener("pointerenter", above);
      mark.addEventListener("pointerleave", hide);
      mark.addEventListener("focus", above);
      mark.addEventListener("blur", hide);
      mark.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        let to = k + step;
        while (marks[to] && marks[to].classList.contains("off")) to += step;
        if (!marks[to]) return;
        mark.setAttribute("tabindex", "-1");
        marks[to].setAttribute("tabindex", "0");
        marks[to].focus();
      });
    });
  } };

  // Line charts: a cursor that reads every line at the nearest x.
  const write = (value, unit) => {
    if (unit === "percent") return `${(100 * value).toFixed(1)}%`;
    if (unit === "bytes") {
      const power = value < 1000 ? 0 : Math.min(5, Math.floor(Math.log10(value) / 3));
      const name = ["bytes", "kB", "MB", "GB", "TB", "PB"][power];
      return `${Number((value / 1000 ** power).toPrecision(3))} ${name}`;
    }
    const size = Math.abs(value);
    if (size && size < 1e-3) return value.toExponential(2).replace("-", "\u2212");
    return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });
  };
  const nearest = (xs, x) => {
    let low = 0;
    let high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle; else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  };
  const share = ([low, high, log], value) => log
    ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

  const dressLines = (root) => { for (const chart of root.querySelectorAll(".chart.lines")) {
    const block = chart.querySelector('script[type="application/json"]');
    if (!block) continue;
    const data = JSON.parse(block.textContent);
    const svg = chart.querySelector(".plot > svg");
    const cursor = svg.querySelector(".cursor");
    const title = svg.querySelector("title");
    if (title) title.remove();
    const pins = data.series.map((one) => {
      const pin = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      pin.setAttribute("class", `pin s${one.k % 8} off`);
      pin.setAttribute("r", "4.5");
      svg.append(pin);
      return pin;
    });
    const hidden = (k) => chart.querySelector(`path.line[data-series="${k}"]`).classList.contains("off");
    const all = [...new Set(data.series.flatMap((one) => one.x))].sort((a, b) => a - b);
    let at = all.length - 1;
    const leave = () => {
      hide();
      cursor.style.visibility = "hidden";
      pins.forEach((pin) => pin.classList.add("off"));
    };
    const read = (x) => {
      const box = svg.getBoundingClientRect();
      const left = share(data.x, x);
      cursor.setAttribute("x1", `${100 * left}%`);
      cursor.setAttribute("x2", `${100 * left}%`);
      cursor.style.visibility = "visible";
      const text = [`${data.label} ${Number(x.toPrecision(6)).toLocaleString("en")}`];
      data.series.forEach((one, k) => {
        const i = nearest(one.x, x);
        const y = one.y[i];
        pins[k].classList.toggle("off", y === null || y === undefined || hidden(one.k));
        if (y === null || y === undefined || hidden(one.k)) return;
        pins[k].setAttribute("cx", `${100 * share(data.x, one.x[i])}%`);
        pins[k].setAttribute("cy", data.h * (1 - share(data.y, y)));
        text.push(`${one.name}: ${write(y, data.unit)}`);
      });
      show(text.join("\n"), box.left + left * box.width, box.top);
    };
    if (!all.length) continue;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const along = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const [low, high, log] = data.x;
      at = nearest(all, log ? low * (high / low) ** along : low + along * (high - low));
      read(all[at]);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("focus", () => read(all[at]));
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const jump = event.shiftKey ? Math.ceil(all.length / 20) : 1;
      const step = { ArrowRight: jump, ArrowLeft: -jump, Home: -all.length, End: all.length }[event.key];
      if (!step) return;
      event.preventDefault();
      at = Math.min(all.length - 1, Math.max(0, at + step));
      read(all[at]);
    });
  } };

  const dressKeys = (root) => { for (const key of root.querySelectorAll(".key")) {
    key.addEventListener("click", () => {
      const off = key.getAttribute("aria-pressed") === "true";
      key.setAttribute("aria-pressed", String(!off));
      const parts = `.plot [data-series="${key.dataset.series}"]`;
      for (const part of key.closest("figure").querySelectorAll(parts)) part.classList.toggle("off", off);
    });
  } };

  // Tables: a click on a heading sorts by it; undefined values stay at the end.
  const dressTables = (root) => { for (const table of root.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        const value = (row) => {
          const cell = row.cells[column];
          return cell.dataset.sort !== undefined ? Number(cell.dataset.sort) : cell.textContent.trim();
        };
        const compare = (a, b) => {
          const [p, q] = [value(a), value(b)];
          if (typeof p !== typeof q) return typeof p === "number" ? -1 : 1;
          const order = typeof p === "number" ? p - q : p.localeCompare(q, "en", { numeric: true });
          return up ? order : -order;
        };
        table.tBodies[0].append(...rows.sort(compare));
      });
    });
  } };

  const dress = (root) => { dressMarks(root); dressLines(root); dressKeys(root); dressTables(root); };
  dress(document);
  // A live page replaces parts of itself.
  document.addEventListener("replaced", (event) => { hide(); dress(event.target); });

  addEventListener("beforeprint", () => {
    // Long lists stay folded: nobody wants thirty pages of clients.
    for (const part of document.querySelectorAll("details")) {
      if (part.querySelectorAll("tr").length <= 100) part.open = true;
    }
  });
  document.documentElement.dataset.ready = "true";
})();
