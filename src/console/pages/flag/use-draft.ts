/**
 * The unsaved changes of a flag. They are stored in the browser tab until they are saved or discarded. The reader is
 * asked before another page opens.
 */
import { useEffect, useState } from 'preact/hooks'
import { guardPage, session } from '../../kit.ts'
import { type Draft, draftOf, editedOf, type Flag } from './draft.ts'

/** A draft, and the stored flag from which it was made. */
interface KeptDraft {
  readonly flag: Flag
  readonly draft: Draft
}

function nameOf({ id }: Flag): string {
  return `tenrec-flag-draft-${session.value?.user.id ?? 0}-${id}`
}

/** Returns the draft of a flag that this tab has stored, or null. */
function keptDraft(flag: Flag): KeptDraft | null {
  try {
    const kept = JSON.parse(sessionStorage.getItem(nameOf(flag)) ?? 'null') as KeptDraft | null
    // Another version of the console may have stored a draft with other fields.
    const isWhole = Object.keys(draftOf(flag)).every((name) => name in (kept?.draft ?? {}))
    return kept?.flag?.id === flag.id && isWhole ? kept : null
  } catch {
    return null
  }
}

/** Stores a draft in this tab. */
function keepDraft(kept: KeptDraft): void {
  try {
    sessionStorage.setItem(nameOf(kept.flag), JSON.stringify(kept))
  } catch {
    // The storage is full or not allowed. The reader is still asked before the page closes.
  }
}

/** Removes the draft of a flag from this tab. */
function dropDraft(flag: Flag): void {
  sessionStorage.removeItem(nameOf(flag))
}

/** The draft of a flag, and the functions that change it. */
export type Editing = ReturnType<typeof useDraft>

/** Returns the draft of a flag. Must be used by the component that shows the whole page of the flag. */
export function useDraft(flag: Flag) {
  const [kept, setKept] = useState<KeptDraft>(
    () => keptDraft(flag) ?? { flag, draft: draftOf(flag) },
  )
  /** The function that leaves the page. Null unless the reader is being asked whether to leave. */
  const [leave, setLeave] = useState<(() => void) | null>(null)
  const isChanged = Object.keys(editedOf(kept.flag, kept.draft)).length > 0
  useEffect(() => {
    if (isChanged) keepDraft(kept)
    else dropDraft(flag)
  }, [kept, isChanged])
  useEffect(() => {
    if (!isChanged) return
    const warn = (event: Event) => event.preventDefault()
    addEventListener('beforeunload', warn)
    guardPage((go) => setLeave(() => go))
    return () => {
      removeEventListener('beforeunload', warn)
      guardPage(null)
    }
  }, [isChanged])
  return {
    ...kept,
    isChanged,
    set: (changes: Partial<Draft>) => setKept({ ...kept, draft: { ...kept.draft, ...changes } }),
    discard: () => {
      dropDraft(flag)
      guardPage(null)
      setKept({ flag, draft: draftOf(flag) })
    },
    leave,
    stay: () => setLeave(null),
  }
}
