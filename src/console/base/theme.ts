/** Light, dark, or as the system is. */
import { signal } from '@preact/signals'

/** What can be chosen. */
export const THEMES = ['auto', 'light', 'dark'] as const

/** What the reader chose. */
export type Theme = (typeof THEMES)[number]

const KEY = 'tenrec-theme'

/** What is chosen; kept in this browser. */
export const theme = signal<Theme>(
  THEMES.find((one) => one === localStorage.getItem(KEY)) ?? 'auto',
)

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
