/** Explains the value of a flag for one user, condition by condition. */
import {
  Card,
  Form,
  Got,
  type PropertyFilter,
  plain,
  query,
  type Shapes,
  sentenceOfFilter,
  setQuery,
} from '../../kit.ts'
import { type Condition, type Flag, sentenceOf } from './draft.ts'

type Explanation = Shapes['FlagExplanation']

/** The question and its answer, which are both stored in the URL. */
export function Explain({ flag }: { flag: Flag }) {
  const who = query.value.get('who') ?? ''
  const groups = query.value.get('groups') ?? ''
  return (
    <Card title="Who sees it?">
      <Form
        action="Explain"
        fields={{
          who: { label: 'distinct_id', value: who, isRequired: true },
          groups: { label: 'Groups', value: groups, placeholder: '{"company": "acme"}' },
        }}
        submit={async (asked) => {
          setQuery(asked)
          // A question changes nothing, so the page need not request its data again.
          return false
        }}
      />
      {who !== '' && <Explained id={flag.id} who={who} groups={groups} />}
    </Card>
  )
}

function Explained({ id, who, groups }: { id: number; who: string; groups: string }) {
  const asked = { id, distinct_id: who, ...(groups !== '' && { groups: groups as never }) }
  return (
    <Got route="project/feature_flags/{id}/explain/" values={asked}>
      {({ value, description, payload, conditions }) => (
        <>
          <p>
            <b>{who}</b> gets <b>{plain(value)}</b>: {description}
            {payload !== null && <code> {payload}</code>}
          </p>
          <ol>
            {conditions.map((condition) => (
              <ConditionOutcome key={condition.index} condition={condition} />
            ))}
          </ol>
        </>
      )}
    </Got>
  )
}

const OUTCOMES: Readonly<Record<string, string>> = {
  matched: 'fits, and decides',
  filter_failed: 'does not fit',
  rollout_excluded: 'fits, but the share leaves this one out',
  no_group: 'needs a group that was not given',
  no_device: 'needs a device that was not given',
  failed: 'could not be decided',
  not_reached: 'was not looked at: one before it decided',
}

type Outcome = Explanation['conditions'][number]

function ConditionOutcome({ condition }: { condition: Outcome }) {
  const { outcome, hash, rollout_percentage: share, properties, failure } = condition
  const hasShare = hash !== null && share !== null && share !== 100
  return (
    <li>
      {sentenceOf(condition.condition as Condition, 'persons')}: <b>{OUTCOMES[outcome] ?? outcome}</b>
      {failure !== null && `, ${failure}`}
      {hasShare && ` (at ${(hash * 100).toFixed(1)} of 100, the share ends at ${share})`}
      <ul>
        {properties.map((property, at) => (
          <PropertyOutcome key={`${at} of ${properties.length}`} property={property} />
        ))}
      </ul>
    </li>
  )
}

function PropertyOutcome({ property: { passes, filter, value } }: { property: Outcome['properties'][number] }) {
  const [sign, mood] = passes === true ? ['✓', 'better'] : passes === false ? ['✗', 'worse'] : ['–', 'quiet']
  return (
    <li class={mood}>
      {sign} {sentenceOfFilter(filter as PropertyFilter)}; stored is <code>{plain(value ?? 'nothing')}</code>
    </li>
  )
}
