package jet

import (
	"testing"
	"time"

	"millrace/events/jet/definitions"
	"millrace/events/logtest"
	"millrace/internal/files"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/placement"
	"millrace/task/schedule"
)

// Messages beside the facts, and definitions. None names a version: a message of another form gets
// another subject.
func TestMessageCorpus(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	logtest.JSONCorpus[node.Heartbeat](t, "testdata/corpus/heartbeat")
	logtest.JSONCorpus[node.Pong](t, "testdata/corpus/pong")
	logtest.JSONCorpus[output.Live](t, "testdata/corpus/live")
	logtest.JSONCorpus[output.Checkpoint](t, "testdata/corpus/checkpoint")
	logtest.JSONCorpus[duties.Ran](t, "testdata/corpus/ran")
	logtest.JSONCorpus[placement.Declaration](t, "testdata/corpus/selector")
	logtest.Kept(t, "testdata/corpus/lane", laneWord{From: 7, Until: at, Closed: true})
	logtest.JSONCorpus[output.Lines](t, "testdata/corpus/lines")
	logtest.JSONCorpus[output.Records](t, "testdata/corpus/records")
	logtest.JSONCorpus[task.Left](t, "testdata/corpus/left")
	logtest.JSONCorpus[files.Version](t, "testdata/corpus/version")
	logtest.JSONCorpus[job.Job](t, "testdata/corpus/job")
	logtest.JSONCorpus[schedule.Definition](t, "testdata/corpus/schedule")
	logtest.JSONCorpus[schedule.Calendar](t, "testdata/corpus/calendar")
	logtest.JSONCorpus[definitions.NamedVersion](t, "testdata/corpus/bundle")
	logtest.JSONCorpus[definitions.Token](t, "testdata/corpus/token")
	logtest.JSONCorpus[definitions.TokenUse](t, "testdata/corpus/token_used")
}
