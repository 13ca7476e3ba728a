// Loaded before the page is drawn, so that it never changes colour: the theme a person chose, or the system's. What only works
// with scripts is shown from here on.
document.documentElement.classList.add("scripted");
try {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // Storage is switched off: the system's theme.
}
