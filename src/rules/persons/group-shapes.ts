/** The shapes of groups as the API shows them. */
import type { RowsText } from '../../base/pages.ts'

/** A group of one type. */
export interface GroupView {
  readonly group_type_index: number
  readonly group_key: string
  readonly group_properties: Readonly<Record<string, unknown>>
  readonly created_at: string
}

/** A group type. */
export interface GroupTypeView {
  readonly group_type: string
  readonly group_type_index: number
  /** The names for one group and for several groups. Null if they were not set. */
  readonly name_singular: string | null
  readonly name_plural: string | null
  /** The sort order in lists: smaller numbers come first, and types without a number come last. */
  readonly order: number | null
}

/** A change of a group type. Members that are left out stay as they are. */
export interface GroupTypeChange {
  readonly typeIndex: number
  readonly singular?: string | null
  readonly plural?: string | null
  readonly order?: number | null
}

/** A page of groups in the order of their keys. */
export interface GroupRows extends RowsText {
  readonly nextCursor: string | null
}
