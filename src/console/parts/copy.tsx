/** Buttons that copy text to the clipboard or save it as a file. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { plain } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { may, project } from '../base/session.ts'
import { Button } from './fields.tsx'
import { Menu } from './menu.tsx'

const SAID_MS = 1500

/** A button that copies a text and confirms it. */
export function CopyButton({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const [isCopied, setCopied] = useState(false)
  async function copy() {
    await writeClipboard(typeof text === 'string' ? text : text())
    setCopied(true)
    setTimeout(() => setCopied(false), SAID_MS)
  }
  return <Button press={copy}>{isCopied ? 'Copied' : label}</Button>
}

/**
 * Writes to the clipboard. The clipboard API exists only on https and loopback, so a hidden field is used elsewhere.
 */
async function writeClipboard(words: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(words)
  const field = document.createElement('textarea')
  field.value = words
  document.body.append(field)
  field.select()
  document.execCommand('copy')
  field.remove()
}

/** Quotes a text for a shell. */
export function quoted(words: string): string {
  return `'${words.replaceAll("'", `'\\''`)}'`
}

/** Returns a query as a shell command. The reader inserts their own key. */
function curlOf(query: Query): string {
  const url = `${location.origin}/api/projects/${project.value.id}/query/`
  return [
    `curl -s ${quoted(url)}`,
    `-H "Authorization: Bearer $TENREC_KEY" -H 'Content-Type: application/json'`,
    `-d ${quoted(JSON.stringify({ query }))}`,
  ].join(' \\\n  ')
}

/** Returns rows as CSV, with a column for every name that occurs in any row. */
function csvOf(rows: readonly object[]): string {
  const head = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const lines = rows.map((row) => head.map((name) => (row as Readonly<Record<string, unknown>>)[name]))
  return [head, ...lines].map((cells) => `${cells.map(csvCell).join(',')}\r\n`).join('')
}

/**
 * Matches the start of a formula. Like the daemon's own tables, it covers full-width signs, and characters that a
 * spreadsheet ignores before a sign.
 */
const FORMULA_START = /^(?:[\t\r\n]|[\p{C}\p{Z}\p{DI}\u2800]*[=+\-@＝＋－＠﹦﹢﹣﹫−])/u
const NUMBER = /^ *[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

/** Returns a CSV cell. A value that a spreadsheet would run as a formula gets a quote before it. */
function csvCell(value: unknown): string {
  const words = plain(value ?? '')
  const safe = FORMULA_START.test(words) && !NUMBER.test(words) ? `'${words}` : words
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

interface FileProps {
  readonly name: string
  readonly type: string
  readonly text: () => string
  readonly label: string
}

/** A button that saves a text as a file. */
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
  readonly rows: () => readonly object[]
  readonly query?: Query | undefined
  /** The content before the menu. */
  readonly children?: ComponentChildren
}

/** A menu that exports the same numbers as CSV, and copies the query as a shell command. */
export function TakeAlong({ name, rows, query, children }: TakeAlongProps) {
  const file = `${name.toLowerCase().replace(/\W+/g, '-')}.csv`
  return (
    <span class="take-along">
      {children}
      <Menu label={`Export: ${name}`}>
        <FileButton label="Download CSV" name={file} type="text/csv" text={() => csvOf(rows())} />
        {query && may('query:read') && <CopyButton label="Copy as curl" text={() => curlOf(query)} />}
      </Menu>
    </span>
  )
}
