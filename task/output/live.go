package output

import (
	"encoding/json"
	"fmt"
	"maps"
	"millrace/task"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Live is how an attempt stands, in its program's own words; only the latest counts.
type Live struct {
	Task    task.ID   `json:"task"`
	Attempt int       `json:"attempt"`
	Epoch   uint64    `json:"epoch"`
	At      time.Time `json:"at"`
	// Message is what it is at.
	Message string `json:"message,omitempty"`
	// Progress is how far it is, from 0 to 1; nil if nobody has said.
	Progress *float64 `json:"progress,omitempty"`
	// Metrics are its figures.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// Ready is when the program began its work, if it said so.
	Ready time.Time `json:"ready,omitzero"`
	// Phase is the one that it is in, and PhaseSince since when. Attempts without files and setup say
	// only that they stop.
	Phase      string    `json:"phase,omitempty"`
	PhaseSince time.Time `json:"phase_since,omitzero"`
}

// Bounds of what is kept of an attempt's standing.
const (
	MaxLiveMessage = 1 << 10 // bytes of its message
	MaxLiveMetrics = 64      // figures
)

// Text is the standing in one line; "" if there is nothing to say.
func (l *Live) Text() string {
	var parts []string
	if l.Progress != nil {
		parts = append(parts, fmt.Sprintf("%3.0f%%", 100**l.Progress))
	}
	if l.Message != "" {
		parts = append(parts, l.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Metrics)) {
		parts = append(parts, name+"="+strconv.FormatFloat(l.Metrics[name], 'g', 6, 64))
	}
	return strings.Join(parts, " ")
}

// Checkpoint is what another attempt of a task goes on from.
type Checkpoint struct {
	Task    task.ID   `json:"task"`
	Attempt int       `json:"attempt"`
	Epoch   uint64    `json:"epoch"`
	At      time.Time `json:"at"`
	// Value is any JSON value.
	Value json.RawMessage `json:"value"`
}

// Follows tells whether c may replace a checkpoint: one of a later epoch never
// gives way to one of an attempt that it has fenced off.
func (c *Checkpoint) Follows(before *Checkpoint) bool {
	return c.Epoch >= before.Epoch
}
