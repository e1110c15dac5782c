package incident

import (
	"encoding/json"
	"strconv"
	"time"

	"millrace/events"
)

// Manifest describes the content of a file.
type Manifest struct {
	// Incident is the version of the form.
	Incident int `json:"incident"`
	// Millrace is the version of the writing program, and Made the time of writing.
	Millrace string    `json:"millrace"`
	Made     time.Time `json:"made"`
	// Around is the request in words. Why is the failed check that caused the file, if it was not
	// requested.
	Around string `json:"around,omitempty"`
	Why    string `json:"why,omitempty"`
	// From and To bound the span. Every subject that lives in it is in the file from its beginning.
	From Point `json:"from"`
	To   Point `json:"to"`
	// Facts is how many facts the file has, and Left how many of the log up to the end of the span
	// it lacks.
	Facts int `json:"facts"`
	Left  int `json:"left_out"`
	// Tasks is how many tasks the file has, and AllOf how many the log has up to the end of the
	// span.
	Tasks   int  `json:"tasks"`
	AllOf   int  `json:"all_tasks"`
	Output  int  `json:"output"`  // batches of output lines
	Outputs bool `json:"outputs"` // output was requested
	// Results is how many results of steps the file has that the log keeps apart, and ResultsLeft how many
	// more there were: they are gone, or too large together. A redacted file has none.
	Results     int `json:"results,omitempty"`
	ResultsLeft int `json:"results_left_out,omitempty"`
	// Raw says that nothing was redacted. Otherwise Rules are the rules of redaction.
	Raw bool `json:"raw,omitempty"`
	// Import says what the log itself lacks, because it was imported from a file. Hidden is only
	// told if Raw.
	events.Import
	Rules []string `json:"rules,omitempty"`
	// AckWait is how long a silent worker keeps a lease. Settings are those of the writer.
	AckWait  string            `json:"ack_wait,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
	// Details are further hints for finding the cause: the seed of a simulation, the options of a
	// run.
	Details json.RawMessage `json:"details,omitempty"`
	// Needs are features, beyond this version, that a reader must know.
	Needs []string `json:"needs,omitempty"`
}

// Point is a place in the log.
type Point struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
}

// Lines are a batch of a task's output, as in its stream.
type Lines struct {
	Seq     uint64          `json:"seq"`
	Stored  time.Time       `json:"stored"`
	Subject string          `json:"subject"`
	Body    json.RawMessage `json:"body"`
}

// Result is the result of a step that the log keeps apart. Body has its very bytes, for the log has their digest.
type Result struct {
	Task   string `json:"task"`
	Digest string `json:"digest"`
	Body   []byte `json:"body"`
}

// Note is a person's remark at a place. A note replaces an earlier one of the same name.
type Note struct {
	Name string    `json:"name"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Text string    `json:"note,omitempty"`
	By   string    `json:"by,omitempty"`
	// Made is when.
	Made time.Time `json:"made,omitzero"`
}

// entry is a line of the index.
type entry struct {
	Of    string `json:"of"`
	Facts int    `json:"facts"`
}

// thing is the subject of a record in the index; "" if it has none.
func thing(r *events.Record) string {
	switch {
	case !r.IsFact():
		return ""
	case r.Fact.Task != "":
		return "task " + string(r.Fact.Task)
	case r.Err != nil:
		return "message " + strconv.FormatUint(r.Seq, 10)
	}
	return r.Kind.String() + " " + r.Fact.About()
}

// ending is the line of the last block.
type ending struct {
	Blocks   []Block  `json:"blocks"`
	Manifest Manifest `json:"manifest"`
}
