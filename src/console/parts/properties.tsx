/** Shows the properties of a person, a group or an event as a table, in which single properties can be changed. */
import { parsed, plain } from '../base/format.ts'
import { propertyLabel, valueLabel } from '../base/labels.ts'
import { Ask } from './form.tsx'
import { type Column, Table } from './table.tsx'

type Set = (key: string, value: unknown) => Promise<unknown>
type Property = readonly [key: string, value: unknown]

interface PropertyTableProps {
  readonly properties: Readonly<Record<string, unknown>>
  readonly set?: Set | false
  readonly remove?: (key: string) => Promise<unknown>
}

/** A table of properties. The properties of SDKs come after all others. `set` and `remove` change a single property. */
export function PropertyTable({ properties, set = false, remove }: PropertyTableProps) {
  const isOfSdk = (key: string) => Number(key.startsWith('$'))
  const rows = Object.entries(properties).sort(([a], [b]) => isOfSdk(a) - isOfSdk(b) || a.localeCompare(b))
  const columns: readonly Column<Property>[] = [
    ['Property', ([key]) => <PropertyName name={key} />],
    ['Value', ([key, value]) => <Value name={key} value={value} />],
  ]
  if (set === false) return <Table label="Properties" rows={rows} none="No properties." columns={columns} />
  const change = ([key, value]: Property) => (
    <span class="row">
      <SetProperty label="Edit" title={`Set ${key}`} value={value} set={(_, next) => set(key, next)} />
      {remove && (
        <Ask label="Remove" action="Remove property" title={`Remove ${key}?`} submit={() => remove(key)}>
          Events that already have this property keep it.
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
      <SetProperty label="Add property" title="Add a property" set={set} />
    </>
  )
}

/** Shows the readable name of a property. If the property itself has another name, this name is shown below. */
function PropertyName({ name }: { name: string }) {
  const label = propertyLabel(name)
  return (
    <bdi class="named">
      {label}
      {label !== name && <small class="raw">{name}</small>}
    </bdi>
  )
}

/** Shows the value of a property. A code of a country or a language is shown by its name, and a web URL as a link. */
function Value({ name, value }: { name: string; value: unknown }) {
  const label = valueLabel(name, value)
  if (label !== null) return <span title={plain(value)}>{label}</span>
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
  const fields = {
    ...name,
    words: { label: 'Value', value: plain(value), hint: 'Text, a number, true, false, or JSON.' },
  }
  return (
    <Ask
      label={label}
      title={title}
      fields={fields}
      action="Save property"
      submit={({ key = '', words }: { key?: string; words: string }) => set(key, parsed(words))}
    />
  )
}
