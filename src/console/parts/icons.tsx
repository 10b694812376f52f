/** The icons of the navigation rail. They have the color of the text. */
const SHAPES: Readonly<Record<string, string>> = {
  setup: 'M4 12l5 5L20 6',
  web: 'M12 3a9 9 0 100 18 9 9 0 000-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18',
  events: 'M3 12h4l3-8 4 16 3-8h4',
  explore: 'M4 20V10M10 20V4M16 20v-8M22 20H2',
  dashboards: 'M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z',
  persons: 'M12 12a4 4 0 100-8 4 4 0 000 8zM4 21c0-5 4-7 8-7s8 2 8 7',
  groups: 'M8 11a3 3 0 100-6 3 3 0 000 6zM17 12a2.5 2.5 0 100-5M2 20c0-4 3-6 6-6s6 2 6 6M16 14c3 0 5 2 5 5',
  flags: 'M5 21V4h13l-3 4 3 4H5',
  experiments: 'M9 3h6M10 3v6L4 19a2 2 0 002 2h12a2 2 0 002-2L14 9V3M7 15h10',
  cohorts: 'M9 15a6 6 0 100-12 6 6 0 000 12zM15 21a6 6 0 100-12',
  access: 'M8 15a4 4 0 110-8 4 4 0 010 8zM12 11h9v4M17 11v3',
  audit: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7',
  health: 'M12 21C5 16 3 12 3 9a4.5 4.5 0 019-1 4.5 4.5 0 019 1c0 3-2 7-9 12z',
  settings: 'M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  search: 'M11 18a7 7 0 100-14 7 7 0 000 14zM16 16l5 5',
}

/** An icon by its name. It is hidden from screen readers, because the label beside it has the same meaning. */
export function Icon({ name }: { readonly name: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={SHAPES[name] ?? ''} />
    </svg>
  )
}
