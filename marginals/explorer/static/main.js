/** The page: the explorer over fetch, with its state in the address. */

import { startExplorer } from "./explorer.js";
import { readAddress, writeAddress } from "./state.js";
import { fetchTransport } from "./transport.js";

const root = document.getElementById("explorer");
if (root) startExplorer(root, fetchTransport(), { read: readAddress, write: writeAddress });
