// Before the first paint, so that a dark console never flashes white.
(() => {
  let kept = "auto";
  try {
    kept = localStorage.getItem("moorage-color-scheme") ?? "auto";
  } catch {
    // Storage can be switched off; then the system decides.
  }
  const dark = kept === "dark" || (kept !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.mantineColorScheme = dark ? "dark" : "light";
})();
