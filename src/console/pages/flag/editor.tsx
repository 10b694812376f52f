/** The form for a flag: its rules as cards, its variants and their payloads. */
import { useEffect, useState } from 'preact/hooks'
import { Button, Card, Choice, exact, Fields, listOf, post, TextField } from '../../kit.ts'
import { type Draft, equalShares, moved, payloadFault, payloadOf, type Rule, renamed, sumOfShares } from './draft.ts'
import type { FlagReferences } from './references.ts'
import { RuleFilters } from './rule-filters.tsx'
import { audienceOf, shareOf } from './sentences.ts'
import { Share, VariantBar } from './share.tsx'

interface EditorProps {
  readonly draft: Draft
  readonly set: (changes: Partial<Draft>) => void
  readonly references: FlagReferences
}

const FIELDS = {
  key: { label: 'Key', isRequired: true, hint: 'The name in your code.' },
  name: { label: 'Description' },
  tags: { label: 'Tags', hint: 'Separated by commas.' },
  continuity: { kind: 'check', label: 'Keep the same variant after login' },
} as const

/** All fields of a flag. */
export function Editor(props: EditorProps) {
  const { draft, set, references } = props
  // The tags as the reader types them. This text may end with a comma, which the list of tags would lose.
  const [tags, setTags] = useState(draft.tags.join(', '))
  const { continuity, ...others } = FIELDS
  return (
    <>
      <Rules {...props} />
      <Variants {...props} />
      <Card title="Flag">
        <div class="fields">
          <Fields
            fields={references.groupType === null ? { ...others, continuity } : others}
            values={{ ...draft, tags }}
            set={({ tags: words, ...changes }) => {
              if (words !== undefined) setTags(words)
              set({ ...changes, ...(words !== undefined && { tags: listOf(words) }) })
            }}
          />
        </div>
      </Card>
    </>
  )
}

function Rules({ draft: { rules, variants }, set, references }: EditorProps) {
  const [dragged, setDragged] = useState<number | null>(null)
  const move = (from: number, to: number) => set({ rules: moved(rules, from, to) })
  return (
    <Card title="Who gets it: the first rule that matches decides">
      {rules.length === 0 && <p class="none">The flag has no rules, so nobody gets it.</p>}
      <ol class="rules">
        {rules.map((rule, at) => (
          <li
            key={`${at} of ${rules.length}`}
            class={dragged === at ? 'rule dragged' : 'rule'}
            onDragOver={(event) => dragged !== null && event.preventDefault()}
            onDrop={(event) => {
              event.preventDefault()
              if (dragged !== null) move(dragged, at)
              setDragged(null)
            }}
          >
            <RuleFields
              rule={rule}
              at={at}
              variants={variants}
              references={references}
              count={rules.length}
              drag={setDragged}
              move={(to) => move(at, to)}
              change={(changes) => set({ rules: rules.with(at, { ...rule, ...changes }) })}
              copy={() => set({ rules: rules.toSpliced(at, 0, rule) })}
              remove={() => set({ rules: rules.toSpliced(at, 1) })}
            />
          </li>
        ))}
      </ol>
      <Button press={() => set({ rules: [...rules, { properties: [], rollout_percentage: 100 }] })}>+ Rule</Button>
    </Card>
  )
}

interface RuleProps extends Pick<Draft, 'variants'>, Pick<EditorProps, 'references'> {
  readonly rule: Rule
  readonly at: number
  readonly count: number
  readonly drag: (at: number | null) => void
  readonly move: (to: number) => void
  readonly change: (changes: Rule) => void
  readonly copy: () => void
  readonly remove: () => void
}

function RuleFields({ rule, at, count, variants, references, drag, move, change, copy, remove }: RuleProps) {
  const fixed = variants.map(({ key }) => [key, `always ${key}`] as const)
  return (
    <section class="condition" aria-label={`Rule ${at + 1}`}>
      <header class="row">
        <b>
          {count > 1 && (
            <span
              class="handle"
              draggable
              title="Drag to change the order"
              aria-hidden="true"
              onDragStart={() => drag(at)}
              onDragEnd={() => drag(null)}
            >
              ⠿
            </span>
          )}
          {at + 1}. {audienceOf(rule, references.names)}
        </b>
        <span class="row">
          {at > 0 && (
            <Button press={() => move(at - 1)} aria-label={`Move rule ${at + 1} up`}>
              ↑
            </Button>
          )}
          {at < count - 1 && (
            <Button press={() => move(at + 1)} aria-label={`Move rule ${at + 1} down`}>
              ↓
            </Button>
          )}
          <Button press={copy}>Duplicate</Button>
          <Button press={remove}>Remove</Button>
        </span>
      </header>
      <RuleFilters
        filters={rule.properties ?? []}
        references={references}
        change={(properties) => change({ ...rule, properties })}
      />
      <div class="row">
        <Share value={shareOf(rule)} change={(share) => change({ ...rule, rollout_percentage: share })} />
        {fixed.length > 0 && (
          <Choice<string>
            label="Variant"
            value={rule.variant ?? ''}
            options={[['', 'by the shares below'], ...fixed]}
            change={(variant) => change({ ...rule, variant: variant || null })}
          />
        )}
        <Reach rule={rule} references={references} />
      </div>
    </section>
  )
}

