/** Groups as the API shows them. Shapes only. */
import type { RowsText } from '../../base/pages.ts'

/** A group of some type. */
export interface GroupView {
  readonly group_type_index: number
  readonly group_key: string
  readonly group_properties: Readonly<Record<string, unknown>>
  readonly created_at: string
}

/** Groups in the order of their keys. */
export interface GroupRows extends RowsText {
  readonly nextCursor: string | null
}
