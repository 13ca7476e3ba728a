// What of the view is in the address: the opened step has an entry of its own in the history, so that Back closes it.

const kept = new Map();

export function rewriteAddress(change = () => {}, { push = false, state = history.state } = {}) {
  const url = new URL(location.href);
  for (const [name, value] of kept) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  change(url.searchParams);
  try {
    if (push) history.pushState(state, "", url);
    else history.replaceState(state, "", url);
    return true;
  } catch {
    return false; // a file may have no history of its own
  }
}

export function keepInAddress(name, value) {
  kept.set(name, value);
  rewriteAddress();
}

export function askedInAddress(name) {
  return new URL(location.href).searchParams.get(name);
}
