/** The page: the explorer over fetch, with its state in the address. */

import { startExplorer } from "./explorer.js";
import { pageAddress } from "./state.js";
import { fetchTransport } from "./transport.js";

const AWAY = "The server does not answer. Is `marginals explore` still running? The page goes on when it is back at the same address.";

const root = document.getElementById("explorer");
if (root) startExplorer(root, fetchTransport(), pageAddress(), AWAY);
