// The little that the pages can't do without a script: the theme, live updates, and dialogs.
// Every page works without it: links lead to confirmation pages, reloading shows what is new.
"use strict";

(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  if (stored()) root.dataset.theme = stored();

  function switchTheme() {
    const systemDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : systemDark;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* only for this page, then */ }
  }

  // Replace the regions that changed.  What has the focus keeps it: it is found again by its id.
  function update(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const region of fresh.querySelectorAll("[data-region]")) {
      const shown = document.querySelector(`[data-region="${region.dataset.region}"]`);
      if (!shown || shown.innerHTML === region.innerHTML) continue;
      const focused = shown.contains(document.activeElement) ? document.activeElement.id : "";
      const places = [...shown.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
      shown.replaceChildren(...region.childNodes);
      shown.querySelectorAll(".scroll").forEach((each, i) => { each.scrollLeft = places[i] || 0; });
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
  }

  function say(words, state) {
    const pulse = document.getElementById("pulse");
    if (pulse.textContent !== words) pulse.textContent = words;
    pulse.dataset.state = state;
    pulse.hidden = false;
  }

  function watch(main) {
    let source = null;
    const query = new URLSearchParams({ page: main.dataset.live, name: main.dataset.liveName || "" });
    const open = () => {
      source = new EventSource(`/events?${query}`);
      source.addEventListener("regions", (event) => { update(JSON.parse(event.data)); say("live", "live"); });
      source.addEventListener("trouble", () => say("database away", "trouble"));
      source.onerror = () => say("reconnecting", "trouble");
    };
    // A hidden page asks for nothing.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { source?.close(); source = null; } else if (!source) open();
    });
    addEventListener("pagehide", () => source?.close());
    if (!document.hidden) open();
  }

  async function ask(address) {
    const answer = await fetch(address, { redirect: "follow" });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("ask");
    if (!found) { location.assign(address); return; }
    const dialog = document.getElementById("dialog");
    dialog.replaceChildren(found);
    dialog.showModal();
    (dialog.querySelector("input[type=checkbox]") || dialog.querySelector("[data-close]"))?.focus();
  }

  function clicked(event) {
    const close = event.target.closest("dialog [data-close]");
    const link = event.target.closest("[data-confirm]");
    if (close) {
      event.preventDefault();
      document.getElementById("dialog").close();
    } else if (link && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const form = link.form && new URLSearchParams(new FormData(link.form));
      form?.append(link.name, link.value);
      // Not form.action: a button of the form may have that name.
      ask(form ? `${link.form.getAttribute("action")}?${form}` : link.href);
    }
  }

  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", switchTheme);
    // On a narrow screen the menu scrolls sideways.
    const menu = document.querySelector("header nav");
    const here = menu?.querySelector("[aria-current]");
    if (here) menu.scrollLeft = here.offsetLeft - (menu.clientWidth - here.clientWidth) / 2;
    document.addEventListener("click", clicked);
    const main = document.querySelector("main[data-live]");
    if (main) watch(main);
  });
})();
