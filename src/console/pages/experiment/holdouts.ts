/** The holdouts of the project, for forms in which the reader chooses one. */
import { type Shapes, useListRows } from '../../kit.ts'

/** A holdout. */
export type Holdout = Shapes['ExperimentHoldout']

/** A project has fewer holdouts than this. */
const HOLDOUTS_MAX = 1000

/**
 * Returns the form field that chooses a holdout, by its number as text. It is hidden while the project has no holdouts,
 * and if `isOpen` is false.
 */
export function useHoldoutField(chosen: number | null, isOpen = true) {
  const asked = { limit: HOLDOUTS_MAX }
  const all = useListRows('experiment_holdout:read', 'project/experiment_holdouts/', asked) ?? []
  const options = all.map(({ id, name }) => [String(id), name] as const)
  return {
    kind: 'choice',
    label: 'Holdout',
    value: chosen === null ? '' : String(chosen),
    options: [['', 'None'], ...options],
    hint: 'The people of a holdout get no variant. You cannot change it after the launch.',
    isShown: () => isOpen && options.length > 0,
  } as const
}
