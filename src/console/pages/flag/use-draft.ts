/**
 * The unsaved changes of a flag. They are kept in the tab of the browser until they are saved or discarded, and the
 * reader is asked before another page opens.
 */
import { useEffect, useState } from 'preact/hooks'
import { guardPage, session } from '../../kit.ts'
import { type Draft, draftOf, editedOf, type Flag } from './draft.ts'

/** A draft, and the stored flag from which it began. */
interface KeptDraft {
  readonly flag: Flag
  readonly draft: Draft
}

function nameOf({ id }: Flag): string {
  return `tenrec-flag-draft-${session.value?.user.id ?? 0}-${id}`
}

/** Returns the draft that is kept in this tab, or null. */
function keptDraft(flag: Flag): KeptDraft | null {
  try {
    const kept = JSON.parse(sessionStorage.getItem(nameOf(flag)) ?? 'null') as KeptDraft | null
    // Another version of the console may have left a draft of another form.
    const isWhole = Object.keys(draftOf(flag)).every((name) => name in (kept?.draft ?? {}))
    return kept?.flag?.id === flag.id && isWhole ? kept : null
  } catch {
    return null
  }
}

/** Keeps a draft in this tab. */
function keepDraft(kept: KeptDraft): void {
  try {
    sessionStorage.setItem(nameOf(kept.flag), JSON.stringify(kept))
  } catch {
    // The storage is full or forbidden. The guard still asks before the page closes.
  }
}

/** Removes the draft of a flag from this tab. */
function dropDraft(flag: Flag): void {
  sessionStorage.removeItem(nameOf(flag))
}

/** The draft of a flag, and what can be done with it. */
export type Editing = ReturnType<typeof useDraft>

/** Returns the draft of a flag. It must be used where the whole page of the flag is shown. */
export function useDraft(flag: Flag) {
  const [kept, setKept] = useState<KeptDraft>(
    () => keptDraft(flag) ?? { flag, draft: draftOf(flag) },
  )
  /** Set while the reader is asked whether to leave. */
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
