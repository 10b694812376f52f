/** Properties of a person, a group or an event as a table, and changing one of them. */
import { useState } from 'preact/hooks'
import { plain } from '../base/format.ts'
import { ConfirmButton } from './dialog.tsx'
import { TextField } from './fields.tsx'
import { Table } from './table.tsx'

type Properties = Readonly<Record<string, unknown>>

/** A table of properties, those of one's own before those of SDKs. `set` and `remove` change one. */
export function PropertyTable({
  properties,
  set,
  remove,
}: {
  readonly properties: Properties
  readonly set?: ((key: string, value: unknown) => Promise<unknown>) | undefined
  readonly remove?: ((key: string) => Promise<unknown>) | undefined
}) {
  const isOfSdk = (key: string) => Number(key.startsWith('$'))
  const rows = Object.entries(properties).sort(([a], [b]) => isOfSdk(a) - isOfSdk(b) || a.localeCompare(b))
  return (
    <>
      <Table
        label="Properties"
        rows={rows}
        keyOf={([key]) => key}
        none="No properties."
        columns={[
          { head: 'Property', cell: ([key]) => key },
          { head: 'Value', cell: ([, value]) => <Value value={value} /> },
          ...(set === undefined
            ? []
            : [
                {
                  head: '',
                  isNumber: true,
                  cell: ([key, value]: [string, unknown]) => (
                    <span class="row">
                      <EditProperty label="Edit" name={key} value={value} set={set} />
                      {remove === undefined ? null : (
                        <ConfirmButton label="✕" action="Remove it" title={`Remove ${key}?`} submit={() => remove(key)}>
                          <p>Events keep the value that they had.</p>
                        </ConfirmButton>
                      )}
                    </span>
                  ),
                },
              ]),
        ]}
      />
      {set === undefined ? null : <EditProperty label="+ Property" name="" value="" set={set} />}
    </>
  )
}

/** A value: a link where it is an address of the web, else text. */
function Value({ value }: { readonly value: unknown }) {
  const words = plain(value)
  if (typeof value !== 'string' || !/^https?:\/\//.test(value)) return <code>{words}</code>
  return (
    <a href={value} rel="noreferrer noopener" target="_blank">
      {words}
    </a>
  )
}

function EditProperty({
  label,
  name,
  value,
  set,
}: {
  readonly label: string
  readonly name: string
  readonly value: unknown
  readonly set: (key: string, value: unknown) => Promise<unknown>
}) {
  const [key, setKey] = useState(name)
  const [words, setWords] = useState(plain(value))
  return (
    <ConfirmButton
      label={label}
      action="Save"
      title={name === '' ? 'Set a property' : `Set ${name}`}
      isDangerous={false}
      submit={() => set(key, parsed(words))}
    >
      {name === '' ? <TextField label="Property" value={key} change={setKey} isRequired /> : null}
      <TextField label="Value" value={words} change={setWords} hint="JSON, or any text." />
    </ConfirmButton>
  )
}

/** What a field holds: JSON where it is JSON, else the text. */
function parsed(words: string): unknown {
  try {
    return JSON.parse(words)
  } catch {
    return words
  }
}
