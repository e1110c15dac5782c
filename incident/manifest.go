package incident

import (
	"encoding/json"
	"strconv"
	"time"

	"millrace/events"
)

// Manifest says what a file holds.
type Manifest struct {
	// Incident is the version of the form.
	Incident int `json:"incident"`
	// Millrace is the version of the program that has written it, and Made when that was.
	Millrace string    `json:"millrace"`
	Made     time.Time `json:"made"`
	// Around is what was asked for, in words; Why is why it was written, if nobody has asked: which check has failed.
	Around string `json:"around,omitempty"`
	Why    string `json:"why,omitempty"`
	// From and To bound the span: everything that lives in it is there, from its beginning on.
	From Point `json:"from"`
	To   Point `json:"to"`
	// Facts is how many facts are there, and Left how many of the log up to the end of the span were left out.
	Facts int `json:"facts"`
	Left  int `json:"left_out"`
	// Tasks is how many tasks are there, of so many that the log has up to the end of the span.
	Tasks   int  `json:"tasks"`
	AllOf   int  `json:"all_tasks"`
	Output  int  `json:"output"`  // batches of lines that tasks have printed
	Outputs bool `json:"outputs"` // they were asked for
	// Raw says that nothing was redacted; else Rules are the rules by which that was done.
	Raw   bool     `json:"raw,omitempty"`
	Rules []string `json:"rules,omitempty"`
	// AckWait is how long a silent worker keeps a lease, and Settings are those of who has written the file.
	AckWait  string            `json:"ack_wait,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
	// Details are what else helps to find the cause: the seed of a simulation, the options of a run.
	Details json.RawMessage `json:"details,omitempty"`
	// Needs are what a reader must know beyond this version, to read it rightly.
	Needs []string `json:"needs,omitempty"`
}

// Point is a place in the log.
type Point struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
}

// Lines are a batch of what a task has printed, as its stream has it.
type Lines struct {
	Seq     uint64          `json:"seq"`
	Stored  time.Time       `json:"stored"`
	Subject string          `json:"subject"`
	Body    json.RawMessage `json:"body"`
}

// Note is what somebody has noted at a place. One of the same name comes in its stead.
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

// thing is what a record is about, as the index has it; "" if that is nothing.
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
