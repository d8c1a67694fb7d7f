import { type DestinationStream, type Logger, pino } from 'pino'

export type { Logger }

/** `false` logs nothing, a level makes a new logger, and a caller's pino is used as it is. */
export type LogOption = false | string | Logger

/** Whether it is `false` or a logger. An application has its own copy of pino, so a logger is recognized by its methods. */
export function isLogger(option: unknown): boolean {
  if (typeof option !== 'object' || option === null) return option === false
  return ['info', 'warn', 'error'].every(
    (name) => typeof (option as Record<string, unknown>)[name] === 'function',
  )
}

/** Writes lines of JSON, to stdout by default. */
export function createLogger(option: LogOption, destination?: DestinationStream): Logger {
  if (option === false) return pino({ level: 'silent' })
  if (typeof option === 'string') return pino({ name: 'posthorn', level: option }, destination)
  return option
}
