/**
 * Removes most columns of a segment from the store when ClickHouse has a complete copy of them
 * (format/away-columns.ts). The segment is rewritten with the columns that stay.
 */
import type { CopiedSegment } from '../../../ports/warehouse.ts'
import { seal } from '../../lmdb/codec.ts'
import { groupKey, pairKey } from '../../lmdb/keys.ts'
import { awayEntry, mayGiveAway, staysHere } from '../format/away-columns.ts'
import type { EncodedSegment } from '../format/segment-encoder.ts'
import {
  type Directory,
  encodeGroup,
  encodeHeader,
  NO_PART,
  type Part,
  QUALITY_SMALL,
} from '../format/segment-format.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import type { SegmentView } from '../format/segment-view.ts'

/** A segment as it is stored, and the same segment without the columns that were moved. */
export interface Reduced {
  readonly view: SegmentView
  readonly segment: EncodedSegment
}

/**
 * Returns a segment without the columns that ClickHouse has. Returns null if the segment has changed since it was
 * compared with the copy. Throws `DamagedRecordError`.
 */
export function withoutCopied(
  segments: SegmentTables,
  { projectId, firstSequence, header }: CopiedSegment,
): Reduced | null {
  const key = pairKey(projectId, firstSequence)
  const sealed = segments.headers.get(key)
  if (sealed?.equals(header) !== true) return null
  const view = segments.segmentAt(projectId, firstSequence)
  const { summary } = view
  if (summary.isAway || !mayGiveAway(view.directory)) return null
  const { directory, contents } = keptOf(view)
  const groups = contents.map((content, group) => {
    const place = groupKey(projectId, firstSequence, group)
    // The group with the last bytes of uuids is not compressed, because they are random.
    const stored = encodeGroup(content, group === RAW_GROUP ? null : QUALITY_SMALL)
    return { key: place, value: seal(place, ...stored) }
  })
  const groupBytes = groups.reduce((sum, { value }) => sum + value.length, 0)
  const content = encodeHeader({ ...summary, groups: groups.length, groupBytes }, directory, true)
  const value = seal(key, content)
  const { rows } = summary
  const bytes = groupBytes + value.length
  return { view, segment: { firstSequence, rows, header: { key, value }, groups, bytes } }
}

const INDEX_GROUP = 0
const RAW_GROUP = 1

/** Returns those parts of the segment that stay, divided into two groups. */
function keptOf(view: SegmentView): { directory: Directory; contents: readonly Buffer[] } {
  const groups: [Buffer[], Buffer[]] = [[], []]
  const lengths = [0, 0]
  const keep = (part: Part, group = INDEX_GROUP): Part => {
    const bytes = view.partBytes(part)
    if (bytes.length === 0) return NO_PART
    const offset = lengths[group] ?? 0
    groups[group]?.push(bytes)
    lengths[group] = offset + bytes.length
    return [group, offset, bytes.length]
  }
  const { timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails, columns, ...rest } =
    view.directory
  const directory: Directory = {
    ...rest,
    timestamps: keep(timestamps),
    distinctIds: keep(distinctIds),
    arrivals: keep(arrivals),
    modes: keep(modes),
    uuidHeads: keep(uuidHeads),
    uuidTails: keep(uuidTails, RAW_GROUP),
    facts: keep(rest.facts),
    columns: columns.map((entry) =>
      staysHere(entry)
        ? { ...entry, index: keep(entry.index), values: keep(entry.values) }
        : awayEntry(entry),
    ),
  }
  return { directory, contents: groups.map((parts) => Buffer.concat(parts)) }
}
