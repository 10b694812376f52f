/**
 * Configures V8 to collect young objects as rarely as possible, and old objects before there are many. Import this
 * module before anything that starts threads.
 *
 * A request leaves only some kilobytes of garbage. Rarer collections cost less, and the main thread answers no requests
 * during a collection. The main thread therefore starts with the largest space for young objects that V8 allows. V8
 * reads this size only from the command line (`--min-semi-space-size`, set by `npm start` and the systemd unit). By
 * default, V8 starts with one sixteenth of this size and returns to it whenever traffic pauses. It enlarges the space
 * only for objects that survive a collection, and the garbage of requests does not survive.
 */
import { setFlagsFromString } from 'node:v8'

// Worker threads use V8's default or limits of their own. With the size of the main thread, each worker thread would
// fill the whole space before it collects.
setFlagsFromString('--min-semi-space-size=0')
// Each thread collects its young objects without helper threads. Helper threads would compete with the threads that do
// the work, and the collecting thread would have to wait for them.
setFlagsFromString('--no-parallel-scavenge')
// With the memory reducer, V8 collects a whole heap some quiet seconds after a start or a burst of load, to release
// memory. Worker threads need it after a large query. The main thread is started with `--no-memory-reducer`: its
// requests leave nothing to release, and it would answer no requests during such a collection.
setFlagsFromString('--memory-reducer')
// V8 collects a heap when it is 50 % larger than its live objects. By default, V8 waits until the heap is several times
// as large, and each of a dozen threads would keep that much garbage.
setFlagsFromString('--heap-growing-percent=50')
