// Loaded before the page is drawn, so that it never changes colour: the theme a person chose, or the system's.
const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
