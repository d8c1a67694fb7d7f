/** Kinds of damage. Each picks a place by chance and returns the damaged run, or nothing if the place does not fit. */
import { attempting } from './attempting.js'
import { counting } from './counting.js'
import { losing } from './losing.js'

/**
 * @typedef {{ history: object[], answers: object, ids?: number[], what: string }} Damaged `ids`: the events that it concerns
 * @type {Record<string, (material: object, random: object) => Damaged | undefined>}
 */
export const damages = { ...losing, ...attempting, ...counting }
