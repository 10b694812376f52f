/** An action as it is stored, and as the API shows it. */
import type { ActionDraft, ActionView } from './actions.ts'

/** An action as it is stored. */
export interface ActionRecord extends ActionDraft {
  readonly id: number
  readonly isDeleted: boolean
  readonly createdAt: string
  readonly createdBy: Readonly<Record<string, unknown>> | null
}

/** An action as the API shows it. */
export function actionView(action: ActionRecord): ActionView {
  return {
    id: action.id,
    name: action.name,
    description: action.description,
    tags: action.tags,
    steps: action.steps,
    created_at: action.createdAt,
    created_by: action.createdBy,
    deleted: action.isDeleted,
    is_calculating: false,
  }
}
