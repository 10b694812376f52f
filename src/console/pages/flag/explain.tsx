/** Tests a flag with one user: shows the value that the user gets, and the reasons, rule by rule. */
import { useState } from 'preact/hooks'
import {
  Button,
  Card,
  Choice,
  Got,
  get,
  may,
  pageOf,
  plain,
  project,
  query,
  type Shapes,
  Shown,
  setQuery,
  useLoaded,
} from '../../kit.ts'
import type { Flag, Rule, RuleFilter } from './draft.ts'
import { idOf, type Person, PersonPicker } from './person-picker.tsx'
import type { FlagReferences, GroupType } from './references.ts'
import { useGroupKeys } from './rule-filters.tsx'
import { clauseOf, sentenceOf } from './sentences.ts'

type Explanation = Shapes['FlagExplanation']

interface ExplainProps {
  readonly flag: Flag
  readonly references: FlagReferences
}

/** The field for a user and the answer. The URL contains the user. */
export function Explain({ flag, references }: ExplainProps) {
  const who = query.value.get('who') ?? ''
  return (
    <Card title="Test with a user">
      <div class="stack">
        <AskWho value={who} />
        {who !== '' && <Answer key={who} flag={flag} references={references} who={who} />}
      </div>
    </Card>
  )
}

/** The field for a user on another tab. The answer is shown on the tab "Test with a user". */
export function AskWho({ value = '' }: { value?: string }) {
  const ask = (distinctId: string) => setQuery({ tab: 'explain', who: distinctId, groups: null })
  return <PersonPicker label="Person" hint="Choose a person, or press Enter." value={value} choose={ask} />
}

/**
 * Finds the persons whom a text may stand for: the person with this distinct ID, or else all persons with this email
 * address.
 */
function usePersons(who: string) {
  return useLoaded(`who ${project.value.id} ${who}`, async (signal): Promise<readonly Person[] | null> => {
    if (!may('person:read')) return null
    const { results } = await get('project/persons/', { distinct_id: who, limit: 1 }, signal)
    if (results.length > 0) return results
    return (await get('project/persons/', { email: who, limit: PERSONS_MAX }, signal)).results
  })
}

/** If several persons have the same email address, at most this many are offered. */
const PERSONS_MAX = 10

function Answer({ who, ...props }: ExplainProps & { who: string }) {
  return (
    <Shown of={usePersons(who)}>
      {(persons) => {
        const [first, second] = persons ?? []
        if (second !== undefined) return <Candidates persons={persons ?? []} who={who} />
        if (first === undefined) return <Explained {...props} distinctId={who} person={null} />
        const distinctId = first.distinct_ids.includes(who) ? who : idOf(first)
        return <Explained {...props} distinctId={distinctId} person={first} />
      }}
    </Shown>
  )
}

function Candidates({ persons, who }: { persons: readonly Person[]; who: string }) {
  return (
    <>
      <p>Several persons have the e-mail address {who}. Choose one of them:</p>
      <ul>
        {persons.map((person) => (
          <li key={person.uuid}>
            <Button press={() => setQuery({ who: idOf(person) })}>{idOf(person)}</Button>
          </li>
        ))}
      </ul>
    </>
  )
}

interface ExplainedProps extends ExplainProps {
  readonly distinctId: string
  readonly person: Person | null
}

/** How many of the latest events are searched for the groups of a person. */
const EVENTS_SEARCHED = 50

/** Returns the groups of a person, from the latest event of the person that contains any groups. */
function useOwnGroups(person: Person | null) {
  return useLoaded(`own groups ${person?.uuid}`, async (signal): Promise<Readonly<Record<string, string>>> => {
    if (person === null || !may('event:read')) return {}
    const { results } = await get('project/events/', { person_id: person.uuid, limit: EVENTS_SEARCHED }, signal)
    const groups = results.map(({ properties }) => (properties as { $groups?: unknown }).$groups)
    const found = groups.find((one) => typeof one === 'object' && one !== null)
    return (found ?? {}) as Readonly<Record<string, string>>
  })
}

function Explained(props: ExplainedProps) {
  const { person, references } = props
  const own = useOwnGroups(person)
  // Waits until the groups of the person are known. If the reader chooses no group of a group type, the person's group
  // is used.
  if (references.groupTypes.length > 0 && own.data === undefined && own.error === null)
    return <Shown of={own}>{() => ''}</Shown>
  return <WithGroups {...props} own={own.data ?? {}} />
}

