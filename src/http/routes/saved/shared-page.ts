/**
 * A shared insight or dashboard as a page: what it is called, its texts and its numbers as tables. Plain HTML
 * that loads nothing and runs nothing; whatever people wrote stands in it as text.
 */
import { type ResultTable, resultTable } from '../../../rules/saved/result-table.ts'
import type { SharingSettings } from '../../../rules/saved/saved.ts'
import { escaped, pagePolicy } from '../../server/html.ts'

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem 1.5rem 3rem }
h1, h2, p { overflow-wrap: anywhere }
td, th { overflow-wrap: break-word }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)) }
section { border: 1px solid #8886; border-radius: 0.5rem; overflow-x: auto; padding: 0.5rem 1rem 1rem }
h2 { font-size: 1.1rem; margin: 0.25rem 0 }
p { margin: 0.25rem 0; white-space: pre-wrap }
small, caption { color: #888 }
caption { caption-side: bottom; text-align: left }
table { border-collapse: collapse; font-size: 0.9rem; margin-top: 0.5rem; width: 100% }
th, td { border-top: 1px solid #8883; padding: 0.2rem 0.75rem 0.2rem 0; text-align: left; vertical-align: top }
:root { color-scheme: light dark }
`

/** Value of Content-Security-Policy for the page, which any other may show in a frame. */
export const SHARED_POLICY = pagePolicy(STYLE, '*')

/** What is shown of an insight. */
export interface ShownInsight {
  readonly name: string | null
  readonly derived_name: string | null
  readonly description: string | null
  readonly result: unknown
  readonly columns: unknown
}

/** What is shown: an insight, or a dashboard with its tiles. */
export type Shown =
  | { readonly insight: ShownInsight }
  | {
      readonly dashboard: {
        readonly name: string | null
        readonly description: string
        readonly tiles: readonly {
          readonly insight: ShownInsight | null
          readonly text: { readonly body: string } | null
        }[]
      }
    }

/** The page. Linear. */
export function renderShared(shown: Shown, settings: SharingSettings): string {
  const isInsight = 'insight' in shown
  const title = isInsight ? titleOf(shown.insight) : shown.dashboard.name || 'Dashboard'
  const about = isInsight ? shown.insight.description : shown.dashboard.description
  const header = settings.noHeader === true ? '' : `<h1>${escaped(title)}</h1>\n${paragraph(about)}`
  const sections = isInsight
    ? [numbers(shown.insight)]
    : shown.dashboard.tiles.map(({ insight, text }) =>
        insight === null ? paragraph(text?.body ?? '') : tile(insight, settings),
      )
  const footer = settings.whitelabel === true ? '' : '<footer><small>Tenrec</small></footer>\n'
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escaped(title)}</title>
<style>${STYLE}</style>
</head>
<body>
${header}
<main>
${sections.map((section) => `<section>${section}</section>`).join('\n')}
</main>
${footer}</body>
</html>
`
}

function titleOf({ name, derived_name: derivedName }: ShownInsight): string {
  return name || derivedName || 'Insight'
}

function tile(insight: ShownInsight, { hideExtraDetails }: SharingSettings): string {
  const about = hideExtraDetails === true ? '' : paragraph(insight.description)
  return `<h2>${escaped(titleOf(insight))}</h2>${about}${numbers(insight)}`
}

function paragraph(text: string | null): string {
  return text === null || text === '' ? '' : `<p>${escaped(text)}</p>`
}

function numbers({ result: results, columns }: ShownInsight): string {
  const table = resultTable({ results, columns })
  return table === null ? '<p><small>There are no numbers.</small></p>' : tableOf(table)
}

function tableOf({ head, rows, moreRows }: ResultTable): string {
  const caption = moreRows === 0 ? '' : `<caption>and ${moreRows} more</caption>`
  const body = rows.map((row) => `<tr>${row.map((cell) => element('td', cell)).join('')}</tr>`)
  return `<table>${caption}<tr>${head.map((cell) => element('th', cell)).join('')}</tr>${body.join('')}</table>`
}

function element(name: 'td' | 'th', text: string): string {
  return `<${name}>${escaped(text)}</${name}>`
}
