/** Groups as the API shows them. Shapes only. */
import type { RowsText } from '../../base/pages.ts'

/** A group of some type. */
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
  /** What one group and several groups are called; null: nobody has said. */
  readonly name_singular: string | null
  readonly name_plural: string | null
  /** Lists show smaller numbers first, and types without a number last. */
  readonly order: number | null
}

/** What is changed of a group type; what is left out stays. */
export interface GroupTypeChange {
  readonly typeIndex: number
  readonly singular?: string | null
  readonly plural?: string | null
  readonly order?: number | null
}

/** Groups in the order of their keys. */
export interface GroupRows extends RowsText {
  readonly nextCursor: string | null
}
