/**
 * The form fields for the conditions of a rule: properties, persons, cohorts, groups and other flags. Each kind has a
 * suitable picker.
 */
import { OPERATORS } from '../../base/operators.ts'
import { Button, Choice, may, plain, TextField, useListRows, usePropertyNames, usePropertyValues } from '../../kit.ts'
import type { RuleFilter } from './draft.ts'
import { PersonPicker } from './person-picker.tsx'
import type { FlagReferences } from './references.ts'
import { isExcluding } from './sentences.ts'

/** What a condition is about. `people` and `groups` are lists of identifiers. */
type Kind = 'person' | 'people' | 'cohort' | 'flag' | 'group' | 'groups'

/** For conditions that list identifiers, the property that contains the identifier. */
const IDENTIFIERS: Partial<Record<Kind, string>> = { people: 'distinct_id', groups: '$group_key' }

function kindOf({ type, key, operator = 'exact' }: RuleFilter): Kind {
  const isListed = operator === 'exact' || operator === 'is_not'
  if (type === 'person' && key === 'distinct_id' && isListed) return 'people'
  if (type === 'group' && key === '$group_key' && isListed) return 'groups'
  return type
}

/** Returns a new condition of a kind. The reader must still complete it. */
function newFilter(kind: Kind, { groupType, cohorts, flags }: FlagReferences): RuleFilter {
  if (kind === 'cohort') return { key: 'id', type: 'cohort', operator: 'in', value: cohorts[0]?.[0] ?? '' }
  if (kind === 'flag')
    return { key: String(flags[0]?.id ?? ''), type: 'flag', operator: 'flag_evaluates_to', value: true }
  const filter = { key: IDENTIFIERS[kind] ?? '', operator: 'exact', value: kind in IDENTIFIERS ? [] : '' }
  if (groupType === null) return { ...filter, type: 'person' }
  return { ...filter, type: 'group', group_type_index: groupType.group_type_index }
}

interface FiltersProps {
  readonly filters: readonly RuleFilter[]
  readonly change: (filters: readonly RuleFilter[]) => void
  readonly references: FlagReferences
}

/** The fields for the conditions of a rule, all of which must match, and a button that adds a condition. */
export function RuleFilters({ filters, change, references }: FiltersProps) {
  const isOfPersons = references.groupType === null
  return (
    <fieldset class="filter-list">
      <legend>Match all</legend>
      {filters.length === 0 && (
        <p class="quiet">Without a condition, the rule matches {isOfPersons ? 'everyone' : 'all'}.</p>
      )}
      {filters.map((filter, at) => (
        <div class="row" key={`${at} of ${filters.length}`}>
          <FilterFields filter={filter} references={references} change={(next) => change(filters.with(at, next))} />
          <Button press={() => change(filters.toSpliced(at, 1))} aria-label={`Remove condition ${at + 1}`}>
            ✕
          </Button>
        </div>
      ))}
      <Button press={() => change([...filters, newFilter(isOfPersons ? 'person' : 'group', references)])}>
        + Condition
      </Button>
    </fieldset>
  )
}

interface FieldsProps {
  readonly filter: RuleFilter
  readonly change: (filter: RuleFilter) => void
  readonly references: FlagReferences
}

function FilterFields(props: FieldsProps) {
  const { filter, change, references } = props
  const kind = kindOf(filter)
  const { groupType } = references
  const ofPersons = [
    ['person', 'Person property'],
    ['people', 'Individual people'],
    ['cohort', 'Cohort'],
    ['flag', 'Other flag'],
  ] as const
  const ofGroups = [
    ['group', `Property of the ${groupType?.group_type}`],
    ['groups', `Individual ${references.names.subjects}`],
    ['flag', 'Other flag'],
  ] as const
  return (
    <div class="filter-fields">
      <Choice<Kind>
        label="Condition on"
        value={kind}
        options={groupType === null ? ofPersons : ofGroups}
        change={(chosen) => change(newFilter(chosen, references))}
      />
      {kind === 'cohort' && <CohortFields {...props} />}
      {kind === 'flag' && <FlagFields {...props} />}
      {(kind === 'people' || kind === 'groups') && <ListFields {...props} isOfPersons={kind === 'people'} />}
      {(kind === 'person' || kind === 'group') && <PropertyFields {...props} />}
    </div>
  )
}

