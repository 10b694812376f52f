/** The fields of a flag: conditions, variants, payloads. */

import { useEffect, useState } from 'preact/hooks'
import { AreaField, Card, Check, Choice, exact, FilterList, post, TextField } from '../../kit.ts'
import { type Condition, type Draft, equalShares, renamed, sentenceOf, type Variant } from './draft.ts'

interface EditorProps {
  readonly draft: Draft
  readonly set: (changes: Partial<Draft>) => void
  /** Null: persons; else the group type that the flag is about. */
  readonly groupType: number | null
}

/** All fields. */
export function Editor(props: EditorProps) {
  const { draft, set } = props
  return (
    <>
      <Card title="Flag">
        <div class="fields">
          <TextField label="Key" value={draft.key} change={(key) => set({ key })} isRequired />
          <TextField label="Name" value={draft.name} change={(name) => set({ name })} />
          <TextField
            label="Tags"
            value={draft.tags.join(', ')}
            change={(words) => set({ tags: listOf(words) })}
            hint="Between commas."
          />
          <Check isSwitch label="On" value={draft.active} change={(active) => set({ active })} />
          <Check
            label="Who had a value before logging in keeps it"
            value={draft.continuity}
            change={(continuity) => set({ continuity })}
          />
        </div>
      </Card>
      <Conditions {...props} />
      <Variants {...props} />
    </>
  )
}

function listOf(words: string): readonly string[] {
  return words
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
}

function Conditions({ draft: { conditions, variants }, set, groupType }: EditorProps) {
  const replace = (at: number, next: Condition) =>
    set({ conditions: conditions.map((one, place) => (place === at ? next : one)) })
  return (
    <Card title="For whom: the first condition that fits decides">
      {conditions.map((condition, at) => (
        <ConditionFields
          key={`${at} of ${conditions.length}`}
          {...{ condition, at, variants, groupType }}
          replace={(next) => replace(at, next)}
          remove={() => set({ conditions: conditions.filter((_, place) => place !== at) })}
        />
      ))}
      <button
        type="button"
        class="small"
        onClick={() => set({ conditions: [...conditions, { properties: [], rollout_percentage: 100 }] })}
      >
        + Condition set
      </button>
    </Card>
  )
}

function ConditionFields({
  condition,
  at,
  variants,
  groupType,
  replace,
  remove,
}: {
  readonly condition: Condition
  readonly at: number
  readonly replace: (next: Condition) => void
  readonly remove: () => void
} & Pick<Draft, 'variants'> &
  Pick<EditorProps, 'groupType'>) {
  return (
    <section class="condition" aria-label={`Condition ${at + 1}`}>
      <header class="row">
        <b>
          {at + 1}. {sentenceOf(condition, groupType === null ? 'persons' : 'groups')}
        </b>
        <button type="button" class="small" onClick={remove}>
          Remove
        </button>
      </header>
      <FilterList
        filters={condition.properties ?? []}
        types={[groupType === null ? 'person' : 'group']}
        none="No condition: everybody."
        change={(properties) =>
          replace({
            ...condition,
            properties: properties.map((one) => (groupType === null ? one : { ...one, group_type_index: groupType })),
          })
        }
      />
      <div class="row">
        <TextField
          isNarrow
          label="Share in %"
          type="number"
          value={String(condition.rollout_percentage ?? 100)}
          change={(share) => replace({ ...condition, rollout_percentage: Number(share) })}
        />
        {variants.length === 0 ? null : (
          <Choice
            label="Variant"
            value={condition.variant ?? ''}
            options={[
              ['', 'by the shares below'] as const,
              ...variants.map(({ key }) => [key, `always ${key}`] as const),
            ]}
            change={(variant) => replace({ ...condition, variant: variant === '' ? null : variant })}
          />
        )}
        <Reach condition={condition} groupType={groupType} />
      </div>
    </section>
  )
}

const REACH_PAUSE_MS = 300

/** How many a condition reaches, asked while it is written. */
function Reach({ condition, groupType }: { readonly condition: Condition; readonly groupType: number | null }) {
  const [words, setWords] = useState('')
  const asked = JSON.stringify([condition.properties, condition.rollout_percentage])
  useEffect(() => {
    const abort = new AbortController()
    const timer = setTimeout(async () => {
      const body = {
        condition: {
          ...condition,
          properties: (condition.properties ?? []).filter(({ key }) => key !== ''),
        },
        group_type_index: groupType,
      }
      const request = post('project/feature_flags/user_blast_radius/', {}, body as never, abort.signal)
      try {
        const { users_affected: reached, total_users: all } = await request
        const share = condition.rollout_percentage ?? 100
        const some = share === 100 ? '' : `, some ${exact(Math.round((reached * share) / 100))} get it`
        setWords(`${exact(reached)} of ${exact(all)} fit${some}`)
      } catch (error) {
        if (!abort.signal.aborted) setWords(error instanceof Error ? error.message : '')
      }
    }, REACH_PAUSE_MS)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [asked, groupType])
  return (
    <output class="quiet" aria-live="polite">
      {words}
    </output>
  )
}

function Variants({ draft, set }: EditorProps) {
  const { variants, payloads } = draft
  const replace = (at: number, next: Variant) =>
    set({ variants: variants.map((one, place) => (place === at ? next : one)) })
  const sum = variants.reduce((all, one) => all + one.rollout_percentage, 0)
  const add = () => {
    const names = variants.length === 0 ? ['control', 'test'] : [`variant-${variants.length + 1}`]
    set({
      variants: equalShares([...variants, ...names.map((key) => ({ key, rollout_percentage: 0 }))]),
    })
  }
  return (
    <Card title={variants.length === 0 ? 'Value: on or off' : 'Value: one of these variants'}>
      {variants.map((variant, at) => (
        <section class="condition" key={`${at} of ${variants.length}`} aria-label={`Variant ${at + 1}`}>
          <div class="row">
            <TextField
              isNarrow
              label="Variant"
              value={variant.key}
              change={(key) => set(renamed(draft, at, key))}
              isRequired
            />
            <TextField
              isNarrow
              label="Share in %"
              type="number"
              value={String(variant.rollout_percentage)}
              change={(share) => replace(at, { ...variant, rollout_percentage: Number(share) })}
            />
            <button
              type="button"
              class="small"
              onClick={() => set({ variants: variants.filter((_, place) => place !== at) })}
            >
              Remove
            </button>
          </div>
          <Payload name={variant.key} {...{ payloads, set }} />
        </section>
      ))}
      {variants.length === 0 ? <Payload name="true" {...{ payloads, set }} /> : null}
      <p class="row">
        <button type="button" class="small" onClick={add}>
          {variants.length === 0 ? 'Use variants' : '+ Variant'}
        </button>
        {variants.length === 0 ? null : (
          <>
            <button type="button" class="small" onClick={() => set({ variants: equalShares(variants) })}>
              Equal shares
            </button>
            <span class={sum === 100 ? 'quiet' : 'worse'}>{Math.round(sum * 100) / 100} % together</span>
          </>
        )}
      </p>
    </Card>
  )
}

function Payload({
  name,
  payloads,
  set,
}: { readonly name: string } & Pick<EditorProps, 'set'> & Pick<Draft, 'payloads'>) {
  return (
    <AreaField
      label={name === 'true' ? 'Payload' : `Payload of ${name}`}
      rows={2}
      value={payloads[name] ?? ''}
      change={(text) => set({ payloads: { ...payloads, [name]: text } })}
      hint="JSON that code gets with the value, or nothing."
    />
  )
}
