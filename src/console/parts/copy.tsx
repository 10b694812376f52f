/** Taking things along: to the clipboard, as a file. */
import { useState } from 'preact/hooks'
import { plain } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { project } from '../base/session.ts'

const SAID_MS = 1500

/** A button that copies a text and says so. */
export function CopyButton({
  text,
  label = 'Copy',
}: {
  readonly text: string | (() => string)
  readonly label?: string
}) {
  const [isCopied, setCopied] = useState(false)
  async function copy() {
    await writeClipboard(typeof text === 'string' ? text : text())
    setCopied(true)
    setTimeout(() => setCopied(false), SAID_MS)
  }
  return (
    <button type="button" class="small" onClick={() => void copy()}>
      {isCopied ? 'Copied' : label}
    </button>
  )
}

/** The clipboard is there on https and loopback only; elsewhere a hidden field does it. */
async function writeClipboard(words: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(words)
  const field = document.createElement('textarea')
  field.value = words
  document.body.append(field)
  field.select()
  document.execCommand('copy')
  field.remove()
}

/** A text within single quotes of a shell. */
export function quoted(words: string): string {
  return `'${words.replaceAll("'", `'\\''`)}'`
}

/** A query as a command for a terminal; the key is the reader's own. */
function curlOf(query: Query): string {
  const url = `${location.origin}/api/projects/${project.value.id}/query/`
  return [
    `curl -s ${quoted(url)}`,
    `-H "Authorization: Bearer $TENREC_KEY" -H 'Content-Type: application/json'`,
    `-d ${quoted(JSON.stringify({ query }))}`,
  ].join(' \\\n  ')
}

/** Rows as a table for spreadsheets. A cell that a spreadsheet would take for a formula gets a quote before it. */
function csvOf(head: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [head, ...rows].map((cells) => `${cells.map(csvCell).join(',')}\r\n`).join('')
}

function csvCell(value: unknown): string {
  const words = plain(value ?? '')
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(words) ? `'${words}` : words
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** Saves a text as a file of the reader. */
export function saveFile(name: string, words: string, type = 'text/csv'): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([words], { type: `${type};charset=utf-8` }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** The same numbers elsewhere: as CSV, and as the request that a terminal can send. */
export function TakeAlong({
  name,
  head,
  rows,
  query,
}: {
  readonly name: string
  readonly head: readonly string[]
  readonly rows: () => readonly (readonly unknown[])[]
  readonly query?: Query
}) {
  return (
    <span class="take-along">
      <button type="button" class="small" onClick={() => saveFile(`${name}.csv`, csvOf(head, rows()))}>
        CSV
      </button>
      {query === undefined ? null : <CopyButton label="Copy as curl" text={() => curlOf(query)} />}
    </span>
  )
}
