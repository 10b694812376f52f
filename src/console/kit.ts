/**
 * Re-exports everything that pages use of base/ and parts/. Pages import only this file, so that the bundler puts all
 * of it into one chunk, which is loaded with the first page.
 */
export { go, href, query, setQuery, withQuery } from './base/address.ts'
export { ApiError, get, patch, post, put, remove, type Shapes, send } from './base/api.ts'
export { ago, bytes, exact, percent, plain, seconds, time } from './base/format.ts'
export {
  counted,
  countryFlag,
  countryName,
  eventLabel,
  isTechnical,
  propertyLabel,
  valueLabel,
} from './base/labels.ts'
export { useGet, useLoaded } from './base/loaded.ts'
export { inProjectPath, pageId, pageOf, subId } from './base/page.ts'
export {
  askQuery,
  askQueryWhole,
  hasEvent,
  type PropertyFilter,
  type Query,
  type Series,
} from './base/queries.ts'
export { dateRange, interval, isCompared, isOngoing, rangeDays, rangeValue } from './base/range.ts'
export { may, project, projects, readSession } from './base/session.ts'
export { askProgress, type Tick } from './base/setup.ts'
export { Chart } from './parts/chart.tsx'
export { CopyButton, FileButton } from './parts/copy.tsx'
export { Dialog, DialogButton } from './parts/dialog.tsx'
export { EventDrawer } from './parts/event.tsx'
export { Button, Check, Choice, type Options, TextField } from './parts/fields.tsx'
export {
  AddFilter,
  addFilter,
  FilterChips,
  FilterList,
  filtersOfAddress,
  sentenceOfFilter,
  useEventNames,
  usePropertyNames,
} from './parts/filters.tsx'
export { AddressFields, Ask, type FieldRecord, Fields, Form, listOf, Once } from './parts/form.tsx'
export { List } from './parts/list.tsx'
export { act, Command, Empty, Failure, Got, Loading, Shown } from './parts/notice.tsx'
export { pageQuery } from './parts/pager.tsx'
export type { Line } from './parts/plot.tsx'
export { PropertyTable, parsed } from './parts/properties.tsx'
export { RangePicker } from './parts/range-picker.tsx'
export { Search } from './parts/search.tsx'
export { Bar, type Column, Table } from './parts/table.tsx'
export { Card, Facts, Page, Tabs, Tile, Tiles, tabOf } from './parts/tiles.tsx'
export { say } from './parts/toasts.tsx'
