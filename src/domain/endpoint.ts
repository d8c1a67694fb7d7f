/** How the body of a webhook is made of an event. */
export const formats = ['standard', 'raw', 'cloudevents', 'cloudevents-binary'] as const
export type Format = (typeof formats)[number]

/** What a subscriber wants made of statuses, by number or class: `{ "404": "retry", "5xx": "bury" }`. */
export type StatusRules = Readonly<Record<string, 'deliver' | 'retry' | 'bury'>>
