/** The whole style of the page: system fonts, and the colours that its reader prefers. */
export const docsStyle = `
:root {
  color-scheme: light dark;
  --ink: #1c2024; --soft: #5b6570; --line: #d9dee3; --paper: #fff; --wash: #f4f6f8; --link: #0b5bc2; --mark: #fff3c4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ec; --soft: #9ba6b1; --line: #343b43; --paper: #14181c; --wash: #1d2329; --link: #7db4ff; --mark: #463a10;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
code, pre { font: 0.875em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
pre { margin: 0.5rem 0; padding: 0.75rem 1rem; overflow-x: auto; background: var(--wash); border: 1px solid var(--line); border-radius: 6px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
nav { padding: 1.5rem; border-bottom: 1px solid var(--line); font-size: 0.875rem; }
nav ul { margin: 0 0 1rem; padding: 0; list-style: none; }
nav li { padding: 0.1rem 0; }
nav p { margin: 1rem 0 0.25rem; font-weight: 600; }
main { max-width: 60rem; padding: 1.5rem; }
h1 { margin: 0; font-size: 1.75rem; }
h2 { margin: 3rem 0 1rem; padding-bottom: 0.25rem; border-bottom: 1px solid var(--line); font-size: 1.375rem; }
h3 { margin: 2.5rem 0 0.25rem; font-size: 1.05rem; overflow-wrap: anywhere; }
h3 code { font-size: 1em; }
h4 { margin: 1.25rem 0 0.25rem; font-size: 0.875rem; color: var(--soft); }
.method { display: inline-block; min-width: 4.2em; color: var(--soft); font-weight: 600; }
.soft { color: var(--soft); font-size: 0.875rem; font-weight: 400; }
.group { display: inline-block; margin-right: 1rem; font-size: 0.875rem; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.875rem; }
th, td { padding: 0.35rem 0.75rem 0.35rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td:first-child { white-space: nowrap; }
summary { cursor: pointer; color: var(--soft); font-size: 0.875rem; }
tr:target, :target > h3 { background: var(--mark); }
@media (min-width: 70rem) {
  body { display: grid; grid-template-columns: 21rem 1fr; }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; border: 0; border-right: 1px solid var(--line); }
  main { padding: 2rem 3rem 6rem; }
}
`