function CohortFields({ filter, change, references: { cohorts, names } }: FieldsProps) {
  const set = (isIn: boolean, value: unknown) =>
    change({ key: 'id', type: 'cohort', operator: isIn ? 'in' : 'not_in', value })
  const isIn = !isExcluding(filter)
  const id = Number(Array.isArray(filter.value) ? filter.value[0] : filter.value)
  const known = cohorts.map(([one, name]) => [String(one), name] as const)
  const isKnown = cohorts.some(([one]) => one === id)
  const options = isKnown || filter.value === '' ? known : [[String(id), names.cohort(id)] as const, ...known]
  return (
    <>
      <Choice
        label="Comparison"
        value={isIn ? 'in' : 'not_in'}
        options={[
          ['in', 'is in'],
          ['not_in', 'is not in'],
        ]}
        change={(chosen) => set(chosen === 'in', filter.value)}
      />
      {options.length === 0 ? (
        <span class="quiet">There is no cohort yet.</span>
      ) : (
        <Choice label="Cohort" value={String(id)} options={options} change={(chosen) => set(isIn, Number(chosen))} />
      )}
    </>
  )
}

function FlagFields({ filter, change, references: { flags, names } }: FieldsProps) {
  const chosen = flags.find(({ id }) => String(id) === filter.key)
  const known = flags.map(({ id, key }) => [String(id), key] as const)
  const isListed = chosen !== undefined || filter.key === ''
  const options = isListed ? known : [[filter.key, names.flag(Number(filter.key))] as const, ...known]
  const values = [
    ['true', 'is on'],
    ['false', 'is off'],
    ...(chosen?.variants ?? []).map((variant) => [`:${variant}`, `is ${variant}`] as const),
  ] as const
  const value = typeof filter.value === 'boolean' ? String(filter.value) : `:${plain(filter.value)}`
  if (options.length === 0) return <span class="quiet">There is no other active flag.</span>
  return (
    <>
      <Choice
        label="Flag"
        value={filter.key}
        options={options}
        change={(key) => change({ ...filter, key, value: true })}
      />
      <Choice<string>
        label="Value"
        value={value}
        options={values}
        change={(one) => change({ ...filter, value: one.startsWith(':') ? one.slice(1) : one === 'true' })}
      />
    </>
  )
}

/** The fields for a list of identifiers of persons or groups, and a field that adds one. */
function ListFields({ filter, change, references, isOfPersons }: FieldsProps & { isOfPersons: boolean }) {
  const { value, operator = 'exact' } = filter
  const ids = (Array.isArray(value) ? value : [value ?? '']).map(plain).filter((id) => id !== '')
  const set = (next: readonly string[]) => change({ ...filter, value: [...new Set(next)] })
  const add = (id: string) => set([...ids, id])
  return (
    <>
      <Choice
        label="Comparison"
        value={operator}
        options={[
          ['exact', 'is one of'],
          ['is_not', 'is none of'],
        ]}
        change={(chosen) => change({ ...filter, operator: chosen })}
      />
      {ids.length > 0 && (
        <ul class="chips" aria-label={isOfPersons ? 'People' : 'Groups'}>
          {ids.map((id, at) => (
            <li key={id}>
              {id}
              <Button press={() => set(ids.toSpliced(at, 1))} aria-label={`Remove ${id}`}>
                ✕
              </Button>
            </li>
          ))}
        </ul>
      )}
      {isOfPersons ? (
        <PersonPicker label="Add a person" choose={add} isRepeated />
      ) : (
        <GroupPicker references={references} choose={add} />
      )}
    </>
  )
}

