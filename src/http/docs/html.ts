/** Text that is HTML already. Everything else is escaped on its way into a page. */
export class Markup {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type HtmlValue = string | number | Markup | readonly Markup[]

/** A template whose values cannot add markup unless they are markup themselves. */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Markup {
  const texts = parts.map((part, place) => part + (place < values.length ? textOf(values[place]) : ''))
  return new Markup(texts.join(''))
}

/** Prose as routes write it: what is between backticks is code. */
export function prose(text: string): Markup {
  const parts = text
    .split('`')
    .map((part, place) => (place % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))
  return html`${parts}`
}

function textOf(value: HtmlValue | undefined): string {
  if (value instanceof Markup) return value.text
  if (Array.isArray(value)) return value.map(textOf).join('')
  return String(value).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
}
