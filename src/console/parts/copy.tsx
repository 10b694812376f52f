/** Taking things along: to the clipboard, as a file. */
import { useState } from 'preact/hooks'
import { plain } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { project } from '../base/session.ts'
import { Button } from './fields.tsx'

const SAID_MS = 1500

/** A button that copies a text and says so. */
export function CopyButton({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const [isCopied, setCopied] = useState(false)
  async function copy() {
    await writeClipboard(typeof text === 'string' ? text : text())
    setCopied(true)
    setTimeout(() => setCopied(false), SAID_MS)
  }
  return <Button press={copy}>{isCopied ? 'Copied' : label}</Button>
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

interface FileProps {
  readonly name: string
  readonly type: string
  readonly text: () => string
  readonly label: string
}

/** A button that saves a text as a file of the reader. */
export function FileButton({ name, type, text, label }: FileProps) {
  function save() {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([text()], { type: `${type};charset=utf-8` }))
    link.download = name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
  }
  return <Button press={save}>{label}</Button>
}

interface TakeAlongProps {
  readonly name: string
  readonly head: readonly string[]
  readonly rows: () => readonly (readonly unknown[])[]
  readonly query?: Query
}

/** The same numbers elsewhere: as CSV, and as the request that a terminal can send. */
export function TakeAlong({ name, head, rows, query }: TakeAlongProps) {
  return (
    <span class="take-along">
      <FileButton label="CSV" name={`${name}.csv`} type="text/csv" text={() => csvOf(head, rows())} />
      {query && <CopyButton label="Copy as curl" text={() => curlOf(query)} />}
    </span>
  )
}
