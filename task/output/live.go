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

// Live is the standing of an attempt, as its program reports it; only the latest counts.
type Live struct {
	// Task, Attempt and Epoch name the attempt. At is when it reported.
	Task    task.ID   `json:"task"`
	Attempt int       `json:"attempt"`
	Epoch   uint64    `json:"epoch"`
	At      time.Time `json:"at"`
	// Message is the program's present activity.
	Message string `json:"message,omitempty"`
	// Progress is from 0 to 1; nil if the program has reported none.
	Progress *float64 `json:"progress,omitempty"`
	// Metrics are figures that the program reports.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// Ready is when the program reported the beginning of its work.
	Ready time.Time `json:"ready,omitzero"`
	// Phase is its present phase, and PhaseSince when that began. Attempts without files and setup
	// only report the stop phase.
	Phase      string    `json:"phase,omitempty"`
	PhaseSince time.Time `json:"phase_since,omitzero"`
}

// Bounds of a stored standing.
const (
	MaxLiveMessage = 1 << 10 // bytes of its message
	MaxLiveMetrics = 64      // figures
)

// Text is the standing in one line; "" if it is empty.
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

// Checkpoint is the state from which another attempt of a task continues.
type Checkpoint struct {
	Task    task.ID   `json:"task"`
	Attempt int       `json:"attempt"`
	Epoch   uint64    `json:"epoch"`
	At      time.Time `json:"at"`
	// Value is any JSON value.
	Value json.RawMessage `json:"value"`
}

// Follows tells whether c may replace a checkpoint: a checkpoint of a later epoch is never replaced
// by one of a fenced attempt.
func (c *Checkpoint) Follows(before *Checkpoint) bool {
	return c.Epoch >= before.Epoch
}
