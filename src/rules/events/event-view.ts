/** Builds the view of a stored event from its facts and the person that owns it now. */
import type { PersonMode } from '../capture/types.ts'
import { expandProperties } from '../persons/automatic-properties.ts'
import { personUuid } from '../persons/person-uuid.ts'
import type { EventView, PersonSummary } from './event-queries.ts'

/** A stored event without its person. */
export interface EventFacts {
  readonly projectId: number
  /** The sequence number. */
  readonly sequence: number
  readonly uuid: string
  readonly name: string
  readonly distinctId: string
  readonly timestampMs: number
  readonly createdAtMs: number
  /** The properties in their compact stored form. */
  readonly properties: Readonly<Record<string, unknown>>
  readonly elementsChain: string
  readonly personMode: PersonMode
  readonly isHistorical: boolean
}

/** Returns the event as lists show it. `expand` adds the entries that the stored form of the properties leaves out. */
export function eventView(
  facts: EventFacts,
  person: PersonSummary | null,
  expand: typeof expandProperties = expandProperties,
): EventView {
  const { projectId, name, distinctId, personMode } = facts
  return {
    id: facts.sequence,
    uuid: facts.uuid,
    event: name,
    distinct_id: distinctId,
    timestamp: new Date(facts.timestampMs).toISOString(),
    created_at: new Date(facts.createdAtMs).toISOString(),
    properties: expand(facts.properties, name, personMode !== 'full'),
    person,
    person_id: person?.uuid ?? personUuid(projectId, distinctId),
    person_mode: personMode,
    elements_chain: facts.elementsChain,
    ...(facts.isHistorical ? { historical_migration: true as const } : {}),
  }
}
