/** Text that is already HTML. Everything else is escaped when it is put into a page. */
export class Markup {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type HtmlValue = string | number | Markup | readonly Markup[]

/** A template that escapes its values, unless they are markup themselves. */
export function html(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Markup {
  const texts = parts.map((part, place) => part + (place < values.length ? textOf(values[place]) : ''))
  return new Markup(texts.join(''))
}

/** Text as routes write it: parts between backticks are code. */
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
