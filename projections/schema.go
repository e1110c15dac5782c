package projections

import (
	"fmt"
	"hash/crc32"
	"strings"
	"sync"

	"millrace/internal/form"
	"millrace/projections/past"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
)

// applicationID identifies our files.
const applicationID = 0x4d696c6c // "Mill"

// foldVersion must be raised when the same facts give other rows without a change of tables or
// fields, or when the form of the index of the past changes.
const foldVersion = 19

// schemaVersion identifies the version of a file. Files of other versions are not migrated but
// rebuilt from the log. It is computed from everything that makes a row: a field added to a task, a
// node, a queue, a definition or a tally changes it.
var schemaVersion = sync.OnceValue(func() int {
	sum := crc32.NewIEEE()
	fmt.Fprintln(sum, foldVersion, tables, form.Shape[task.Task](), form.Shape[node.Node](), form.Shape[queue.Queue](),
		form.Shape[task.Definition](), form.Shape[limit.Tally](), form.Shape[task.JobTallied](), past.Shape())
	return int(sum.Sum32() >> 1) // SQLite keeps a signed number of 32 bits
})

// inStateIndex is the condition of the index tasks_state. A query must state it for SQLite to use
// that index. NOT IN would make SQLite build a table of the three values for each statement that
// writes.
var inStateIndex = fmt.Sprintf("state <> %d AND state <> %d AND state <> %d", task.Unknown, task.Pending, task.Finished)

// Rows are written far more often than read, so there are few columns and indexes: a column exists
// if a filter uses it, and a row is in at most one of the indexes by state. A finished task is in
// none, and finding the newest of these needs only the key. Dead letters have an index of their own:
// they are few among those that ended as error. tasks.doc has the fields of the folded
// task without a column.
//
// Besides its key, tasks has no column that is NOT NULL, though few may be NULL. With a constraint that
// may fail, SQLite keeps a journal of each statement that updates several rows, which costs a twentieth
// of the fold.
//
// Instants are microseconds since 1970. A row of state 0 is a task with only unreadable messages;
// lists omit it.
var tables = fmt.Sprintf(`
CREATE TABLE tasks (
%[2]s
) WITHOUT ROWID;
CREATE INDEX tasks_waits    ON tasks (queue, id, waits) WHERE waits IS NOT NULL;
CREATE INDEX tasks_state    ON tasks (state, id, node)  WHERE %[1]s;
CREATE INDEX tasks_assign   ON tasks (queue, assign)    WHERE assign IS NOT NULL;
CREATE INDEX tasks_deadline ON tasks (deadline)         WHERE deadline IS NOT NULL;
CREATE INDEX tasks_dead     ON tasks (dead, id)         WHERE dead IS NOT NULL;
CREATE INDEX tasks_approval ON tasks (approval, id)     WHERE approval IS NOT NULL;

-- How many tasks there are, so that counting costs nothing. Home is the queue as people call it: of the
-- route of a selector that whose nodes it chooses, and of one of nodes by name that of the task.
CREATE TABLE counts (
	queue TEXT    NOT NULL,
	home  TEXT    NOT NULL,
	state INTEGER NOT NULL,
	n     INTEGER NOT NULL,
	PRIMARY KEY (queue, home, state)
) WITHOUT ROWID;

-- A node, a queue or a definition is its fold, as JSON: there are few, and nothing filters on a part of one.
CREATE TABLE subjects (
	kind INTEGER NOT NULL,
	id   TEXT    NOT NULL,
	doc  TEXT    NOT NULL,
	PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- The same as it was after each of its facts, by the sequence of the fact.
CREATE TABLE versions (
	kind INTEGER NOT NULL,
	id   TEXT    NOT NULL,
	seq  INTEGER NOT NULL,
	doc  TEXT    NOT NULL,
	PRIMARY KEY (kind, id, seq)
) WITHOUT ROWID;

-- What the limits have admitted and nobody is known to have offered, and their buckets:
-- until when each is used up, in nanoseconds since 1970.
CREATE TABLE grants (
	task  TEXT    NOT NULL PRIMARY KEY,
	turn  INTEGER NOT NULL,
	rated INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE rates (
	name TEXT    NOT NULL PRIMARY KEY,
	used INTEGER NOT NULL
) WITHOUT ROWID;

-- What is used up of budgets, as JSON, and when that counts no more, in nanoseconds since 1970.
CREATE TABLE budgets (
	name  TEXT    NOT NULL PRIMARY KEY,
	doc   TEXT    NOT NULL,
	blank INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE poison (
	seq    INTEGER PRIMARY KEY,
	place  TEXT NOT NULL,
	reason TEXT NOT NULL,
	raw    BLOB NOT NULL
);

CREATE TABLE counters (
	name TEXT NOT NULL PRIMARY KEY,
	n    INTEGER NOT NULL
) WITHOUT ROWID;

-- The sums of the tasks of jobs that the log has forgotten, as JSON.
CREATE TABLE tallies (
	job TEXT NOT NULL PRIMARY KEY,
	doc TEXT NOT NULL
) WITHOUT ROWID;

-- The one row says how far the fold has come. The anchor is a fact of a kind that
-- stays in the log, at or before that: it tells this log from another.
CREATE TABLE reached (
	seq       INTEGER NOT NULL,
	anchor    INTEGER NOT NULL,
	anchor_id TEXT    NOT NULL,
	first     INTEGER NOT NULL, -- the first sequence folded
	-- How many bytes the index of the past has up to there, and their sum.
	past      INTEGER NOT NULL,
	past_sum  INTEGER NOT NULL,
	trims     INTEGER NOT NULL, -- how often it was trimmed
	-- The horizon of the log, up to which the rows have forgotten, and of which sequence they first tell all.
	below     INTEGER NOT NULL,
	forgot    INTEGER NOT NULL,
	before    INTEGER NOT NULL, -- when the log stored the first message that stays
	whole     INTEGER NOT NULL
);
INSERT INTO reached VALUES (0, 0, '', 0, 0, 0, 0, 0, 0, 0, 0);
`, inStateIndex, columnsDDL())

// schema creates the tables, and marks the file with its kind and version.
func schema() string {
	return fmt.Sprintf("%s\nPRAGMA application_id = %d;\nPRAGMA user_version = %d;\n", tables, applicationID, schemaVersion())
}

// columnsDDL declares the columns of table tasks.
func columnsDDL() string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString("\t" + c.name + " " + c.kind + ",\n")
	}
	return b.String() + "\tdoc TEXT,\n\tnumber INTEGER -- in the index of the past"
}
