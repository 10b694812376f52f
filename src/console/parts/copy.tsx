/** Buttons that copy a text to the clipboard or save it as a file. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { CSV_ROWS_MAX, csvOf } from '../base/csv.ts'
import { exact } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { may, project } from '../base/session.ts'
import { Button } from './fields.tsx'
import { Menu } from './menu.tsx'
import { say } from './toasts.tsx'

const SAID_MS = 1500

/** A button that copies a text and then shows that it was copied. */
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
 * Writes a text to the clipboard. Browsers offer their clipboard API only on https and on this machine. Elsewhere, the
 * text is copied from a hidden field.
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

/** Returns a text in quotes for a shell. */
export function quoted(words: string): string {
  return `'${words.replaceAll("'", `'\\''`)}'`
}

/** Returns a shell command that sends a query. The reader must insert a key. */
function curlOf(query: Query): string {
  const url = `${location.origin}/api/projects/${project.value.id}/query/`
  return [
    `curl -s ${quoted(url)}`,
    `-H "Authorization: Bearer $TENREC_KEY" -H 'Content-Type: application/json'`,
    `-d ${quoted(JSON.stringify({ query }))}`,
  ].join(' \\\n  ')
}

interface FileProps {
  readonly name: string
  readonly type: string
  readonly text: () => string | Promise<string>
  readonly label: string
  /** The name of the button for screen readers, if a page may have several buttons with the same label. */
  readonly longLabel?: string
}

/** A button that saves a text as a file. */
export function FileButton({ name, type, text, label, longLabel }: FileProps) {
  const [isBusy, setBusy] = useState(false)
  async function save() {
    setBusy(true)
    const words = await Promise.resolve()
      .then(text)
      .catch((error: Error) => {
        say(error.message)
        return null
      })
    setBusy(false)
    if (words === null) return
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([words], { type: `${type};charset=utf-8` }))
    link.download = name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
  }
  return (
    <Button press={save} disabled={isBusy} aria-label={longLabel}>
      {label}
    </Button>
  )
}

/**
 * The rows of a list, and the number of rows in the list. If the list is too long for a file, `rows` contains only the
 * first rows. `count` is infinite if the list cannot tell its length.
 */
export interface AllRows {
  readonly rows: readonly object[]
  readonly count: number
}

interface TakeAlongProps {
  readonly name: string
  readonly rows: () => readonly object[]
  /** Reads the rows of all pages. If absent, the file contains the result of `rows`. */
  readonly all?: (() => Promise<AllRows>) | undefined
  readonly query?: Query | undefined
  /** What is shown before the buttons. */
  readonly children?: ComponentChildren
}

/** A button that saves numbers as a CSV file, and a menu that copies their query as a shell command. */
export function ExportMenu({ name, rows, all, query, children }: TakeAlongProps) {
  const file = `${name.toLowerCase().replace(/\W+/g, '-')}.csv`
  async function table() {
    const found = all === undefined ? { rows: rows(), count: rows().length } : await all()
    const written = found.rows.slice(0, CSV_ROWS_MAX)
    const words = Number.isFinite(found.count) ? ` of ${exact(found.count)}` : ''
    if (found.count > written.length) say(`The file has the first ${exact(written.length)}${words} rows.`)
    return csvOf(written)
  }
  return (
    <span class="take-along">
      {children}
      <FileButton label="Download CSV" longLabel={`Download CSV: ${name}`} name={file} type="text/csv" text={table} />
      {query && may('query:read') && (
        <Menu label={`Query of ${name}`}>
          <CopyButton label="Copy as curl" text={() => curlOf(query)} />
        </Menu>
      )}
    </span>
  )
}