const REACH_PAUSE_MS = 300

/** Shows how many persons or groups a rule matches, while the reader writes it. */
export function Reach({ rule, references: { groupType, names } }: { rule: Rule } & Pick<EditorProps, 'references'>) {
  const [words, setWords] = useState('')
  const type = groupType?.group_type_index ?? null
  const asked = JSON.stringify([rule.properties, shareOf(rule)])
  useEffect(() => {
    const abort = new AbortController()
    const timer = setTimeout(async () => {
      const properties = (rule.properties ?? []).filter(({ key, value }) => key !== '' && value !== '')
      const body = { condition: { ...rule, properties }, group_type_index: type }
      const request = post('project/feature_flags/user_blast_radius/', {}, body as never, abort.signal)
      try {
        const { users_affected: reached, total_users: all } = await request
        const share = shareOf(rule)
        const some = share === 100 ? '' : `, about ${exact(Math.round((reached * share) / 100))} get it`
        setWords(`${exact(reached)} of ${exact(all)} ${names.subjects} match${some}`)
      } catch (error) {
        if (!abort.signal.aborted) setWords(error instanceof Error ? error.message : '')
      }
    }, REACH_PAUSE_MS)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [asked, type, names.subjects])
  return (
    <output class="quiet" aria-live="polite">
      {words}
    </output>
  )
}

function Variants({ draft, set }: EditorProps) {
  const { variants } = draft
  const isNone = variants.length === 0
  const sum = sumOfShares(variants)
  const add = () => {
    const names = isNone ? ['control', 'test'] : [`variant-${variants.length + 1}`]
    const added = names.map((key) => ({ key, rollout_percentage: 0 }))
    set({ variants: equalShares([...variants, ...added]) })
  }
  return (
    <Card title={isNone ? 'Value: on or off' : 'Variants'}>
      {!isNone && <VariantBar variants={variants} change={(next) => set({ variants: next })} />}
      {variants.map((_, at) => (
        <VariantFields key={`${at} of ${variants.length}`} draft={draft} set={set} at={at} />
      ))}
      {isNone && <Payload name="true" draft={draft} set={set} />}
      <p class="row">
        <Button press={add}>{isNone ? 'Use variants' : '+ Variant'}</Button>
        {!isNone && (
          <>
            <Button press={() => set({ variants: equalShares(variants) })}>Equal shares</Button>
            <span class={sum === 100 ? 'quiet' : 'worse'}>{sum} % in total</span>
          </>
        )}
      </p>
    </Card>
  )
}

type DraftProps = Pick<EditorProps, 'draft' | 'set'>

function VariantFields({ draft, set, at }: DraftProps & { at: number }) {
  const { variants } = draft
  const variant = variants[at] ?? { key: '', rollout_percentage: 0 }
  return (
    <section class="condition" aria-label={`Variant ${at + 1}`}>
      <div class="row">
        <span class="swatch" aria-hidden="true" style={{ '--color': `var(--series-${at % 8})` }} />
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
      <Payload name={variant.key} draft={draft} set={set} />
    </section>
  )
}

/** The field for the payload of a value. If it is not valid JSON, the error is shown with its line. */
function Payload({ name, draft: { payloads }, set }: DraftProps & { name: string }) {
  const text = payloadOf(payloads, name) ?? ''
  const fault = payloadFault(text)
  const change = (next: string) => set({ payloads: { ...payloads, [name]: next } })
  const canFormat = fault === null && text.trim() !== '' && text !== formatted(text)
  return (
    <div class="payload">
      <TextField
        type="area"
        label={name === 'true' ? 'Payload' : `Payload of ${name}`}
        value={text}
        change={change}
        hint={
          fault === null ? (
            'JSON that your code gets with the value. It may be empty.'
          ) : (
            <span class="worse" role="alert">
              Line {fault.line}: {fault.words}.
            </span>
          )
        }
      />
      {canFormat && <Button press={() => change(formatted(text))}>Format</Button>}
    </div>
  )
}

function formatted(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2)
}
