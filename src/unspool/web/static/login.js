// The page a link leads to: keep the key of the page where only this address and port can read it, then go to the first page.
try {
  localStorage.setItem("unspool-key", document.querySelector("meta[name=unspool-key]").content);
} catch {
  // Storage is switched off: pages can be read, and say what they cannot do.
}
location.replace("/");
