/** Shows the properties of a person, a group or an event as a table, and changes single properties. */
import { plain } from '../base/format.ts'
import { Ask } from './form.tsx'
import { type Column, Table } from './table.tsx'

type Set = (key: string, value: unknown) => Promise<unknown>
type Property = readonly [key: string, value: unknown]

interface PropertyTableProps {
  readonly properties: Readonly<Record<string, unknown>>
  readonly set?: Set | false
  readonly remove?: (key: string) => Promise<unknown>
}

/** A table of properties. Custom properties come before those of SDKs. `set` and `remove` change one property. */
export function PropertyTable({ properties, set = false, remove }: PropertyTableProps) {
  const isOfSdk = (key: string) => Number(key.startsWith('$'))
  const rows = Object.entries(properties).sort(([a], [b]) => isOfSdk(a) - isOfSdk(b) || a.localeCompare(b))
  const columns: readonly Column<Property>[] = [
    ['Property', ([key]) => <bdi class="named">{key}</bdi>],
    ['Value', ([, value]) => <Value value={value} />],
  ]
  if (set === false) return <Table label="Properties" rows={rows} none="No properties." columns={columns} />
  const change = ([key, value]: Property) => (
    <span class="row">
      <SetProperty label="Edit" title={`Set ${key}`} value={value} set={(_, next) => set(key, next)} />
      {remove && (
        <Ask label="✕" action="Remove it" title={`Remove ${key}?`} submit={() => remove(key)}>
          Events keep the value that they had.
        </Ask>
      )}
    </span>
  )
  return (
    <>
      <Table
        label="Properties"
        rows={rows}
        keyOf={([key]) => key}
        none="No properties."
        columns={[...columns, ['', change, 'number']]}
      />
      <SetProperty label="+ Property" title="Set a property" set={set} />
    </>
  )
}

/** Shows a value: a link for a web URL, otherwise text. */
function Value({ value }: { value: unknown }) {
  const words = plain(value)
  if (typeof value !== 'string' || !/^https?:\/\//.test(value)) return <code>{words}</code>
  return (
    <a href={value} rel="noreferrer noopener" target="_blank">
      {words}
    </a>
  )
}

function SetProperty({ label, title, value, set }: { label: string; title: string; value?: unknown; set: Set }) {
  const name = value === undefined ? { key: { label: 'Property', isRequired: true } } : {}
  const fields = { ...name, words: { label: 'Value', value: plain(value), hint: 'JSON, or any text.' } }
  return (
    <Ask
      {...{ label, title, fields }}
      action="Save"
      submit={({ key = '', words }: { key?: string; words: string }) => set(key, parsed(words))}
    />
  )
}

/** Returns the value of a field: parsed JSON if the text is JSON, otherwise the text. */
export function parsed(words: string): unknown {
  try {
    return JSON.parse(words)
  } catch {
    return words
  }
}
