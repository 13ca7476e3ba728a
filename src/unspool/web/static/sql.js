// The SQL page: Ctrl-Enter asks.
const field = document.querySelector("textarea[name=q]");
field?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); field.form.requestSubmit(); }
});
