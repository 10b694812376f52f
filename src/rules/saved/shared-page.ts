/**
 * Writes a shared insight or dashboard as a page with its name, its texts, and its results as tables. The page is plain
 * HTML that loads no other files and runs no scripts. All texts of users are escaped.
 */
import { escaped } from '../../base/html/html.ts'
import type { JsonObject } from '../../base/json.ts'
import { questionOf } from './insight-question.ts'
import type { Insight, SharedView, SharingSettings, TileView } from './saved.ts'

/** A part of a page: a text, or the query whose result must be inserted there. */
export type ShownPart = string | { readonly question: JsonObject | null }

/** The style sheet of the page. */
export const SHARED_STYLE = `
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

/** Returns the parts of the page of a shared object. The cost is linear. */
export function sharedPageParts(view: SharedView): readonly ShownPart[] {
  const { settings } = view.sharing
  const isInsight = 'insight' in view
  const title = sharedTitle(view)
  const about = isInsight ? view.insight.fields.description : view.dashboard.fields.description
  const header = settings.noHeader === true ? '' : `<h1>${escaped(title)}</h1>\n${paragraph(about)}`
  const sections: readonly (readonly ShownPart[])[] = isInsight
    ? [[{ question: questionOf(view.insight.fields.query) }]]
    : view.tiles.map((tile) => tileParts(tile, view.dashboard.fields.filters, settings))
  const footer = settings.whitelabel === true ? '' : '<footer><small>Tenrec</small></footer>\n'
  return [
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escaped(title)}</title>
<style>${SHARED_STYLE}</style>
</head>
<body>
${header}
<main>
`,
    ...sections.flatMap((section) => ['<section>', ...section, '</section>\n']),
    `</main>
${footer}</body>
</html>
`,
  ]
}

/** Returns the name of a shared object as text, not escaped for HTML. */
export function sharedTitle(view: SharedView): string {
  if ('insight' in view) return titleOf(view.insight)
  return view.dashboard.fields.name || 'Dashboard'
}

function titleOf({ fields }: Insight): string {
  return fields.name || fields.derived_name || 'Insight'
}

function tileParts(
  { insight: view, text }: TileView,
  filters: JsonObject,
  { hideExtraDetails }: SharingSettings,
): readonly ShownPart[] {
  if (view === null) return [paragraph(text?.body ?? '')]
  const { insight } = view
  const about = hideExtraDetails === true ? '' : paragraph(insight.fields.description)
  return [
    `<h2>${escaped(titleOf(insight))}</h2>${about}`,
    { question: questionOf(insight.fields.query, filters) },
  ]
}

function paragraph(text: string | null): string {
  return text === null || text === '' ? '' : `<p>${escaped(text)}</p>`
}
