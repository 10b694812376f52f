/** Who sees it? What a flag is for somebody, and condition by condition why. */

import { useState } from 'preact/hooks'
import {
  Card,
  Form,
  type PropertyFilter,
  plain,
  query,
  type Shapes,
  Shown,
  sentenceOfFilter,
  setQuery,
  TextField,
  useGet,
} from '../../kit.ts'
import { type Condition, type Flag, sentenceOf } from './draft.ts'

type Explanation = Shapes['FlagExplanation']

/** The question and its answer; both are in the address. */
export function Explain({ flag }: { readonly flag: Flag }) {
  const asked = query.value.get('who') ?? ''
  const [who, setWho] = useState(asked)
  const [groups, setGroups] = useState(query.value.get('groups') ?? '')
  return (
    <Card title="Who sees it?">
      <Form action="Explain" submit={async () => setQuery({ who, groups })}>
        <div class="row">
          <TextField label="distinct_id" value={who} change={setWho} isRequired />
          <TextField label="Groups" value={groups} change={setGroups} placeholder='{"company": "acme"}' />
        </div>
      </Form>
      {asked === '' ? null : <Explained id={flag.id} who={asked} groups={query.value.get('groups') ?? ''} />}
    </Card>
  )
}

function Explained({ id, who, groups }: { readonly id: number; readonly who: string; readonly groups: string }) {
  const loaded = useGet('project/feature_flags/{id}/explain/', {
    id,
    distinct_id: who,
    ...(groups === '' ? {} : { groups: groups as never }),
  })
  return (
    <Shown of={loaded}>
      {({ value, description, payload, conditions }) => (
        <>
          <p>
            <b>{who}</b> gets <b>{plain(value)}</b>: {description}
            {payload === null ? null : <code> {payload}</code>}
          </p>
          <ol>
            {conditions.map((condition) => (
              <ConditionOutcome key={condition.index} condition={condition} />
            ))}
          </ol>
        </>
      )}
    </Shown>
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

function ConditionOutcome({ condition }: { readonly condition: Explanation['conditions'][number] }) {
  const { outcome, hash, rollout_percentage: share, properties, failure } = condition
  return (
    <li>
      {sentenceOf(condition.condition as Condition, 'persons')}: <b>{OUTCOMES[outcome] ?? outcome}</b>
      {failure === null ? null : `, ${failure}`}
      {hash === null || share === null || share === 100 ? null : (
        <span class="quiet">
          {' '}
          (at {(hash * 100).toFixed(1)} of 100, the share ends at {share})
        </span>
      )}
      <ul>
        {properties.map((property, at) => (
          <li
            key={`${at} of ${properties.length}`}
            class={property.passes === false ? 'worse' : property.passes === true ? 'better' : 'quiet'}
          >
            {property.passes === true ? '✓' : property.passes === false ? '✗' : '–'}{' '}
            {sentenceOfFilter(property.filter as PropertyFilter)}; stored is{' '}
            <code>{plain(property.value ?? 'nothing')}</code>
          </li>
        ))}
      </ul>
    </li>
  )
}
