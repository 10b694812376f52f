/** The fields of a flag: conditions, variants and payloads. */
import { useEffect, useState } from 'preact/hooks'
import { Button, Card, Choice, exact, Fields, FilterList, listOf, post, TextField } from '../../kit.ts'
import { type Condition, type Draft, equalShares, renamed, sentenceOf, type Variant } from './draft.ts'

interface EditorProps {
  readonly draft: Draft
  readonly set: (changes: Partial<Draft>) => void
  /** The group type of the flag; null if the flag is for persons. */
  readonly groupType: number | null
}

const FIELDS = {
  key: { label: 'Key', isRequired: true },
  name: { label: 'Name' },
  tags: { label: 'Tags', hint: 'Between commas.' },
  active: { kind: 'check', isSwitch: true, label: 'On' },
  continuity: { kind: 'check', label: 'Who had a value before logging in keeps it' },
} as const

/** All fields of a flag. */
export function Editor(props: EditorProps) {
  const { draft, set } = props
  // The text as it is typed, including commas at the end.
  const [tags, setTags] = useState(draft.tags.join(', '))
  return (
    <>
      <Card title="Flag">
        <div class="fields">
          <Fields
            fields={FIELDS}
            values={{ ...draft, tags }}
            set={({ tags: words, ...changes }) => {
              if (words !== undefined) setTags(words)
              set({ ...changes, ...(words !== undefined && { tags: listOf(words) }) })
            }}
          />
        </div>
      </Card>
      <Conditions {...props} />
      <Variants {...props} />
    </>
  )
}

function Conditions({ draft: { conditions, variants }, set, groupType }: EditorProps) {
  return (
    <Card title="For whom: the first condition that fits decides">
      {conditions.map((condition, at) => (
        <ConditionFields
          key={`${at} of ${conditions.length}`}
          {...{ condition, at, variants, groupType }}
          change={(changes) => set({ conditions: conditions.with(at, { ...condition, ...changes }) })}
          remove={() => set({ conditions: conditions.toSpliced(at, 1) })}
        />
      ))}
      <Button press={() => set({ conditions: [...conditions, { properties: [], rollout_percentage: 100 }] })}>
        + Condition set
      </Button>
    </Card>
  )
}

interface ConditionProps extends Pick<Draft, 'variants'>, Pick<EditorProps, 'groupType'> {
  readonly condition: Condition
  readonly at: number
  readonly change: (changes: Condition) => void
  readonly remove: () => void
}

function ConditionFields({ condition, at, variants, groupType, change, remove }: ConditionProps) {
  const isOfPersons = groupType === null
  const fixed = variants.map(({ key }) => [key, `always ${key}`] as const)
  return (
    <section class="condition" aria-label={`Condition ${at + 1}`}>
      <header class="row">
        <b>
          {at + 1}. {sentenceOf(condition, isOfPersons ? 'persons' : 'groups')}
        </b>
        <Button press={remove}>Remove</Button>
      </header>
      <FilterList
        filters={condition.properties ?? []}
        types={[isOfPersons ? 'person' : 'group']}
        none="No condition: everybody."
        change={(filters) =>
          change({
            properties: isOfPersons ? filters : filters.map((one) => ({ ...one, group_type_index: groupType })),
          })
        }
      />
      <div class="row">
        <Share value={condition.rollout_percentage ?? 100} change={(share) => change({ rollout_percentage: share })} />
        {fixed.length > 0 && (
          <Choice<string>
            label="Variant"
            value={condition.variant ?? ''}
            options={[['', 'by the shares below'], ...fixed]}
            change={(variant) => change({ variant: variant || null })}
          />
        )}
        <Reach condition={condition} groupType={groupType} />
      </div>
    </section>
  )
}

function Share({ value, change }: { value: number; change: (share: number) => void }) {
  const set = (words: string) => change(Number(words))
  return <TextField isNarrow label="Share in %" type="number" value={String(value)} change={set} />
}

const REACH_PAUSE_MS = 300

/** Shows how many persons or groups a condition matches, while it is being written. */
function Reach({ condition, groupType }: { condition: Condition; groupType: number | null }) {
  const [words, setWords] = useState('')
  const asked = JSON.stringify([condition.properties, condition.rollout_percentage])
  useEffect(() => {
    const abort = new AbortController()
    const timer = setTimeout(async () => {
      const properties = (condition.properties ?? []).filter(({ key }) => key !== '')
      const body = { condition: { ...condition, properties }, group_type_index: groupType }
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
  const { variants } = draft
  const isNone = variants.length === 0
  const sum = variants.reduce((all, one) => all + one.rollout_percentage, 0)
  const add = () => {
    const names = isNone ? ['control', 'test'] : [`variant-${variants.length + 1}`]
    const added = names.map((key) => ({ key, rollout_percentage: 0 }))
    set({ variants: equalShares([...variants, ...added]) })
  }
  return (
    <Card title={isNone ? 'Value: on or off' : 'Value: one of these variants'}>
      {variants.map((variant, at) => (
        <VariantFields key={`${at} of ${variants.length}`} {...{ draft, set, variant, at }} />
      ))}
      {isNone && <Payload name="true" {...{ draft, set }} />}
      <p class="row">
        <Button press={add}>{isNone ? 'Use variants' : '+ Variant'}</Button>
        {!isNone && (
          <>
            <Button press={() => set({ variants: equalShares(variants) })}>Equal shares</Button>
            <span class={sum === 100 ? 'quiet' : 'worse'}>{Math.round(sum * 100) / 100} % together</span>
          </>
        )}
      </p>
    </Card>
  )
}

type DraftProps = Pick<EditorProps, 'draft' | 'set'>

function VariantFields({ draft, set, variant, at }: DraftProps & { variant: Variant; at: number }) {
  const { variants } = draft
  return (
    <section class="condition" aria-label={`Variant ${at + 1}`}>
      <div class="row">
        <TextField
          isNarrow
          label="Variant"
          value={variant.key}
          change={(key) => set(renamed(draft, at, key))}
          isRequired
        />
        <Share
          value={variant.rollout_percentage}
          change={(share) => set({ variants: variants.with(at, { ...variant, rollout_percentage: share }) })}
        />
        <Button press={() => set({ variants: variants.toSpliced(at, 1) })}>Remove</Button>
      </div>
      <Payload name={variant.key} {...{ draft, set }} />
    </section>
  )
}

function Payload({ name, draft: { payloads }, set }: DraftProps & { name: string }) {
  return (
    <TextField
      type="area"
      label={name === 'true' ? 'Payload' : `Payload of ${name}`}
      value={payloads[name] ?? ''}
      change={(text) => set({ payloads: { ...payloads, [name]: text } })}
      hint="JSON that code gets with the value, or nothing."
    />
  )
}
