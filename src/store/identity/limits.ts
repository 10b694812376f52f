/** The limits of store/identity: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Persons whose texts are kept; some megabytes. */
export const ACTOR_TEXTS_MAX = 4096
/** A longer text is not kept. */
export const ACTOR_TEXT_UNITS_MAX = 4096
/** A snapshot is read from for this long; then decisions see what was committed meanwhile. */
export const DECISION_SNAPSHOT_MS_MAX = 2
/** Bytes, about, of the persons that are kept decoded for decisions. Beyond: those of longest ago are forgotten. */
export const DECISION_PERSON_BYTES_MAX = 16 * 1024 * 1024
/** Bytes, about, of the groups that are kept for decisions until the next commit. Beyond: those of longest ago are forgotten. */
export const DECISION_GROUP_BYTES_MAX = 4 * 1024 * 1024
/** UTF-16 units of the values of a large person or group that stay read for the next decision. More: they are read again. */
export const DECISION_VALUES_UNITS_MAX = 8192
/** Bytes of a list or object among the paged properties of a person or group that flags can compare. A flag that compares a larger one fails with `pattern_limit`. */
export const COMPARED_BYTES_MAX = 16 * 1024
/** Bytes of the JSON of properties of a person or group that are stored in one record. More: in pages, so that one property can be read without the others. */
export const PAGED_BYTES_MIN = 4096
/** Bytes of a page that is compressed on the disk when that saves enough. Smaller: it is stored as it is. */
export const DEFLATED_PAGE_BYTES_MIN = 16 * 1024
/** Bytes of such a page, about. A longer property has a page of its own. */
export const PROPERTY_PAGE_BYTES = 1024
/** Stretches of 256 distinct_ids or persons, a kilobyte each, that are kept until the next commit. Beyond: all are forgotten. */
export const STRETCHES_KEPT_MAX = 4096
/** Bytes, about, of the distinct_ids that the processing thread remembers, some 60 each. Beyond: those not asked for lately are forgotten. */
export const CACHED_ID_BYTES_MAX = 32 * 1024 * 1024
/** Bytes of the key of a group in the store. Longer: it is stored under its beginning and a hash of the whole key. */
export const GROUP_KEY_BYTES_MAX = 400
/** Entries of the record of changes of a person. Beyond: a further record. */
export const PERSON_CHANGES_MAX = 64
/** Events of a person that are kept as they are, until it is read. Further: it is read, and they become one. */
export const PERSON_DELTAS_MAX = 8
/** Characters of the changes of a person that are stored apart from the person, whatever size it has. More: it is stored as a whole. */
export const CHANGES_UNITS_MAX = 4096
/** Persons whose events are applied in one run while there is nothing else to do. Further ones: in the next. */
export const FOLDED_PERSONS_MAX = 512
/** Bytes of memory, estimated, of the persons of such a run. Further ones: in the next. */
export const FOLD_BYTES_MAX = 16 * 1024 * 1024
/** How long such a run may go on reading persons, milliseconds. What is left: in the next. */
export const FOLD_MS_MAX = 50
/** Bytes of such an event. Larger: its person is read. */
export const DELTA_EVENT_BYTES_MAX = 4096
/** UTF-16 units of what is kept of such an event. More: its person is read. */
export const DELTA_UNITS_MAX = 2048
/** Bytes of the properties of such a person. More: it is read for each event. */
export const DELTA_PERSON_BYTES_MAX = 48 * 1024
/** Bytes of an e-mail address that can be searched for. Longer: cut. */
export const EMAIL_TEXT_BYTES_MAX = 256
/** Persons that `personValues` looks at, newest numbers first. */
export const VALUE_PERSONS_MAX = 100_000
/** Values of a property that are offered. Further: left out. */
export const SHOWN_VALUES_MAX = 20
/** UTF-16 units of a value that `personValues` counts; longer ones are left out. */
export const SHOWN_VALUE_UNITS_MAX = 500
/** Bytes of memory, estimated, of the persons that are cached during one page of events. Beyond: those that were not used lately are evicted. */
export const PERSON_SUMMARY_BYTES_MAX = 16 * 1024 * 1024
/** Bytes of an e-mail address that its index holds. */
export const PERSON_EMAIL_BYTES_MAX = 256
/**
 * Bytes of memory, estimated, of the persons and groups that the processing thread caches, all projects together.
 * Beyond: those that were not used lately are evicted, and read again when they are needed.
 */
export const WRITER_CACHE_BYTES_MAX = 64 * 1024 * 1024
/** Persons, newest first, or groups of a type whose properties are looked at for their names. */
export const NAMED_ACTORS_MAX = 100_000
/** Persons of a project that are read whenever somebody asks for their properties. Of more persons what was counted is kept. */
export const ACTORS_READ_MAX = 2000
/** Bytes of JSON of persons or groups that are read whenever somebody asks for their properties. Of more persons what was counted is kept; of more groups the rest is left out. */
export const ACTORS_READ_BYTES_MAX = 8 * 1024 * 1024
/** Persons that came or changed since they were counted, of whom names are looked for when somebody asks. Further ones: with the next count. */
export const RECENT_PERSONS_MAX = 256
/** Values of a property of persons that are counted ahead. More: whoever asks for values reads persons. */
export const COUNTED_VALUES_MAX = 200
/** UTF-16 units of all names and values that are counted ahead. More: the names that fewest have are left out. */
export const COUNTED_UNITS_MAX = 1024 * 1024
/** UTF-16 units of all names of properties of persons or groups. More: the names that fewest have are not listed. */
export const PROPERTY_NAMES_UNITS_MAX = 1024 * 1024
/** UTF-16 units of the name of a property of persons or groups that is listed. Longer: no list has it. */
export const ACTOR_PROPERTY_NAME_UNITS_MAX = 400
/** Stretches of 256 distinct_ids with owners that changed lately, which a project notes. More: whoever reads owners reads all of them again. */
export const OWNER_CHUNKS_NOTED_MAX = 64
