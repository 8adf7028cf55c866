// Before the first paint. The handbook looks as its reader chose here, else as the console does, else as the system does.
(() => {
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("theme") ?? localStorage.getItem("moorage-color-scheme") ?? "auto";
  } catch {
    // Storage can be switched off; then the system decides.
  }
  document.body.dataset.theme = ["light", "dark"].includes(chosen) ? chosen : "auto";
})();
