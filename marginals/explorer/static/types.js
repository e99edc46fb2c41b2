/**
 * Shapes of what the session sends and the page keeps. Only comments: types are checked, not built.
 *
 * @typedef {object} Axis A column's axis, as `MonitorAxis.describe` writes it.
 * @property {string} id
 * @property {"bars" | "curve"} kind
 * @property {"category" | "number" | "time" | "span"} family
 * @property {boolean} ordered
 * @property {boolean} listed
 * @property {number[]} places Values of bars, or ends of bins.
 * @property {string[]} labels
 * @property {number[]} atoms
 * @property {number | null} step
 * @property {(number | null)[]} bounds
 * @property {string} what
 * @property {string[]} notes
 *
 * @typedef {object} Monitor
 * @property {number[]} m Masses of bars or bins.
 * @property {number[]} a Masses of atoms.
 * @property {number[]} q Quantiles at 5, 50 and 95 %.
 * @property {number[]} b Masses beyond the axis.
 *
 * @typedef {{is: "value", value: number | string}} ValueCell
 * @typedef {{is: "range", low: number | null, high: number | null}} RangeCell
 * @typedef {{is: "set", values: (number | string)[]}} SetCell
 * @typedef {{is: "soft", weights: number[]}} SoftCell
 * @typedef {ValueCell | RangeCell | SetCell | SoftCell} Cell
 * @typedef {Record<string, Cell>} Evidence
 *
 * @typedef {{log: number, density: boolean, error: number, outside?: string[], rough?: boolean}} EvidenceFacts
 * @typedef {{n: number, m: number[], a: number[]}} Shares
 * @typedef {{rows: number, agree: number, remarks: string[], columns: Record<string, Shares>}} DataFacts
 *
 * @typedef {object} Table
 * @property {Axis[]} columns
 * @property {Record<string, Monitor>} monitors
 * @property {string} model
 * @property {number | null} rows
 *
 * @typedef {object} Saved What the address holds.
 * @property {Evidence} [e]
 * @property {string | null} [target]
 * @property {string} [view]
 * @property {string[]} [pair]
 * @property {string[]} [pins]
 * @property {string[]} [hidden]
 * @property {string[]} [order]
 * @property {string} [sort]
 * @property {string} [against]
 */

export {};
