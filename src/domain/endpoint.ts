/** How the body of a webhook is built from an event. */
export const formats = ['standard', 'raw', 'cloudevents', 'cloudevents-binary'] as const
export type Format = (typeof formats)[number]

/** What HTTP statuses mean to a subscription, by number or class: `{ "404": "retry", "5xx": "bury" }`. */
export type StatusRules = Readonly<Record<string, 'deliver' | 'retry' | 'bury'>>
