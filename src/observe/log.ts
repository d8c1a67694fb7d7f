import { type DestinationStream, type Logger, pino } from 'pino'

export type { Logger }

/** `false` is silence, a level makes a logger of ours, and a caller's own pino is used as it is. */
export type LogOption = false | string | Logger

/** Whether it is silence or a logger. An application has its own copy of pino, so a logger is told by its form. */
export function isLogger(option: unknown): boolean {
  if (typeof option !== 'object' || option === null) return option === false
  return ['info', 'warn', 'error'].every(
    (name) => typeof (option as Record<string, unknown>)[name] === 'function',
  )
}

/** Lines of JSON, to stdout unless they are to go elsewhere. */
export function createLogger(option: LogOption, destination?: DestinationStream): Logger {
  if (option === false) return pino({ level: 'silent' })
  if (typeof option === 'string') return pino({ name: 'posthorn', level: option }, destination)
  return option
}