function GroupPicker({
  references: { groupType },
  choose,
}: {
  references: FlagReferences
  choose: (key: string) => void
}) {
  const groups = useGroupKeys(groupType?.group_type_index ?? 0)
  return (
    <Choice
      label={`Add a ${groupType?.group_type}`}
      value=""
      options={[['', 'Choose'], ...groups.map((key) => [key, key] as const)]}
      change={(key) => key !== '' && choose(key)}
    />
  )
}

/** Returns the keys of the groups of a type, the newest group first. */
export function useGroupKeys(type: number): readonly string[] {
  return useListRows('group:read', 'project/groups/', { group_type_index: type })?.map((group) => group.group_key) ?? []
}

function PropertyFields({ filter, change, references: { groupType } }: FieldsProps) {
  const { key, operator = 'exact' } = filter
  const names = usePropertyNames(groupType === null ? 'person' : 'group', [], groupType?.group_type_index)
  const isDate = operator.startsWith('is_date_')
  return (
    <>
      <TextField
        isNarrow
        label="Property"
        value={key}
        options={names}
        change={(chosen) => change({ ...filter, key: chosen })}
      />
      <Choice
        label="Comparison"
        value={operator}
        options={OPERATORS}
        change={(chosen) => change({ ...filter, operator: chosen, value: valueFor(chosen, filter) })}
      />
      {isDate && <DateFields filter={filter} change={change} />}
      {!isDate && !operator.endsWith('_set') && (
        <ValueField filter={filter} change={change} isOfPersons={groupType === null} />
      )}
    </>
  )
}

/**
 * Returns the value that a condition keeps when its operator changes. Only the operators for equality take a list. For
 * any other operator, a list is joined to one text.
 */
function valueFor(operator: string, { operator: before = '', value }: RuleFilter): unknown {
  if (operator.endsWith('_set')) return operator
  if (before.endsWith('_set') || before.startsWith('is_date_') !== operator.startsWith('is_date_')) return ''
  return isListed(operator) || !Array.isArray(value) ? value : value.map(plain).join(', ')
}

function isListed(operator: string): boolean {
  return operator === 'exact' || operator === 'is_not'
}

type ValueProps = Omit<FieldsProps, 'references'>

function ValueField({ filter, change, isOfPersons }: ValueProps & { isOfPersons: boolean }) {
  const { key, operator = 'exact', value } = filter
  const words = Array.isArray(value) ? value.map(plain).join(', ') : plain(value ?? '')
  const values = usePropertyValues(isOfPersons && may('person:read') ? 'person' : 'group', key, words)
  const set = (text: string) =>
    change({ ...filter, value: isListed(operator) && text.includes(', ') ? text.split(', ') : text })
  return <TextField isNarrow label="Value" value={words} options={values} change={set} />
}

/** The fields for a date. It is a fixed date, or a number of days before the decision. */
function DateFields({ filter, change }: ValueProps) {
  const value = plain(filter.value ?? '')
  const days = /^-(\d+)d$/.exec(value)?.[1]
  return (
    <>
      <Choice
        label="Date"
        value={days === undefined ? 'day' : 'ago'}
        options={[
          ['day', 'the day'],
          ['ago', 'days ago'],
        ]}
        change={(chosen) => change({ ...filter, value: chosen === 'ago' ? '-30d' : '' })}
      />
      {days === undefined ? (
        <TextField
          isNarrow
          label="Day"
          type="date"
          value={value.slice(0, 10)}
          change={(day) => change({ ...filter, value: day })}
        />
      ) : (
        <TextField
          isNarrow
          label="Days"
          type="number"
          value={days}
          change={(count) => change({ ...filter, value: `-${Math.max(0, Math.round(Number(count)))}d` })}
        />
      )}
    </>
  )
}
