// The page that shares a session: one key downloads what was previewed.
import { keys } from "./keys.js";

keys([{ key: "d", words: "download the file as previewed", run: () => document.querySelector(".buttons button.main")?.click() }]);
