/**
 * Re-exports everything from base/ and parts/ that pages use. Pages import only this file. The bundler then puts all of
 * it into one file with the frame, which is loaded with the first page.
 */
export { go, guardPage, href, path, query, setQuery, withQuery } from './base/address.ts'
export {
  ApiError,
  get,
  patch,
  post,
  put,
  refusalOf,
  remove,
  type Shapes,
  send,
} from './base/api.ts'
export { CSV_ROWS_MAX } from './base/csv.ts'
export { bucketText, compareFilterOf, movedRange, RANGES, rangeOf } from './base/days.ts'
export { ago, bytes, exact, parsed, percent, plain, seconds, time } from './base/format.ts'
export { GOAL_TAG, useGoals } from './base/goals.ts'
export {
  counted,
  countryFlag,
  countryName,
  eventLabel,
  isTechnical,
  propertyLabel,
  valueLabel,
} from './base/labels.ts'
export { lazy } from './base/lazy.ts'
export { changed, useGet, useListRows, useLoaded } from './base/loaded.ts'
export { momentAt, wallAt } from './base/moment.ts'
export { inProjectPath, pageId, pageOf, subId } from './base/page.ts'
export {
  askQuery,
  askQueryWhole,
  hasEvent,
  type PropertyFilter,
  type Query,
  type Series,
} from './base/queries.ts'
export {
  compareFilter,
  comparison,
  dateRangeSoFar,
  interval,
  isCompared,
  isOngoing,
  rangeValue,
  today,
} from './base/range.ts'
export { may, project, projects, readSession, type Session, session } from './base/session.ts'
export { askProgress, curlLine, loaderLine, type Tick } from './base/setup.ts'
export { Chart } from './parts/chart.tsx'
export type { Suggestion } from './parts/combobox.tsx'
export { CopyButton, ExportMenu, FileButton } from './parts/copy.tsx'
export { Dialog, DialogButton } from './parts/dialog.tsx'
export { EventDrawer } from './parts/event.tsx'
export { Button, Check, Choice, type Options, TextField } from './parts/fields.tsx'
export {
  AddFilter,
  actionIn,
  actionValue,
  addFilter,
  FilterChips,
  FilterFields,
  FilterList,
  filtersOfAddress,
  sentenceOfFilter,
  useActionSuggestions,
  useEventNames,
  useEventSuggestions,
  usePropertyNames,
  usePropertyValues,
} from './parts/filters.tsx'
export { AddressFields, Ask, type FieldRecord, Fields, Form, listOf, Once } from './parts/form.tsx'
export { List } from './parts/list.tsx'
export { Menu } from './parts/menu.tsx'
export { type Note, notesOfPage, type OpenNotes } from './parts/notes.tsx'
export { act, Command, Empty, Failure, Got, Loading, Shown } from './parts/notice.tsx'
export { pageQuery } from './parts/pager.tsx'
export type { Line } from './parts/plot.tsx'
export { PropertyTable } from './parts/properties.tsx'
export { RangePicker } from './parts/range-picker.tsx'
export { Search } from './parts/search.tsx'
export { Bar, type Column, Table } from './parts/table.tsx'
export { Card, Facts, Page, Tabs, Tile, Tiles, tabOf } from './parts/tiles.tsx'
export { say } from './parts/toasts.tsx'
