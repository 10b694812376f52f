/**
 * Configures V8 to collect young objects as rarely as possible, and old objects before there are many. Import this
 * module before anything that starts threads.
 *
 * A request leaves only some kilobytes of garbage. Rarer collections cost less, and the main thread answers no requests
 * during a collection. The main thread therefore starts with the largest space for young objects that V8 allows. V8
 * reads this size only from the command line (`--min-semi-space-size`, set by `npm start` and the systemd unit). By
 * default, V8 starts with one sixteenth of it, returns to that size whenever traffic pauses, and does not grow the
 * space for garbage that never survives.
 */
import { setFlagsFromString } from 'node:v8'

// Worker threads use V8's default or limits of their own. With this size, each thread would fill the whole space before
// it collects.
setFlagsFromString('--min-semi-space-size=0')
// Helper threads for a collection would compete with the working threads, and the collecting thread has to wait for
// them.
setFlagsFromString('--no-parallel-scavenge')
// After a start or a burst of load, and some quiet seconds, V8 collects a whole heap to release memory. The main
// thread is started with `--no-memory-reducer`, because its requests leave nothing behind, and it answers no requests
// during such a collection. Worker threads should release the memory of a large query.
setFlagsFromString('--memory-reducer')
// V8 collects a heap when it is 50 % larger than its live objects, not several times as large. Otherwise, each of a
// dozen threads would keep that much garbage.
setFlagsFromString('--heap-growing-percent=50')
