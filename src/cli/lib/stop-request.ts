/** Listens for the signals that ask a daemon to stop. */
import type { CommandIo } from './command.ts'

/** A request to stop that may come at any time. */
export interface StopRequest {
  readonly requested: Promise<void>
  /** Asks for it from within the process. */
  request(): void
  /** Stops listening. */
  forget(): void
}

/** Listens from the beginning, so that a signal during the start is not lost. A second signal ends the process. */
export function watchStopSignals(io: CommandIo): StopRequest {
  let isRequested = false
  let resolveRequest: () => void = () => {}
  const requested = new Promise<void>((resolve) => {
    resolveRequest = resolve
  })
  const request = (): void => {
    isRequested = true
    resolveRequest()
  }
  const forget = io.onStopSignal(() => {
    if (isRequested) io.exitNow(1)
    request()
  })
  return { requested, request, forget }
}
