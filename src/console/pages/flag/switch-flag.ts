/** Switches a flag on or off. */
import { act, patch } from '../../kit.ts'
import { type Flag, undoOf } from './draft.ts'

/** Switches a flag on or off, and offers to undo that. Resolves with false if it failed. */
export async function switchFlag(flag: Flag, active: boolean): Promise<boolean> {
  const { id, key } = flag
  let after = flag
  const work = patch('project/feature_flags/{id}/', { id }, { active }).then((changed) => {
    after = changed
  })
  return act(work, `${key} is ${active ? 'on' : 'off'}.`, async () => {
    await patch('project/feature_flags/{id}/', { id }, undoOf(flag, { active }, after))
    return `${key} is ${active ? 'off' : 'on'} again.`
  })
}