function WithGroups({ own, ...props }: ExplainedProps & { own: Readonly<Record<string, string>> }) {
  const { flag, references, distinctId } = props
  const [groups, setGroups] = useState(own)
  const given = Object.entries(groups).filter(([, key]) => key !== '')
  const asked = {
    id: flag.id,
    distinct_id: distinctId,
    ...(given.length > 0 && { groups: JSON.stringify(Object.fromEntries(given)) as never }),
  }
  return (
    <div class="stack">
      {references.groupTypes.length > 0 && (
        <div class="row">
          {references.groupTypes.map((type) => (
            <GroupChoice
              key={type.group_type}
              type={type}
              value={plain(groups[type.group_type])}
              change={(key) => setGroups({ ...groups, [type.group_type]: key })}
            />
          ))}
        </div>
      )}
      <Got route="project/feature_flags/{id}/explain/" values={asked}>
        {(answer) => <Result answer={answer} {...props} />}
      </Got>
    </div>
  )
}

function GroupChoice(props: { type: GroupType; value: string; change: (key: string) => void }) {
  const { type, value, change } = props
  const keys = useGroupKeys(type.group_type_index)
  const all = value === '' || keys.includes(value) ? keys : [value, ...keys]
  const label = `As a member of the ${type.name_singular || type.group_type}`
  return (
    <Choice
      label={label}
      value={value}
      change={change}
      options={[['', 'none'], ...all.map((key) => [key, key] as const)]}
    />
  )
}

function Result({ answer, distinctId, person, references }: ExplainedProps & { answer: Explanation }) {
  const { value, payload, conditions, person_exists: exists } = answer
  const word = value === true ? 'on' : value === false ? 'off' : value
  return (
    <div class="stack">
      {may('person:read') && person === null && exists !== true && (
        <p class="notice" role="alert">
          There is no such person: nobody has the distinct ID or the e-mail address {distinctId}. A new visitor with
          this distinct ID would get the following value.
        </p>
      )}
      <p>
        {person === null ? <b>{distinctId}</b> : <a href={pageOf(`/persons/${person.uuid}`)}>{person.name}</a>} gets{' '}
        <b class="badge">{word}</b> {reasonOf(answer)}.{payload !== null && <code> {payload}</code>}
      </p>
      <ol class="outcomes">
        {conditions.map((condition) => (
          <RuleOutcome key={condition.index} condition={condition} references={references} />
        ))}
      </ol>
    </div>
  )
}

/** Returns the reason why a flag has its value, as the end of a sentence. */
function reasonOf({ reason, condition_index: at, description }: Explanation): string {
  if (reason === 'condition_match' && at !== null) return `because rule ${at + 1} matches`
  return REASONS[reason] ?? `(${description})`
}

const REASONS: Readonly<Record<string, string>> = {
  no_condition_match: 'because no rule matches',
  out_of_rollout_bound: 'because the percentage of the matching rules leaves this user out',
  no_group_type: 'because the rules need a group, and none is given',
  disabled: 'because the flag is off',
}

const OUTCOMES: Readonly<Record<string, string>> = {
  matched: 'matches and decides',
  filter_failed: 'doesn’t match',
  rollout_excluded: 'matches, but the percentage leaves this user out',
  no_group: 'needs a group, and none is given',
  no_device: 'needs a device, and none is given',
  failed: 'could not be decided',
  not_reached: 'was not reached, because an earlier rule decided',
}

type Outcome = Explanation['conditions'][number]

function RuleOutcome({ condition, references }: { condition: Outcome; references: FlagReferences }) {
  const { outcome, hash, rollout_percentage: share, properties, failure } = condition
  const hasShare = hash !== null && share !== null && share !== 100
  return (
    <li>
      {sentenceOf(condition.condition as Rule, references.names)}: <b>{OUTCOMES[outcome] ?? outcome}</b>
      {failure !== null && `, ${failure.replaceAll('_', ' ')}`}
      {hasShare && ` (at position ${(hash * 100).toFixed(1)} of 100; the rule covers the first ${share})`}
      <ul>
        {properties.map((property, at) => (
          <FilterOutcome key={`${at} of ${properties.length}`} property={property} references={references} />
        ))}
      </ul>
    </li>
  )
}

type FilterStory = Outcome['properties'][number]

/** Returns the value with which a filter was compared, as the end of a sentence. */
function foundBy({ value }: FilterStory, { type }: RuleFilter): string {
  if (type === 'cohort') return value === true ? 'is a member' : value === false ? 'is not a member' : ''
  const word = value === true ? 'on' : value === false ? 'off' : plain(value)
  if (type === 'flag') return value === undefined ? '' : `it is ${word}`
  return value === undefined ? 'no value is stored' : `the value is ${plain(value)}`
}

function FilterOutcome({ property, references }: { property: FilterStory; references: FlagReferences }) {
  const { passes } = property
  const filter = property.filter as RuleFilter
  const [sign, mood] = passes === true ? ['✓', 'better'] : passes === false ? ['✗', 'worse'] : ['–', 'quiet']
  const found = may('person:read') ? foundBy(property, filter) : ''
  return (
    <li class={mood}>
      {sign} {clauseOf(filter, references.names)}
      {found !== '' && <span class="quiet"> ({found})</span>}
    </li>
  )
}
