/** How long the driver waits for what, in ms. Generous: a busy machine is slow, and slow is not wrong. */
export const httpCallMsMax = 15_000
export const commandMsMax = 20_000
/** Nothing was begun or settled for so long, and something still waits: it will not move any more. */
export const standstillMsMax = 30_000
export const drainMsMax = 400_000
/** A suspended endpoint is probed every minute at most, and whoever takes a probe may die with it: 13 s more. */
export const probedMsMax = 100_000
