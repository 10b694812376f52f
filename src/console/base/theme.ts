/** Light, dark, or as the system is. */
import { computed, signal } from '@preact/signals'

/** What the reader chose. */
export type Theme = 'auto' | 'light' | 'dark'

const KEY = 'tenrec-theme'

/** What is chosen; kept in this browser. */
export const theme = signal<Theme>(read())

function read(): Theme {
  const kept = localStorage.getItem(KEY)
  return kept === 'light' || kept === 'dark' ? kept : 'auto'
}

/** Chooses and keeps. */
export function chooseTheme(chosen: Theme): void {
  theme.value = chosen
  localStorage.setItem(KEY, chosen)
  applyTheme()
}

/** Marks the page; called before anything is shown. */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = theme.value
}

const SYSTEM = matchMedia('(prefers-color-scheme: dark)')
const isSystemDark = signal(SYSTEM.matches)
SYSTEM.addEventListener('change', ({ matches }) => {
  isSystemDark.value = matches
})

/** True while the page is dark; what is drawn on a canvas is drawn again when it changes. */
export const isDark = computed(() =>
  theme.value === 'auto' ? isSystemDark.value : theme.value === 'dark',
)

/** A colour of the tokens as it is now, for what is drawn on a canvas. */
export function token(name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(--${name})`
  document.body.append(probe)
  const colour = getComputedStyle(probe).color
  probe.remove()
  return colour
}
