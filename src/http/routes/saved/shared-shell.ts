/**
 * The HTML pages that browsers get below `/shared/`: the page that loads the console's program, and the page for a link
 * that opens nothing. Source: docs/compatibility/saved.md, "Shared pages".
 */
import { escaped, pagePolicy } from '../../../base/html/html.ts'
import { protectionOf } from '../../console/console-files.ts'
import type { Header } from '../../server/respond.ts'

/** The pages that may embed a shared page in a frame: pages of any origin, or none. */
export type Frames = '*' | "'none'"

/** Returns the headers of the page that loads the console's program. */
export function shellHeaders(frames: Frames): readonly Header[] {
  return protectionOf(frames).filter(([name]) => name !== 'Referrer-Policy')
}

/** Returns the headers of `LOCKED_PAGE`. */
export function lockedHeaders(frames: Frames): readonly Header[] {
  return [['Content-Security-Policy', pagePolicy(NOTE_STYLE, frames)]]
}

const NOTE_STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 20vh auto 0; max-width: 30rem; padding: 0 1.5rem }
h1 { font-size: 1.4rem }
:root { color-scheme: light dark }
`

/** The headers of `DEAD_PAGE`. */
export const DEAD_HEADERS: readonly Header[] = [
  ['Content-Security-Policy', pagePolicy(NOTE_STYLE, '*')],
]

/**
 * The page for a link that opens nothing. It does not say whether the link has expired or never existed. It has no
 * content to protect, so pages of any origin may embed it in a frame.
 */
export const DEAD_PAGE = notePage(
  'This link opens nothing',
  'The page is no longer shared, its link was replaced or has expired, or the address is incomplete. Ask the person who sent you the link for the current one.',
)

/** The page for a link with a password, in a browser that does not run the console's program. */
export const LOCKED_PAGE = notePage(
  'This page needs a password',
  'Open it in a browser with JavaScript, which asks for the password.',
)

function notePage(title: string, sentence: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${NOTE_STYLE}</style>
</head>
<body>
<h1>${title}</h1>
<p>${sentence}</p>
</body>
</html>
`
}

/**
 * Returns the page that loads the console's program, as the text before and the text after the escaped title. `shell`
 * is the console's index.html. A browser without JavaScript shows a link to the static page at `plainUrl`.
 */
export function shellAround(shell: string, plainUrl: string): readonly [string, string] {
  const url = escaped(plainUrl)
  const [before = '', after = ''] = shell
    .replace('<html ', '<html data-shared ')
    .replace(/<noscript>[\s\S]*?<\/noscript>/, () => {
      return `<noscript><a href="${url}">Show the numbers as tables</a></noscript>`
    })
    .replace('</head>', () => {
      return `<noscript><meta http-equiv="refresh" content="0; url=${url}"></noscript></head>`
    })
    .split(/<title>[\s\S]*?<\/title>/)
  return [`${before}<title>`, `</title>${after}`]
}
