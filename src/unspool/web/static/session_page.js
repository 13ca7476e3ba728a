// A session's page inside the frame: its keys are listed with the frame's own.
import { keys as own } from "./session.js";
import { note } from "./keys.js";
import "./beside.js";

note(own);
