package task

import (
	"encoding/json"
	"time"
)

// Lines is a batch of what an attempt printed.
type Lines struct {
	Task    ID     `json:"task"`
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
	Lines   []Line `json:"lines"`
}

// Streams of a [Line].
const (
	Stdout = "stdout"
	Stderr = "stderr"
	// Log lines are entries with a level, and perhaps fields.
	Log = "log"
	// Status lines are what the program said of its progress.
	Status = "status"
	// System lines are Millrace's own remarks.
	System = "system"
	// Setup lines are what the setup commands of a task printed.
	Setup = "setup"
)

// Line is one line of output, or a piece of a very long one.
type Line struct {
	// N counts the lines of the attempt, from 1.
	N      int       `json:"n"`
	At     time.Time `json:"at"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
	// Level is debug, info, warn or error, for entries of a log.
	Level string `json:"level,omitempty"`
	// Fields is a JSON object, or nil.
	Fields json.RawMessage `json:"fields,omitempty"`
	// More says that the line goes on in the next one of its stream.
	More bool `json:"more,omitempty"`
}

// Records is a batch of what an attempt produced.
type Records struct {
	Task    ID     `json:"task"`
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
	// First is the number of the first item within the attempt, from 0.
	First int               `json:"first"`
	Items []json.RawMessage `json:"items"`
}
