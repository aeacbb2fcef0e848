"use strict";
(() => {
  const gone = document.getElementById("gone");
  const span = (seconds) => {
    const whole = Math.max(0, Math.round(seconds));
    const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return h ? `${h} h ${m} min` : m ? `${m} min ${s} s` : `${s} s`;
  };
  const tick = () => {
    for (const one of document.querySelectorAll("[data-since]")) {
      one.textContent = span(Date.now() / 1000 - Number(one.dataset.since));
    }
  };
  const clocks = () => {
    for (const one of document.querySelectorAll("time[data-at]")) {
      one.textContent = new Date(1000 * Number(one.dataset.at)).toLocaleTimeString("en-GB");
    }
  };
  const source = new EventSource("events");
  source.addEventListener("message", (message) => {
    gone.hidden = true;
    for (const [selector, markup] of Object.entries(JSON.parse(message.data))) {
      const part = document.querySelector(selector);
      part.innerHTML = markup;
      if (selector === "h1") document.title = part.textContent;
      part.dispatchEvent(new Event("replaced", { bubbles: true }));
    }
    clocks();
    tick();
    document.documentElement.dataset.live = "true";
  });
  source.addEventListener("error", () => { gone.hidden = false; });
  setInterval(tick, 1000);
})();
